"""Install an engine environment so that nothing half-installed ever counts as ready, and go on where the last try stopped."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from backend.environment.environment import (
    EngineEnvironment,
    EnvironmentState,
    Lack,
    LackKey,
    environments_in,
    newest_ready,
    write_environment,
)
from backend.errors import SetupError
from backend.setup.download_plan import DownloadPlan, cache_row, row_for
from backend.setup.pip_access import PipAccess
from backend.setup.recipe import PipInstall, Recipe, TorchBuild
from backend.setup.setup_lock import recipe_lock, setup_lock, setup_turn
from backend.setup.site_packages import SitePackages, forget_cut_short, named, site_packages_of
from backend.setup.step import Step, StepObserver, StepRunner

VENV_DEADLINE_S = 300.0
SELF_TEST_DEADLINE_S = 900.0  # the first import reads gigabytes from a disk that may be slow
TURN_DEADLINE_S = 6 * 3600.0  # of an installation that waits for another one
KERNELS_COPY = "kernels"
DETAIL_CHARACTERS = 500
_LEFT_OUT = frozenset({"build", "dist", "__pycache__", ".venv", "dflash2.egg-info"})


def current_environment(environments: Path, recipe: Recipe, repository: Path) -> EngineEnvironment | None:
    """The READY environment that was installed from today's requirements and lost no package since. Starts no process."""
    environment = newest_ready(environments_in(environments), recipe.name)
    if environment is None or environment.requirements_sha256 != requirements_sha256(recipe, repository):
        return None
    packages = site_packages_of(environment.venv)
    return environment if packages is not None and packages.fingerprint() == environment.fingerprint else None


def begun_environment(environments: Path, recipe: Recipe) -> EngineEnvironment | None:
    """The environment of this recipe to go on with: the one that was ready before, else any."""
    mine = [one for one in environments_in(environments) if one.recipe == recipe.name]
    return max(mine, key=lambda one: one.ready_at or 0.0, default=None)


def space_plan(recipe: Recipe, build: TorchBuild, folder: Path, *, environ: Mapping[str, str]) -> DownloadPlan:
    """What installing a recipe into this folder still takes, pip's cache included. The folder need not be there."""
    row = row_for(f"the {recipe.title}", recipe.footprint(build), folder, begun=folder)
    return DownloadPlan((row, *cache_row((row,), environ)))


