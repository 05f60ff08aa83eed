"""Twelve ways to make a real engine fail, each through a preset that a person could have written.

The engine is the real one of the prepared state folder. Its Python is called by way of a small script, as labs do, that can
add arguments and limit memory: so what no preset would let through reaches the engine too.
"""

import json
import os
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState, write_environment
from backend.state_folder import StateFolder
from tests.panel_process import PanelProcess, wait_until

WRAPPER = """\
#!/bin/sh
[ -z "$LAB_LIMIT_KIB" ] || ulimit -v "$LAB_LIMIT_KIB"
# shellcheck disable=SC2086 # several arguments
exec {python} "$@" $LAB_ARGUMENTS
"""


@dataclass(frozen=True)
class BrokenLaunch:
    """One failure: what its preset changes, what is done to its model folder, what happens while it starts."""

    name: str
    rules: frozenset[str]  # the causes that are right for it
    preset: Mapping[str, Any] = field(default_factory=dict)
    damage: Callable[[Path], None] | None = None  # to a copy of the model's folder
    meanwhile: Callable[[PanelProcess, str], None] | None = None  # gets the engine's id
    button: str = ""  # what a fix button says, where there is one


def remove(*patterns: str) -> Callable[[Path], None]:
    """Removes files of the model."""

    def damage(folder: Path) -> None:
        for pattern in patterns:
            for path in folder.glob(pattern):
                path.unlink()

    return damage


def cut_weights(folder: Path) -> None:
    """As an interrupted copy leaves them."""
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()  # a hard link: the real file must stay whole
    weights.write_bytes(content[: len(content) // 2])


def unknown_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "zephyr9", "architectures": ["Zephyr9LM"]}))


def take_port(panel: PanelProcess, engine_id: str) -> None:
    """Listen where the engine is about to: it binds only after some seconds of loading."""
    record = json.loads((panel.home / "engines" / engine_id / "record.json").read_text())
    listener = socket.create_server(("127.0.0.1", record["spec"]["port"]))
    _HELD.append(listener)


def kill_leader(panel: PanelProcess, engine_id: str) -> None:
    """What an administrator's `kill -9` does."""
    path = panel.home / "engines" / engine_id / "runs" / "1" / "process.json"
    wait_until(path.exists, 30, "the engine did not come to life")
    time.sleep(3)  # into its start
    os.kill(json.loads(path.read_text())["leader"]["pid"], signal.SIGKILL)


_HELD: list[socket.socket] = []


def release_ports() -> None:
    """Close what take_port opened."""
    while _HELD:
        _HELD.pop().close()


BROKEN_LAUNCHES = (
    BrokenLaunch("wrong path", frozenset({"wrong_path"}), {"flags": {"tokenizer": "/no/such/folder"}}),
    BrokenLaunch(
        "unknown flag",
        frozenset({"unknown_flag"}),
        {"env": {"LAB_ARGUMENTS": "--swap-space 4"}},
    ),
    BrokenLaunch("port taken", frozenset({"port_taken"}), meanwhile=take_port, button="another port"),
    BrokenLaunch(
        "context too long",
        frozenset({"context_too_long"}),
        {"context": 32768, "kv_cache_gib": 0.5},
        button="8192 tokens",
    ),
    BrokenLaunch("corrupt weights", frozenset({"weights_corrupt"}), damage=cut_weights),
    BrokenLaunch("no tokenizer", frozenset({"tokenizer_missing"}), damage=remove("tokenizer*", "*merges*", "*vocab*")),
    BrokenLaunch("RAM exhausted", frozenset({"host_memory"}), {"env": {"LAB_LIMIT_KIB": "2500000"}}),
    BrokenLaunch("killed", frozenset({"killed"}), meanwhile=kill_leader),
    BrokenLaunch("unknown architecture", frozenset({"unknown_architecture"}), damage=unknown_architecture),
    BrokenLaunch(
        "bad quantization",
        frozenset({"quantization_mismatch", "unknown_quantization"}),
        {"env": {"LAB_ARGUMENTS": "--quantization awq"}},
    ),
    BrokenLaunch(
        "KV too small",
        frozenset({"kv_too_small"}),
        {"kv_cache_gib": 0.04, "max_sequences": 4},
        button="tokens of context",
    ),
    BrokenLaunch(
        "bad TP",
        frozenset({"tensor_parallel_indivisible"}),
        {"env": {"LAB_ARGUMENTS": "--tensor-parallel-size 2"}},
    ),
)


def make_home(folder: StateFolder, prepared: StateFolder, engine: EngineEnvironment) -> None:
    """A state folder with the wrapped engine, and a preset and a model for each broken launch."""
    folder.create()
    _wrap(folder, engine)
    source = next(path.parent for path in prepared.models.glob("*/model.json"))
    for number, broken in enumerate(BROKEN_LAUNCHES):
        _add_preset(folder, broken, number, source)


def preset_name(number: int) -> str:
    return f"broken-{number}"


def _wrap(folder: StateFolder, engine: EngineEnvironment) -> None:
    script = folder.root / "lab" / "bin" / "python"
    script.parent.mkdir(parents=True)
    script.write_text(WRAPPER.format(python=engine.python))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (folder.environments / "lab").mkdir()
    write_environment(
        EngineEnvironment(
            id="lab",
            recipe="",
            folder=folder.environments / "lab",
            state=EnvironmentState.READY,
            kind=EnvironmentKind.PYTHON,
            title="The lab's own",
            external_python=script,
            ready_at=1.0,
        )
    )


def _add_preset(folder: StateFolder, broken: BrokenLaunch, number: int, source: Path) -> None:
    name = preset_name(number)
    model = folder.models / name
    shutil.copytree(source, model, copy_function=os.link)
    (model / "model.json").unlink()
    (model / "model.json").write_text(json.dumps({"name": name}))
    if broken.damage is not None:
        broken.damage(model)
    values = {
        "name": name,
        "title": {"en": f"Broken: {broken.name}", "zh": f"故障：{broken.name}"},
        "summary": {"en": "Fails on purpose.", "zh": "用于测试。"},
        "model": {"name": name},
        "served_name": name,
        "engine": "cpu",
        "dtype": "float32",
        "context": 2048,
        "kv_cache_gib": 0.25,
        "eager": True,
        **broken.preset,
    }
    (folder.presets / f"{name}.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
