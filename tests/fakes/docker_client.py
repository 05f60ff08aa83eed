"""A stand-in for the docker client: a real program on PATH that runs an "image's" Python on this machine.

A container is a file that is there while it runs, as a real one is there for docker's own server: a killed client leaves it.
"""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FakeDocker:
    """A folder with the program `docker`, its images and its containers."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "docker"

    def install(self) -> "FakeDocker":
        """Write the program."""
        self.program.parent.mkdir(parents=True)
        (self.folder / "containers").mkdir()
        self._write_images({})
        words = shlex.join((sys.executable, str(Path(__file__).resolve()), str(self.folder)))
        self.program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        self.program.chmod(0o755)
        return self

    def add_image(self, name: str, python: Path, *, image_id: str = "sha256:1111") -> None:
        """An image whose python3 is this one."""
        self._write_images({**self.images(), name: {"id": image_id, "python": str(python)}})

    def images(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads((self.folder / "images.json").read_text())
        return found

    def containers(self) -> list[str]:
        """Names of the containers that are there."""
        return sorted(path.name for path in (self.folder / "containers").iterdir())

    def calls(self) -> list[list[str]]:
        """The words of every call so far."""
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def path(self) -> str:
        """A PATH on which it is the first docker."""
        return f"{self.program.parent}{os.pathsep}{os.environ['PATH']}"

    def _write_images(self, images: dict[str, dict[str, str]]) -> None:
        (self.folder / "images.json").write_text(json.dumps(images))


def main(docker: FakeDocker, words: list[str]) -> int:
    with (docker.folder / "calls.jsonl").open("a") as log:
        log.write(json.dumps(words) + "\n")
    if words[:2] == ["image", "inspect"]:
        return inspect(docker, words[-1])
    if words[0] == "rm":
        (docker.folder / "containers" / words[-1]).unlink()
        return 0
    if words[0] == "run":
        return run(docker, words[1:])
    sys.stderr.write(f"docker: '{words[0]}' is not a docker command.\n")
    return 1


def inspect(docker: FakeDocker, name: str) -> int:
    image = docker.images().get(name)
    if image is None:
        sys.stderr.write(f"Error response from daemon: No such image: {name}\n")
        return 1
    sys.stdout.write(f"{image['id']}\n")
    return 0


def run(docker: FakeDocker, words: list[str]) -> int:
    name, variables = "", {}
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("--name", "--network", "--pull", "--env", "--entrypoint"):
            value = words.pop(0)
            if option == "--name":
                name = value
            if option == "--env":
                key, _, text = value.partition("=")
                variables[key] = text
    image = docker.images()[words.pop(0)]
    container = docker.folder / "containers" / name
    container.touch()
    returncode = subprocess.run(
        (image["python"], *words), env={"PATH": os.defpath, **variables}, check=False
    ).returncode
    container.unlink()
    return returncode


if __name__ == "__main__":
    sys.exit(main(FakeDocker(Path(sys.argv[1])), sys.argv[2:]))
