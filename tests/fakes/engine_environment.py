"""An engine environment whose Python runs the fake engine: the panel's own presets start it like any other."""

import json
import shlex
import sys
from pathlib import Path

from backend.environment.environment import EngineEnvironment, EnvironmentState, write_environment
from backend.environment.help_text import parse_help
from backend.environment.probe import EnvironmentProbe, environment_identity, keep_probe
from backend.state_folder import StateFolder

ENGINE = Path(__file__).with_name("engine_process.py")


FLAGS = Path(__file__).parents[1] / "backend/launch/flags/vllm-0.32.0.txt"


def make_fake_environment(folder: StateFolder, *options: str, model: str = "SmolLM2-135M-Instruct") -> None:
    """Put a READY cpu environment and a model of this name into a state folder.

    `options` go to the fake engine, and so does what a preset sets as FAKE_ENGINE_OPTIONS.
    """
    environment = EngineEnvironment(
        id="fake", recipe="cpu", folder=folder.environments / "fake", state=EnvironmentState.READY, ready_at=1.0
    )
    environment.python.parent.mkdir(parents=True)
    command = shlex.join((sys.executable, str(ENGINE)))
    # what comes first is vLLM's own start: -P -m vllm.entrypoints.openai.api_server
    environment.python.write_text(
        f'#!/bin/sh\nshift 3\nexec {command} "$@" {shlex.join(options)} $FAKE_ENGINE_OPTIONS\n'
    )
    environment.python.chmod(0o755)
    write_environment(environment)
    keep_probe(environment, _probe(environment))
    (folder.models / "fake").mkdir()
    (folder.models / "fake" / "model.json").write_text(json.dumps({"name": model}))


def _probe(environment: EngineEnvironment) -> EnvironmentProbe:
    """What a look would find in the real CPU engine; looking at this one would start the fake engine."""
    flags, choices = parse_help(FLAGS.read_text(encoding="utf-8"))
    return EnvironmentProbe(
        identity=environment_identity(environment),
        taken_at=1.0,
        python="3.11.7",
        vllm="0.32.0",
        torch="2.13.0+cpu",
        transformers="5.19.0",
        cuda=None,
        torch_archs=(),
        plugins=(),
        flags=flags,
        is_cpu_build=True,
        choices=choices,
    )
