"""The environments folder, read and changed: records made, looked at and removed. Blocks; Environments calls it in threads."""

import logging
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from pydantic import SecretStr

from backend.environment.docker import check_image
from backend.environment.environment import (
    EngineEnvironment,
    EnvironmentKind,
    EnvironmentState,
    environments_in,
    write_environment,
)
from backend.environment.probe import EnvironmentProbe, cached_probe, keep_probe, last_probe, look_at
from backend.environment.probe_child import is_program
from backend.environment.views import RecipeOffer
from backend.errors import SetupError
from backend.setup.base_python import base_python_for
from backend.setup.console import size
from backend.setup.disk import nearest_existing
from backend.setup.engine_environment import begun_environment, current_environment, space_plan
from backend.setup.recipe import RECIPES, Recipe, TorchBuild
from backend.setup.setup_lock import is_locked, recipe_lock_file
from backend.state_folder import new_id

log = logging.getLogger(__name__)

REMOVED_PREFIX = ".removed-"
TITLE_CHARACTERS = 80


@dataclass(frozen=True)
class FolderReading:
    """The environments folder at one moment."""

    environments: tuple[EngineEnvironment, ...]
    current: Mapping[str, EnvironmentProbe]  # by id: probes that are still true
    last: Mapping[str, EnvironmentProbe]  # by id: the last ones, true or not
    busy: frozenset[str]  # recipes that some living process installs


