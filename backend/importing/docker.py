"""A `docker run` command line taken apart: image, arguments behind it, variables, folders; the rest is only named."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.errors import PresetError

_ALONE = frozenset(
    ["detach", "init", "interactive", "no-healthcheck", "oom-kill-disable", "privileged", "publish-all", "quiet"]
    + ["read-only", "rm", "sig-proxy", "tty", "use-api-socket", "disable-content-trust"]
)
_ALONE_SHORT = frozenset("ditPq")
_SHORT = {"e": "env", "v": "volume", "p": "publish"}


@dataclass(frozen=True)
class DockerRun:
    """What a `docker run` says."""

    image: str
    arguments: tuple[str, ...]  # behind the image
    env: Mapping[str, str]
    folders: Mapping[str, str]  # as the container calls them: where they lie on the machine
    cards: str  # the value of --gpus, "" without
    left_out: tuple[str, ...]  # further options, as written


def read_docker_run(words: Sequence[str]) -> DockerRun:
    """The words behind `docker run`.

    Raises:
        PresetError: there is no image, or an option's value is missing.
    """
    env: dict[str, str] = {}
    folders: dict[str, str] = {}
    left_out: list[str] = []
    cards = ""
    entrypoint: tuple[str, ...] = ()
    rest = list(words)
    while rest and rest[0].startswith("-"):
        spelled = rest[0]
        name, value = _option(rest)
        if name == "env" and value is not None:
            key, equals, text = value.partition("=")
            if equals:
                env[key] = text
            else:  # passed through from a shell that is not here
                left_out.append(f"--env {key}")
        elif name == "gpus" and value is not None:
            cards = value.strip("\"'")
        elif name == "entrypoint" and value:
            entrypoint = tuple(value.split())
        elif name in ("volume", "mount") and value is not None:
            folders |= _folder(name, value)
            left_out.append(spelled if value in spelled else f"{spelled} {value}")
        else:
            attached = value is None or value in spelled
            left_out.append(spelled if attached else f"{spelled} {value}")
    if not rest:
        raise PresetError("docker run names no image.")
    image, *arguments = rest
    return DockerRun(image, (*entrypoint, *arguments), env, folders, cards, tuple(left_out))


def _option(rest: list[str]) -> tuple[str, str | None]:
    """The next option in its long form and its value; both are taken from `rest`."""
    word = rest.pop(0)
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        if equals:
            return name, value
        return (name, None) if name in _ALONE else (name, _value(word, rest))
    letters = word[1:]
    for at, letter in enumerate(letters):
        if letter in _ALONE_SHORT:
            continue
        attached = letters[at + 1 :].removeprefix("=")
        return _SHORT.get(letter, letter), attached or _value(f"-{letter}", rest)
    return letters, None


def _value(option: str, rest: list[str]) -> str:
    if not rest:
        raise PresetError(f"docker run: {option} has no value.")
    return rest.pop(0)


def _folder(name: str, value: str) -> dict[str, str]:
    if name == "volume":
        match = re.fullmatch(r"((?:[A-Za-z]:)?[^:]+):([^:]+)(?::[\w,]+)?", value)
        return {match[2].rstrip("/"): match[1].rstrip("/\\")} if match else {}
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    inside = parts.get("target") or parts.get("dst") or parts.get("destination")
    outside = parts.get("source") or parts.get("src")
    return {inside.rstrip("/"): outside.rstrip("/")} if inside and outside else {}
