"""An engine environment on disk: how a vLLM is run, and the record that says whether it can be.

    environments/<id>/environment.json   the record, replaced whole
    environments/<id>/venv/              the virtual environment, where we installed it
    environments/<id>/install.log        what its installation printed
    environments/<id>/probe.json         what the probe found out
    environments/<id>/key                the API key of an attached server, mode 0600

Standard library only: setup reads environments before the panel's own packages are there.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # state_folder imports platformdirs, one of the panel's own packages
    from backend.state_folder import StateFolder

log = logging.getLogger(__name__)

RECORD_FILE = "environment.json"


class EnvironmentState(StrEnum):
    """How far an environment is. Only READY may start engines."""

    INSTALLING = "installing"  # a setup works on it, or was interrupted; the next one goes on here
    FAILED = "failed"  # a step of its installation failed; the next setup tries again here
    READY = "ready"  # installed, and its self-test passed
    BROKEN = "broken"  # was ready, but its Python is gone


class EnvironmentKind(StrEnum):
    """How the engine is run."""

    MANAGED = "managed"  # a virtual environment that our installer made
    PYTHON = "python"  # somebody's own venv or conda Python
    DOCKER = "docker"  # an image on this machine
    ADDRESS = "address"  # a server that runs already: attached to, never started or stopped


class LackKey(StrEnum):
    """What keeps an environment from serving on a V100."""

    NO_SM70 = "no_sm70"  # torch has no code for compute capability 7.0
    NO_DFLASH2 = "no_dflash2"  # our kernels and the NVFP4 plugin are not installed
    BROKEN_DFLASH2 = "broken_dflash2"  # installed, and cannot be imported
    CUDA13 = "cuda13"  # a CUDA 13 build: its tools no longer know sm_70
    CPU_BUILD = "cpu_build"  # torch without CUDA
    NEW_VLLM = "new_vllm"  # newer than 0.19.1, the last with sm_70 code
    NO_CARD = "no_card"  # torch or the driver shows no NVIDIA card
    NO_V100 = "no_v100"  # a card is there, of another kind
    NO_DRIVER = "no_driver"  # NVIDIA's driver library is not there or does not answer
    OLD_DRIVER = "old_driver"  # older than CUDA 12 needs
    NO_FLAGS = "no_flags"  # its --help could not be read


@dataclass(frozen=True)
class Lack:
    """One thing that is missing."""

    key: LackKey
    detail: str = ""  # what was found instead, in the words of the library that said it; bounded


@dataclass(frozen=True)
class EngineEnvironment:
    """One engine environment as its record tells it."""

    id: str
    recipe: str  # name of the recipe it was made by, such as "cpu"; "" where we did not make it
    folder: Path
    state: EnvironmentState
    step: str = ""  # while INSTALLING or FAILED: the step it is at
    reason: str = ""  # while FAILED: what went wrong, in one line
    versions: Mapping[str, str] = field(default_factory=dict)  # vllm, torch, python: from the self-test
    requirements_sha256: str = ""  # of the requirements file that was installed
    fingerprint: str = ""  # of the packages as they were when READY; see setup.site_packages
    ready_at: float | None = None  # wall clock
    kind: EnvironmentKind = EnvironmentKind.MANAGED
    title: str = ""  # for people; "" where the recipe's title serves
    external_python: Path | None = None  # of kind PYTHON: its interpreter, absolute
    image: str = ""  # of kind DOCKER: the image's name and tag, or its digest
    address: str = ""  # of kind ADDRESS: http://host:port, without user, password or trailing slash
    missing: tuple[Lack, ...] = ()  # what its self-test found missing for the cards it is meant for

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        """Its interpreter: argv[0] of every engine started in this environment.

        Raises:
            LookupError: an image or an address has none.
        """
        if self.kind is EnvironmentKind.PYTHON and self.external_python is not None:
            return self.external_python
        if self.kind is not EnvironmentKind.MANAGED:
            raise LookupError(f"environment {self.id} is of kind {self.kind} and has no Python here")
        return self.venv / "bin" / "python"

    @property
    def install_log(self) -> Path:
        return self.folder / "install.log"

    @property
    def probe_file(self) -> Path:
        return self.folder / "probe.json"

    @property
    def key_file(self) -> Path:
        """The API key of an attached server. Never part of the record."""
        return self.folder / "key"


def list_environments(state_folder: "StateFolder") -> tuple[EngineEnvironment, ...]:
    """Every environment with a record, by id; a record that cannot be read is logged and left out."""
    return environments_in(state_folder.environments)


def find_environment(state_folder: "StateFolder", recipe: str) -> EngineEnvironment | None:
    """The READY environment of this recipe, the newest where there are several; None where there is none."""
    return newest_ready(environments_in(state_folder.environments), recipe)


def newest_ready(environments: tuple[EngineEnvironment, ...], recipe: str) -> EngineEnvironment | None:
    """The READY environment of this recipe that became ready last."""
    ready = [one for one in environments if one.recipe == recipe and one.state is EnvironmentState.READY]
    return max(ready, key=lambda one: one.ready_at or 0.0, default=None)


def environments_in(folder: Path) -> tuple[EngineEnvironment, ...]:
    """Every environment below a folder; empty where the folder is not there yet."""
    found = []
    for path in sorted(folder.glob(f"*/{RECORD_FILE}")):
        try:
            found.append(read_environment(path.parent))
        except (OSError, ValueError, KeyError, TypeError) as err:
            log.warning("engine environment %s left out: %s", path.parent, err)
    return tuple(found)


def read_environment(folder: Path) -> EngineEnvironment:
    """The environment in a folder. BROKEN where the record says READY and the interpreter is gone.

    Raises:
        OSError, ValueError, KeyError, TypeError: the record is not there or not one of ours.
    """
    values: dict[str, Any] = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    environment = EngineEnvironment(
        id=folder.name,
        recipe=str(values["recipe"]),
        folder=folder,
        state=EnvironmentState(values["state"]),
        step=str(values.get("step", "")),
        reason=str(values.get("reason", "")),
        versions={str(name): str(version) for name, version in dict(values.get("versions", {})).items()},
        requirements_sha256=str(values.get("requirements_sha256", "")),
        fingerprint=str(values.get("fingerprint", "")),
        ready_at=None if values.get("ready_at") is None else float(values["ready_at"]),
        kind=EnvironmentKind(values.get("kind", EnvironmentKind.MANAGED)),
        title=str(values.get("title", "")),
        external_python=Path(values["external_python"]) if values.get("external_python") else None,
        image=str(values.get("image", "")),
        address=str(values.get("address", "")),
        missing=tuple(Lack(LackKey(one["key"]), str(one.get("detail", ""))) for one in values.get("missing", ())),
    )
    _check_kind(environment)
    if environment.state is EnvironmentState.READY and _lacks_its_python(environment):
        return replace(environment, state=EnvironmentState.BROKEN, reason=f"{environment.python} is not there.")
    return environment


def _check_kind(environment: EngineEnvironment) -> None:
    """Raises ValueError where the record lacks what its kind needs."""
    needed = {
        EnvironmentKind.PYTHON: environment.external_python is not None and environment.external_python.is_absolute(),
        EnvironmentKind.DOCKER: environment.image,
        EnvironmentKind.ADDRESS: environment.address,
    }
    if not needed.get(environment.kind, True):
        raise ValueError(f"a record of kind {environment.kind} that does not say which")


def _lacks_its_python(environment: EngineEnvironment) -> bool:
    if environment.kind not in (EnvironmentKind.MANAGED, EnvironmentKind.PYTHON):
        return False
    return not os.access(environment.python, os.X_OK)


def write_environment(environment: EngineEnvironment) -> None:
    """Replace the record whole: a reader sees the old one or the new one, also after a power cut."""
    values = {
        "recipe": environment.recipe,
        "state": environment.state.value,
        "step": environment.step,
        "reason": environment.reason,
        "versions": dict(environment.versions),
        "requirements_sha256": environment.requirements_sha256,
        "fingerprint": environment.fingerprint,
        "ready_at": environment.ready_at,
        "kind": environment.kind.value,
        "title": environment.title,
        "external_python": None if environment.external_python is None else str(environment.external_python),
        "image": environment.image,
        "address": environment.address,
        "missing": [{"key": lack.key.value, "detail": lack.detail} for lack in environment.missing],
    }
    write_json(environment.folder / RECORD_FILE, values)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file by way of a synced sibling, so that no reader ever finds half of it."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(values, file, indent=2, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
