"""The docker command that runs an engine in an image. Pure: starts nothing.

The engine listens inside the container and docker publishes its port on the panel's address only. Cards are given by
UUID, so inside they are 0, 1, … and need no CUDA_VISIBLE_DEVICES. Variables are passed by name: their values, a key
among them, come from the client's environment and are in no command line.
"""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = "16g"  # a limit, not a reservation; several cards talk through it, and docker's 64 MiB ends them
MODEL_MOUNT = "/model"
DRAFT_MODEL_MOUNT = "/draft-model"
SERVER_MODULE = "vllm.entrypoints.openai.api_server"


@dataclass(frozen=True)
class Container:
    """One container to be."""

    name: str  # unique on the machine while it runs
    image: str
    docker: Path
    host: str
    port: int
    gpus: tuple[str, ...]  # UUIDs; empty with needs_gpu: all
    needs_gpu: bool
    mounts: tuple[tuple[Path, str], ...]  # (folder, where it is seen inside); read-only
    gpu_count: int | None = None  # where no UUIDs are given: so many instead of all


def run_words(container: Container, env: Iterable[str]) -> tuple[str, ...]:
    """The words before the server's own arguments; `env` are the names of variables to pass on, or NAME=value."""
    host = f"[{container.host}]" if ":" in container.host else container.host
    return (
        *(str(container.docker), "run", "--rm", "--name", container.name),
        *_gpu_words(container),
        *("--shm-size", SHARED_MEMORY, "--publish", f"{host}:{container.port}:{container.port}"),
        *(word for folder, inside in container.mounts for word in ("--mount", _mount(folder, inside))),
        *(word for name in sorted(env) for word in ("--env", name)),
        *("--entrypoint", "python3", container.image, "-m", SERVER_MODULE),
    )


def remove_words(container: Container) -> tuple[str, ...]:
    """Ends and removes the container, also where its docker client was killed and it went on."""
    return (str(container.docker), "rm", "--force", container.name)


def _gpu_words(container: Container) -> tuple[str, ...]:
    if not container.needs_gpu:
        return ()
    if not container.gpus:
        return ("--gpus", str(container.gpu_count or "all"))
    # docker reads the value as CSV: without the inner quotes a second card would be another field
    return ("--gpus", f'"device={",".join(container.gpus)}"')


def _mount(folder: Path, inside: str) -> str:
    """--mount is CSV as well, so a folder with a comma or a colon in its name needs no special care of ours."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(("type=bind", f"source={folder}", f"target={inside}", "readonly"))
    return line.getvalue()