@dataclass(frozen=True)
class EnvironmentsFolder:
    """One environments folder."""

    folder: Path
    repository: Path

    def read(self) -> FolderReading:
        """Every record and every kept probe."""
        environments = environments_in(self.folder)
        current = {one.id: probe for one in environments if (probe := cached_probe(one)) is not None}
        last = {one.id: probe for one in environments if (probe := last_probe(one)) is not None}
        unfinished = {one.recipe for one in environments if one.state is EnvironmentState.INSTALLING}
        busy = frozenset(recipe for recipe in unfinished if is_locked(self.folder / recipe_lock_file(recipe)))
        return FolderReading(environments, current, last, busy)

    def clear_remains(self) -> None:
        """Delete what an interrupted removal left."""
        for path in self.folder.glob(f"{REMOVED_PREFIX}*"):
            _delete(path)

    def add_python(self, path: str, title: str, *, stop: Event) -> EngineEnvironment:
        """Take somebody's Python, once it has shown that a vLLM is in it.

        Raises:
            SetupError: it is no program, or has no vLLM, or its vLLM does not start.
        """
        python = external_python(path)
        candidate = self._candidate(EnvironmentKind.PYTHON, title or python.parent.parent.name)
        return self._add_looked_at(replace(candidate, external_python=python), stop)

    def add_docker(self, image: str, title: str, *, stop: Event) -> EngineEnvironment:
        """Take an image of this machine, once it has shown that a vLLM is in it.

        Raises:
            SetupError: there is no docker, no such image, or no vLLM in it.
        """
        check_image(image.strip())
        candidate = self._candidate(EnvironmentKind.DOCKER, title or image.strip())
        return self._add_looked_at(replace(candidate, image=image.strip()), stop)

    def add_address(self, address: str, title: str, key: SecretStr | None) -> EngineEnvironment:
        """Take a server's address, whether or not it answers now."""
        candidate = self._candidate(EnvironmentKind.ADDRESS, title or address.partition("://")[2])
        environment = replace(candidate, address=address)
        environment.folder.mkdir(mode=0o700)
        if key is not None:
            descriptor = os.open(environment.key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(key.get_secret_value())
        write_environment(environment)
        return environment

    def begin_install(self, recipe: Recipe) -> EngineEnvironment:
        """The environment that the installer of this recipe will work on, made where there is none.

        Raises:
            SetupError: it is installed already, or being installed.
        """
        if is_locked(self.folder / recipe_lock_file(recipe.name)):
            raise SetupError(f"The {recipe.title} is being installed already.")
        if current_environment(self.folder, recipe, self.repository) is not None:
            raise SetupError(f"The {recipe.title} is installed already.", hint="Remove it first to install it anew.")
        begun = begun_environment(self.folder, recipe)
        if begun is not None:
            return begun
        identifier = new_id()
        environment = EngineEnvironment(
            identifier, recipe.name, self.folder / identifier, EnvironmentState.INSTALLING, title=recipe.title
        )
        environment.folder.mkdir(mode=0o700)
        write_environment(environment)
        return environment

    def remove(self, environment: EngineEnvironment) -> None:
        """Delete its folder. Renamed first, so that nobody finds half of it."""
        removed = self.folder / f"{REMOVED_PREFIX}{environment.id}"
        environment.folder.rename(removed)
        _delete(removed)

    def offers(self, *, environ: Mapping[str, str]) -> tuple[RecipeOffer, ...]:
        """Every recipe with what it takes and what keeps it from being installed."""
        return tuple(self._offer(recipe, environ) for recipe in RECIPES)

    def _offer(self, recipe: Recipe, environ: Mapping[str, str]) -> RecipeOffer:
        ready = current_environment(self.folder, recipe, self.repository)
        need, shortfall = (0, 0) if ready is not None else self._space(recipe, environ)
        obstacle = ""
        try:
            base_python_for(recipe, self.repository)
        except SetupError as err:
            obstacle = str(err)
        if shortfall and not obstacle:
            obstacle = (
                f"The disk is too small: about {size(need)} are needed while installing, {size(shortfall)} are missing."
            )
        return RecipeOffer(
            recipe=recipe,
            footprint=recipe.footprint(TorchBuild.UNKNOWN),
            free_bytes=shutil.disk_usage(nearest_existing(self.folder)).free,
            shortfall_bytes=shortfall,
            obstacle=obstacle,
            ready=None if ready is None else ready.id,
        )

    def _space(self, recipe: Recipe, environ: Mapping[str, str]) -> tuple[int, int]:
        """Bytes that installing takes at its height, and how many of them are missing."""
        begun = begun_environment(self.folder, recipe)
        target = begun.folder if begun is not None else self.folder / "new"
        disks = space_plan(recipe, TorchBuild.UNKNOWN, target, environ=environ).disks()
        return sum(disk.need_bytes for disk in disks), sum(disk.short_bytes for disk in disks)

    def _candidate(self, kind: EnvironmentKind, title: str) -> EngineEnvironment:
        identifier = new_id()
        return EngineEnvironment(
            identifier,
            recipe="",
            folder=self.folder / identifier,
            state=EnvironmentState.READY,
            kind=kind,
            title=title.strip()[:TITLE_CHARACTERS],
            ready_at=time.time(),
        )

    def _add_looked_at(self, candidate: EngineEnvironment, stop: Event) -> EngineEnvironment:
        probe = look_at(candidate, stop=stop)
        versions = {"python": probe.python, "torch": probe.torch, **({"vllm": probe.vllm} if probe.vllm else {})}
        environment = replace(candidate, versions=versions)
        environment.folder.mkdir(mode=0o700)
        keep_probe(environment, probe)
        write_environment(environment)
        return environment


def external_python(text: str) -> Path:
    """The interpreter a person means: named itself, or by the folder of its environment.

    Raises:
        SetupError: there is no program.
    """
    path = Path(text.strip()).expanduser()
    if not path.is_absolute():
        raise SetupError(f"{text.strip()!r} is not an absolute path.", hint="Such as /home/me/vllm/bin/python")
    python = path / "bin" / "python" if path.is_dir() else path
    if not is_program(python):
        raise SetupError(f"{python} is not a program.", hint="Name the Python of a venv or conda environment.")
    return python


def _delete(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as err:  # tried again when a panel opens
        log.warning("%s cannot be deleted: %s", path, err)
