"""Readers of the previews that know nothing of their writers: bash, docker's client, compose's and systemd's rules."""

import argparse
import contextlib
import csv
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DUMPER = ("/bin/sh", "-c", "printf '%s\\0' \"$@\"; printf '\\1'; exec env -0", "sh")
"""A program that prints the words it is given and its whole environment."""


def run_in_bash(line: str, exported: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What DUMPER, called by this line, was given."""
    done = subprocess.run(
        ("bash", "--norc", "-c", line),
        env={"PATH": os.defpath, **exported},
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words, _, env = done.stdout.partition(b"\1")
    texts = [os.fsdecode(part) for part in env.split(b"\0") if part]
    return [os.fsdecode(word) for word in words.split(b"\0")[:-1]], {
        name: value for name, _, value in (text.partition("=") for text in texts)
    }


# docker


@dataclass(frozen=True)
class Run:
    """A container as docker's server would be told."""

    name: str
    image: str
    entrypoint: list[str]
    command: list[str]
    env: dict[str, str]
    ports: list[tuple[str, int, int]]  # address, on the machine, inside
    mounts: list[tuple[str, str]]  # read-only
    cards: list[str] = field(default_factory=list)
    card_count: int = 0  # -1: all
    shared_memory: int = 0  # bytes


def run_words_in_bash(line: str, exported: Mapping[str, str]) -> list[str]:
    """The words behind `docker` of a printed line, as bash hands them to a program of that name."""
    call = f'docker() {{ {" ".join(DUMPER[:2])} {_shell_quote(DUMPER[2])} sh "$@"; }}; {line}'
    return run_in_bash(call, exported)[0]


def _shell_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def read_docker_words(words: list[str], env: Mapping[str, str]) -> Run:
    """The words behind `docker`, read by an option parser of our own; `env` is the client's."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for option in ("--name", "--gpus", "--shm-size", "--entrypoint"):
        parser.add_argument(option)
    for option in ("--publish", "--mount", "--env"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("--rm", action="store_true")
    parser.add_argument("run", choices=["run"])
    parser.add_argument("image")
    place = _image_place(words)
    read = parser.parse_args(words[: place + 1])
    mounts = [dict(part.partition("=")[::2] for part in next(csv.reader([mount]))) for mount in read.mount]
    assert all(mount["type"] == "bind" and "readonly" in mount for mount in mounts)
    fields = next(csv.reader([read.gpus])) if read.gpus else []
    count = {"all": -1}.get(fields[0], int(fields[0]) if fields[0].isdecimal() else 0) if fields else 0
    return Run(
        name=read.name,
        image=read.image,
        entrypoint=[read.entrypoint],
        command=words[place + 1 :],
        env={name: value if eq else env[name] for name, eq, value in (w.partition("=") for w in read.env)},
        ports=[_port(text) for text in read.publish],
        mounts=[(mount["source"], mount["target"]) for mount in mounts],
        cards=fields[0].removeprefix("device=").split(",") if fields and not count else [],
        card_count=count,
        shared_memory=_bytes(read.shm_size),
    )


def _image_place(words: list[str]) -> int:
    place = 1
    while words[place].startswith("-"):
        place += 1 if words[place] == "--rm" else 2
    return place


def _port(text: str) -> tuple[str, int, int]:
    match = re.fullmatch(r"\[?([0-9a-f.:]+?)\]?:(\d+):(\d+)(?:/tcp)?", text)
    assert match, text
    return match[1], int(match[2]), int(match[3])


def _bytes(text: str) -> int:
    assert text.endswith("g"), text
    return int(text[:-1]) * 2**30


class _Daemon(http.server.BaseHTTPRequestHandler):
    """As much of docker's server as a client asks before it has said what it wants."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(200, b"OK")

    do_GET = do_HEAD

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if "/containers/create" in self.path:
            self.server.created.append((self.path, json.loads(body)))  # type: ignore[attr-defined]
        self._answer(500, b'{"message": "noted"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Api-Version", "1.45")
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class NotingDaemon:
    """A docker server that notes which container it shall make, and makes none."""

    address: str
    created: list[tuple[str, dict[str, Any]]]

    def read(self, line: str, exported: Mapping[str, str], home: Path) -> Run:
        """Run a printed line by bash and docker's real client; what arrived."""
        self.created.clear()
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "DOCKER_HOST": self.address, **exported}
        done = subprocess.run(("bash", "--norc", "-c", line), env=env, capture_output=True, timeout=30, check=False)
        assert b"noted" in done.stderr, done.stderr
        ((path, body),) = self.created
        host = body["HostConfig"]
        requests = host.get("DeviceRequests") or []
        assert all("gpu" in request["Capabilities"][0] for request in requests)
        mounts = host["Mounts"] if host.get("Mounts") else []
        assert all(mount["Type"] == "bind" and mount["ReadOnly"] for mount in mounts)
        return Run(
            name=path.partition("name=")[2].partition("&")[0],
            image=body["Image"],
            entrypoint=body["Entrypoint"],
            command=body["Cmd"] or [],
            env={name: value for name, _, value in (text.partition("=") for text in body["Env"] or [])},
            ports=[
                (binding["HostIp"], int(binding["HostPort"]), int(inside.removesuffix("/tcp")))
                for inside, bindings in host["PortBindings"].items()
                for binding in bindings
            ],
            mounts=[(mount["Source"], mount["Target"]) for mount in mounts],
            cards=[card for request in requests for card in request["DeviceIDs"] or []],
            card_count=sum(request["Count"] for request in requests),
            shared_memory=host["ShmSize"],
        )


@contextlib.contextmanager
def noting_daemon() -> Iterator[NotingDaemon]:
    """Such a server on a port of its own."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Daemon)
    server.daemon_threads = True
    created: list[tuple[str, dict[str, Any]]] = []
    server.created = created  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield NotingDaemon(f"tcp://127.0.0.1:{server.server_port}", created)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


# compose


def compose_program() -> tuple[str, ...] | None:
    """docker's own reader of compose files, where this machine has one; version 1 reads an older format."""
    for words in (("docker", "compose"), ("docker-compose",)):
        if shutil.which(words[0]) is None:
            continue
        done = subprocess.run((*words, "version", "--short"), capture_output=True, timeout=30, check=False, text=True)
        if done.returncode == 0 and re.match(r"v?[2-9]\.|v?\d\d", done.stdout):
            return words
    return None


def read_compose_file(text: str, env: Mapping[str, str]) -> Run:
    """A compose file read by YAML and compose's rules of $, written after its documentation."""
    service = _filled(yaml.safe_load(text), env)["services"]["engine"]
    return read_service(service)


def read_service(service: Mapping[str, Any]) -> Run:
    """One service whose variables are filled in."""
    devices = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    assert all(device["capabilities"] == ["gpu"] and device["driver"] == "nvidia" for device in devices)
    counts = [device.get("count", 0) for device in devices]
    shared = service["shm_size"]
    return Run(
        name=service["container_name"],
        image=service["image"],
        entrypoint=service["entrypoint"],
        command=service["command"],
        env=service.get("environment", {}),
        ports=[_port(port) if isinstance(port, str) else _long_port(port) for port in service["ports"]],
        mounts=[(mount["source"], mount["target"]) for mount in service.get("volumes", []) if _is_read_only(mount)],
        cards=[card for device in devices for card in device.get("device_ids", [])],
        card_count=sum(-1 if count == "all" else int(count) for count in counts),
        shared_memory=_bytes(shared) if str(shared).endswith("g") else int(shared),
    )


def _long_port(port: Mapping[str, Any]) -> tuple[str, int, int]:
    return port["host_ip"], int(port["published"]), int(port["target"])


def _is_read_only(mount: Mapping[str, Any]) -> bool:
    assert mount["type"] == "bind" and mount["read_only"] is True, mount
    return True


def _filled(value: Any, env: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, env) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, env) for item in value]
    return _interpolated(value, env) if isinstance(value, str) else value


