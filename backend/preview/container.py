"""One engine as a container: a docker command taken apart, and the command of a Python environment turned into one.

Turned around, it is what planning would have said of the same preset on an image: the model is seen at /model, the
engine listens inside, docker publishes its port on the same address only.
"""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from backend.errors import LaunchError
from backend.launch.container import DRAFT_MODEL_MOUNT, MODEL_MOUNT, SERVER_MODULE, Container, remove_words, run_words
from backend.launch.engine_kind import EngineKind
from backend.launch.plan import LaunchSpec
from backend.preview.secret_text import secrets_of

_FILE_FLAGS = frozenset(
    ["--tokenizer", "--chat-template", "--hf-config-path", "--generation-config", "--reasoning-parser-plugin"]
    + ["--tool-parser-plugin", "--config", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs"]
)
"""Flags that name a file or a folder to be read; seen inside at the same place."""

_CARD_VARIABLES = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
_VALUED = frozenset({"--name", "--gpus", "--shm-size", "--publish", "--mount", "--env", "--entrypoint"})


@dataclass(frozen=True)
class Mount:
    """A folder of the machine, seen inside; read-only."""

    source: str
    target: str


@dataclass(frozen=True)
class DockerCommand:
    """A `docker run` of ours, taken apart."""

    name: str
    image: str
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]  # behind the image
    publish: tuple[str, ...]  # address:port:port
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cards: tuple[str, ...] = ()  # UUIDs
    card_count: int | None = None  # without UUIDs; -1: all; None: none
    shared_memory: str = ""


def is_docker(spec: LaunchSpec) -> bool:
    """Whether the command is a docker client's own."""
    return spec.argv[1:2] == ("run",) and Path(spec.argv[0]).name == "docker"


def in_container(spec: LaunchSpec, image: str) -> LaunchSpec:
    """The same engine in an image. A docker command stays as it is, whatever the image.

    Raises:
        LaunchError: the command is not that of a vLLM server, so its arguments cannot be taken over.
    """
    if is_docker(spec):
        return spec
    arguments, mounts = _inside(_server_arguments(spec))
    dropped = _CARD_VARIABLES if spec.gpus else frozenset[str]()
    env = {name: value for name, value in spec.env.items() if name not in dropped}
    hidden = {name: env[name] for name in secrets_of(env, spec.secrets).names}
    container = Container(
        name=re.sub(r"[^a-zA-Z0-9_.-]", "-", f"volta-{spec.preset or 'engine'}-{spec.port}"),
        image=image,
        docker=Path("docker"),
        host=spec.host,
        port=spec.port,
        gpus=spec.gpus,
        needs_gpu=spec.kind is not EngineKind.CPU,
        gpu_count=spec.context.gpus or None,
        mounts=mounts,
    )
    passed = [name if name in hidden else f"{name}={value}" for name, value in env.items()]
    return replace(spec, argv=(*run_words(container, passed), *arguments), env=hidden, cleanup=remove_words(container))


def read_docker_command(spec: LaunchSpec) -> DockerCommand:
    """The parts of a docker command as `run_words` spells it.

    Raises:
        LaunchError: it has an option that `run_words` does not write.
    """
    rest = list(spec.argv[2:])
    options: dict[str, list[str]] = {name: [] for name in _VALUED}
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _VALUED and rest:
            options[option].append(rest.pop(0))
        elif option != "--rm":
            raise LaunchError(f"docker run {option} cannot be written in another form.")
    if not rest:
        raise LaunchError("docker run names no image.")
    cards, count = _cards(options["--gpus"])
    return DockerCommand(
        name="".join(options["--name"][-1:]),
        image=rest[0],
        entrypoint=tuple(options["--entrypoint"][-1:]),
        arguments=tuple(rest[1:]),
        publish=tuple(options["--publish"]),
        mounts=tuple(map(_mount, options["--mount"])),
        env=dict(_variable(word, spec.env) for word in options["--env"]),
        cards=cards,
        card_count=count,
        shared_memory="".join(options["--shm-size"][-1:]),
    )


def _server_arguments(spec: LaunchSpec) -> list[str]:
    start = ("-m", SERVER_MODULE)
    for place in range(1, min(len(spec.argv), 8)):
        if spec.argv[place : place + 2] == start:
            return list(spec.argv[place + 2 :])
    raise LaunchError(f"{spec.title or 'The command'} is no vLLM server, so there is no image that runs it.")


def _inside(arguments: list[str]) -> tuple[list[str], tuple[tuple[Path, str], ...]]:
    """The arguments as they read in the container, and the folders they need there."""
    mounts: dict[str, str] = {}
    words = list(arguments)
    for place, option in enumerate(words[:-1]):
        value = words[place + 1]
        if option == "--host":
            words[place + 1] = "0.0.0.0"  # inside; docker publishes it on the spec's address only
        elif option == "--model" and value.startswith("/"):
            words[place + 1] = mounts.setdefault(value, MODEL_MOUNT)
        elif option == "--speculative-config":
            words[place + 1] = _draft_inside(value, mounts)
        elif option in _FILE_FLAGS and value.startswith("/"):
            words[place + 1] = mounts.setdefault(value, value)
    return words, tuple((Path(source), target) for source, target in mounts.items())


def _draft_inside(config: str, mounts: dict[str, str]) -> str:
    try:
        values = json.loads(config)
    except ValueError:
        return config  # the engine says what is wrong with it
    folder = values.get("model") if isinstance(values, dict) else None
    if not (isinstance(folder, str) and folder.startswith("/")):
        return config
    return json.dumps({**values, "model": mounts.setdefault(folder, DRAFT_MODEL_MOUNT)})


def _cards(values: list[str]) -> tuple[tuple[str, ...], int | None]:
    if not values:
        return (), None
    value = values[-1].strip('"')
    if value.startswith("device="):
        return tuple(value.removeprefix("device=").split(",")), None
    if value == "all" or value.isdecimal():
        return (), -1 if value == "all" else int(value)
    raise LaunchError(f"docker run --gpus {value} cannot be written in another form.")


def _mount(value: str) -> Mount:
    parts = dict(part.partition("=")[::2] for part in next(csv.reader([value])))
    if parts.get("type") != "bind" or "readonly" not in parts or not {"source", "target"} <= parts.keys():
        raise LaunchError(f"docker run --mount {value} cannot be written in another form.")
    return Mount(parts["source"], parts["target"])


def _variable(word: str, env: Mapping[str, str]) -> tuple[str, str]:
    """A variable by name has its value from the client's environment."""
    name, equals, value = word.partition("=")
    return name, value if equals else env.get(name, "")
