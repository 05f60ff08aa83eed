"""An engine environment on disk: a virtual environment with an engine in it, and the record that says whether it is whole.

    environments/<id>/environment.json   the record, replaced whole
    environments/<id>/venv/              the virtual environment
    environments/<id>/install.log        what its installation printed
    environments/<id>/probe.json         what environment_probe found out

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


@dataclass(frozen=True)
class EngineEnvironment:
    """One engine environment as its record tells it."""

    id: str
    recipe: str  # name of the recipe it was made by, such as "cpu"
    folder: Path
    state: EnvironmentState
    step: str = ""  # while INSTALLING or FAILED: the step it is at
    reason: str = ""  # while FAILED: what went wrong, in one line
    versions: Mapping[str, str] = field(default_factory=dict)  # vllm, torch, python: from the self-test
    requirements_sha256: str = ""  # of the requirements file that was installed
    fingerprint: str = ""  # of the packages as they were when READY; see setup.site_packages
    ready_at: float | None = None  # wall clock

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        """Its interpreter: argv[0] of every engine started in this environment."""
        return self.venv / "bin" / "python"

    @property
    def install_log(self) -> Path:
        return self.folder / "install.log"

    @property
    def probe_file(self) -> Path:
        return self.folder / "probe.json"


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
    )
    if environment.state is EnvironmentState.READY and not os.access(environment.python, os.X_OK):
        return replace(environment, state=EnvironmentState.BROKEN, reason=f"{environment.python} is not there.")
    return environment


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