def _interpolated(text: str, env: Mapping[str, str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        assert match[1], f"compose refuses a lone $ in {text!r}"
        assert env.get(match[1]), f"compose refuses to start without {match[1]}"
        return env[match[1]]

    return re.sub(r"\$\$|\$\{(\w+):\?\}|\$", one, text)


# systemd

_NAMED = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39, "s": 32}


@dataclass(frozen=True)
class Unit:
    """A unit as systemd's manual says it is read."""

    settings: list[tuple[str, str]]  # in the order of the file; values as they stand there

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.settings if key == name]

    def env(self) -> dict[str, str]:
        """What its Environment= lines set."""
        words = [_specified(word) for value in self.all("Environment") for word in systemd_words(value)]
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    def command(self, env: Mapping[str, str], setting: str = "ExecStart") -> list[str]:
        """The words a program is started with, for such an environment."""
        (value,) = self.all(setting)
        program, *words = (_specified(word) for word in systemd_words(value.removeprefix("-")))
        assert "$" not in program, program
        return [program, *(_expanded(word, env) for word in words)]


def read_unit(text: str) -> Unit:
    """Lines joined at a backslash, comments left out."""
    lines = re.sub(r"\\\n", " ", "\n".join(line for line in text.split("\n") if line[:1] not in ("#", ";")))
    pairs = (line.partition("=") for line in lines.split("\n") if line.strip() and not line.startswith("["))
    return Unit([(key.strip(), value.strip()) for key, _, value in pairs])