def requirements_sha256(recipe: Recipe, repository: Path) -> str:
    """Identifies what a recipe installs; a comment reworded is no reason to install again."""
    lines = (repository / recipe.requirements).read_text(encoding="utf-8").splitlines()
    wanted = [line.partition("#")[0].strip() for line in lines]
    digest = hashlib.sha256("\n".join(filter(None, wanted)).encode())
    if recipe.kernels:
        kernels = repository / recipe.kernels
        for path in sorted(kernels.rglob("*")):
            if path.is_file() and not _LEFT_OUT.intersection(path.relative_to(kernels).parts):
                digest.update(f"\n{path.relative_to(kernels)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class EngineInstaller:
    """Makes environments of one recipe below one folder."""

    recipe: Recipe
    repository: Path
    environments: Path
    base_python: Path
    access: PipAccess
    console: StepObserver
    environ: Mapping[str, str]
    new_id: Callable[[], str]

    def install(self) -> EngineEnvironment:
        """Bring one environment to READY: the interrupted, failed or outdated one that is there, else a new one.

        Raises:
            SetupError: another setup is at work, or a step failed; the environment is then FAILED with the reason.
        """
        with recipe_lock(self.environments, self.recipe.name), setup_lock(self.environments):
            return self._install()

    def install_in_turn(self, *, on_wait: Callable[[], None], build: Callable[[], TorchBuild]) -> EngineEnvironment:
        """The same after whatever other recipe is being installed, and only where the disk can take it.

        `on_wait` is called where there is another one, `build` to learn how much has to fit.

        Raises:
            SetupError: this recipe is being installed or waits already, the disk is too small, or a step failed.
        """
        with (
            recipe_lock(self.environments, self.recipe.name),
            setup_turn(self.environments, on_wait=on_wait, deadline_s=TURN_DEADLINE_S),
        ):
            return self._install(lambda begun: self._check_space(begun, build()))

    def _install(self, check: Callable[[EngineEnvironment], None] | None = None) -> EngineEnvironment:
        done_meanwhile = current_environment(self.environments, self.recipe, self.repository)
        if done_meanwhile is not None:
            return done_meanwhile
        return self._bring_to_ready(begun_environment(self.environments, self.recipe) or self._new(), check)

    def _check_space(self, environment: EngineEnvironment, build: TorchBuild) -> None:
        space_plan(self.recipe, build, environment.folder, environ=self.environ).check_space()

    def repair(self, environment: EngineEnvironment) -> EngineEnvironment:
        """Compare every installed file with what was recorded, and install again what is damaged."""
        packages = site_packages_of(environment.venv)
        if packages is not None and not (packages.damaged() or packages.cut_short()):
            return environment
        with recipe_lock(self.environments, self.recipe.name), setup_lock(self.environments):
            return self._bring_to_ready(environment)

    def _new(self) -> EngineEnvironment:
        identifier = self.new_id()
        folder = self.environments / identifier
        folder.mkdir(mode=0o700, exist_ok=True)
        environment = EngineEnvironment(identifier, self.recipe.name, folder, EnvironmentState.INSTALLING)
        write_environment(environment)
        return environment

    def _bring_to_ready(
        self, environment: EngineEnvironment, check: Callable[[EngineEnvironment], None] | None = None
    ) -> EngineEnvironment:
        runner = StepRunner(environment.install_log, self.console, self.environ)
        steps = self._steps(environment)
        try:
            if check is not None:
                check(environment)
            for number, step in enumerate(steps, start=1):
                environment = replace(environment, state=EnvironmentState.INSTALLING, step=step.title, reason="")
                write_environment(environment)
                if number == 1:
                    self._copy_kernels(environment)
                    self._clear_damage(environment)
                    if self._has_pip(environment):
                        continue
                runner.run(step, number=number, total=len(steps))
            return self._ready(environment)
        except SetupError as err:
            reason = err.message.splitlines()[0]
            write_environment(replace(environment, state=EnvironmentState.FAILED, reason=reason))
            raise
        finally:
            shutil.rmtree(environment.folder / KERNELS_COPY, ignore_errors=True)

    def _steps(self, environment: EngineEnvironment) -> tuple[Step, ...]:
        result = environment.folder / "self_test.json"
        result.unlink(missing_ok=True)
        venv = Step(
            "create the engine's environment",
            (str(self.base_python), "-m", "venv", "--clear", str(environment.venv)),
            VENV_DEADLINE_S,
        )
        test = Step(
            "test the engine",
            (str(environment.python), "-P", "-c", self.recipe.self_test, str(result)),
            SELF_TEST_DEADLINE_S,
        )
        return (venv, *(self._pip_step(environment, install) for install in self.recipe.installs), test)

    def _pip_step(self, environment: EngineEnvironment, install: PipInstall) -> Step:
        places = {
            "{requirements}": str(self.repository / self.recipe.requirements),
            "{kernels}": str(environment.folder / KERNELS_COPY),
        }
        arguments = [places.get(argument, argument) for argument in install.arguments]
        return Step(install.title, self.access.install(environment.python, *arguments), install.deadline_s)

    def _copy_kernels(self, environment: EngineEnvironment) -> None:
        """pip builds in the folder it is given, and the repository may be somebody else's or read-only."""
        copy = environment.folder / KERNELS_COPY
        shutil.rmtree(copy, ignore_errors=True)
        if self.recipe.kernels:
            shutil.copytree(self.repository / self.recipe.kernels, copy, ignore=shutil.ignore_patterns(*_LEFT_OUT))

    def _clear_damage(self, environment: EngineEnvironment) -> None:
        """Let pip install again what an interrupted pip left half done and what lost files since."""
        forget_cut_short(environment.venv)
        packages = site_packages_of(environment.venv)
        damaged = packages.damaged() if packages is not None else ()
        if packages is not None and damaged:
            self.console.line(f"Damaged, and installed again: {named(damaged)}.")
            packages.forget(damaged)

    def _has_pip(self, environment: EngineEnvironment) -> bool:
        """Whether the empty environment was made before: pip is its last part."""
        packages = site_packages_of(environment.venv)
        return (
            packages is not None and environment.python.exists() and any(packages.folder.glob("pip-*.dist-info/RECORD"))
        )

    def _ready(self, environment: EngineEnvironment) -> EngineEnvironment:
        found = json.loads((environment.folder / "self_test.json").read_text(encoding="utf-8"))
        missing = [Lack(LackKey(one["key"]), one["detail"][:DETAIL_CHARACTERS]) for one in found.pop("missing", ())]
        ready = replace(
            environment,
            state=EnvironmentState.READY,
            step="",
            versions=found,
            missing=tuple(missing),
            requirements_sha256=requirements_sha256(self.recipe, self.repository),
            fingerprint=self._packages(environment).fingerprint(),
            ready_at=time.time(),
        )
        write_environment(ready)
        return ready

    def _packages(self, environment: EngineEnvironment) -> SitePackages:
        packages = site_packages_of(environment.venv)
        if packages is None:
            raise SetupError(f"{environment.venv} has no packages after its installation.")
        return packages
