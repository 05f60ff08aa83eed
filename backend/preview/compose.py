"""A container as a docker compose file: YAML 1.2 that reads the same in YAML 1.1, with compose's own $ doubled."""

import re
from typing import Any

import yaml

from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec
from backend.preview.container import DockerCommand, read_docker_command
from backend.preview.secret_text import Pieces, Secrets, secrets_of, variables_in

_NO_FILE_CHARACTER = re.compile(r"[\ud800-\udfff]")


class _Quoted(str):
    """A text that stays one: "1e3", "0o7" and "no" are something else in some YAML."""


class _Dumper(yaml.SafeDumper):
    """Without anchors, which a file for people does not need."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


def compose_text(spec: LaunchSpec) -> str:
    """The compose file of a docker command. Hidden values are ${NAME:?}: unset, compose refuses to start.

    Raises:
        LaunchError: the command has an option of no compose form here, or a text that no file can hold.
    """
    command = read_docker_command(spec)
    hidden = secrets_of(spec.env, spec.secrets)
    service = {
        "image": _text(hidden.pieces(command.image)),
        "container_name": _text(hidden.pieces(command.name)),
        "entrypoint": [_text(hidden.pieces(word)) for word in command.entrypoint],
        "command": [_text(hidden.pieces(word)) for word in command.arguments],
        "environment": {name: _text(pieces) for name, pieces in hidden.shown(command.env).items()},
        "ports": [_text(hidden.pieces(port)) for port in command.publish],
        "volumes": [_volume(mount.source, mount.target, hidden) for mount in command.mounts],
        "shm_size": _Quoted(command.shared_memory),
        "deploy": _cards(command),
    }
    kept = {key: value for key, value in service.items() if value}
    name = re.sub(r"[^a-z0-9_-]", "-", command.name.lower()).strip("-_") or "volta"
    return yaml.dump(
        {"name": _Quoted(name), "services": {"engine": kept}},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1_000_000,
    )


def compose_variables(spec: LaunchSpec) -> tuple[str, ...]:
    """The variables that must be set before the file is used."""
    command = read_docker_command(spec)
    hidden = secrets_of(spec.env, spec.secrets)
    words = (command.image, command.name, *command.entrypoint, *command.arguments, *command.publish)
    places = [part for mount in command.mounts for part in (mount.source, mount.target)]
    return variables_in([*hidden.shown(command.env).values(), *map(hidden.pieces, (*words, *places))])


def _volume(source: str, target: str, hidden: Secrets) -> dict[str, Any]:
    return {
        "type": "bind",
        "source": _text(hidden.pieces(source)),
        "target": _text(hidden.pieces(target)),
        "read_only": True,
        "bind": {"create_host_path": False},  # a folder that is not there is an error, as for docker run --mount
    }


def _cards(command: DockerCommand) -> dict[str, Any]:
    if not command.cards and command.card_count is None:
        return {}
    which: dict[str, Any] = {"device_ids": [_Quoted(card) for card in command.cards]}
    if not command.cards:
        which = {"count": "all" if command.card_count == -1 else command.card_count}
    return {"resources": {"reservations": {"devices": [{"driver": "nvidia", **which, "capabilities": ["gpu"]}]}}}


def _text(pieces: Pieces) -> _Quoted:
    return _Quoted("".join(_escaped(piece) if isinstance(piece, str) else f"${{{piece.name}:?}}" for piece in pieces))


def _escaped(text: str) -> str:
    if _NO_FILE_CHARACTER.search(text):
        raise LaunchError("A text of the command is not UTF-8, which a compose file must be.")
    return text.replace("$", "$$")
