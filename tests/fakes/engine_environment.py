"""An engine environment whose Python runs the fake engine: the panel's own presets start it like any other."""

import json
import shlex
import sys
from pathlib import Path

from backend.environment.environment import EngineEnvironment, EnvironmentState, write_environment
from backend.state_folder import StateFolder

ENGINE = Path(__file__).with_name("engine_process.py")


def make_fake_environment(folder: StateFolder, *options: str, model: str = "SmolLM2-135M-Instruct") -> None:
    """Put a READY cpu environment and a model of this name into a state folder. `options` go to the fake engine."""
    environment = EngineEnvironment(
        id="fake", recipe="cpu", folder=folder.environments / "fake", state=EnvironmentState.READY, ready_at=1.0
    )
    environment.python.parent.mkdir(parents=True)
    command = shlex.join((sys.executable, str(ENGINE)))
    # what comes first is vLLM's own start: -P -m vllm.entrypoints.openai.api_server
    environment.python.write_text(f'#!/bin/sh\nshift 3\nexec {command} "$@" {shlex.join(options)}\n')
    environment.python.chmod(0o755)
    write_environment(environment)
    (folder.models / "fake").mkdir()
    (folder.models / "fake" / "model.json").write_text(json.dumps({"name": model}))