def systemd_words(text: str) -> list[str]:
    """Words of a line, after systemd.syntax(7) and systemd.service(5): both quotes, C's escapes inside and outside."""
    words: list[bytes] = []
    word: bytearray | None = None
    quote, place = "", 0
    while place < len(text):
        char = text[place]
        place += 1
        if char == "\\":
            escape = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.)").match(
                text, place
            )
            assert escape, text
            place = escape.end()
            byte, short, long, octal, name = escape.groups()
            word = word or bytearray()
            if short or long:
                word += chr(int(short or long, 16)).encode()
            else:
                word.append(int(byte, 16) if byte else int(octal, 8) if octal else _NAMED[name])
        elif quote:
            if char == quote:
                quote = ""
            else:
                assert word is not None
                word += char.encode()
        elif char in "\"'":
            quote, word = char, word or bytearray()
        elif char in " \t\n\r":
            if word is not None:
                words.append(bytes(word))
            word = None
        else:
            word = word or bytearray()
            word += char.encode()
    assert not quote, f"open quote: {text}"
    return [part.decode() for part in [*words, *([bytes(word)] if word is not None else [])]]


def _specified(word: str) -> str:
    assert "%" not in word.replace("%%", ""), f"a specifier in {word!r}"
    return word.replace("%%", "%")


def _expanded(word: str, env: Mapping[str, str]) -> str:
    assert not re.match(r"\$[A-Za-z_]", word), f"{word!r} would be split into words"
    return re.sub(r"\$\$|\$\{(\w+)\}", lambda match: "$" if match[0] == "$$" else env[match[1]], word)


def systemd_reads(unit: Path, runtime: Path) -> tuple[list[str], list[str]] | None:
    """ExecStart's words (before $ is replaced) and Environment's assignments as systemd itself reads them.

    None where this machine has no systemd-analyze.
    """
    program = shutil.which("systemd-analyze")
    if program is None:
        return None
    env = {
        "PATH": os.environ["PATH"],
        "XDG_RUNTIME_DIR": str(runtime),
        "SYSTEMD_LOG_LEVEL": "debug",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        (program, "verify", "--user", "--man=no", str(unit)), env=env, capture_output=True, timeout=60, check=False
    )
    text = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, text[-2000:]
    (line,) = re.findall(r"-> ExecStart:\n\s*Command Line: (.*)\n", text)
    found = text.partition(f"-> Unit {unit.name}:")[2]
    assignments = re.findall(r"\n\t\tEnvironment: ((?:.|\n)*?)(?=\n\t\t[A-Z][A-Za-z]+: |\n\t-> )", found)
    return _dumped_words(line), assignments


def _dumped_words(line: str) -> list[str]:
    """systemd prints words in double quotes where needed, with C's escapes and \\$ and \\`."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^ ]+)', line)
    return [
        plain if plain else systemd_words('"' + re.sub(r"\\([$`!])", r"\1", quoted) + '"')[0] for quoted, plain in found
    ]
