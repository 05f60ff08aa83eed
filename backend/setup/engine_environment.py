"""Install an engine environment so that nothing half-installed ever counts as ready, and go on where the last try stopped."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from backend.environment.environment import (
    EngineEnvironment,
    EnvironmentState,
    environments_in,
    newest_ready,
    write_environment,
)
from backend.errors import SetupError
from backend.setup.console import Console
from backend.setup.pip_access import PipAccess
from backend.setup.recipe import PipInstall, Recipe
from backend.setup.setup_lock import setup_lock
from backend.setup.site_packages import SitePackages, forget_cut_short, named, site_packages_of
from backend.setup.step import Step, StepRunner

VENV_DEADLINE_S = 300.0
SELF_TEST_DEADLINE_S = 600.0  # the first import reads 2.6 GB from a disk that may be slow


def current_environment(environments: Path, recipe: Recipe, repository: Path) -> EngineEnvironment | None:
    """The READY environment that was installed from today's requirements and lost no package since. Starts no process."""
    environment = newest_ready(environments_in(environments), recipe.name)
    if environment is None or environment.requirements_sha256 != requirements_sha256(recipe, repository):
        return None
    packages = site_packages_of(environment.venv)
    return environment if packages is not None and packages.fingerprint() == environment.fingerprint else None


def requirements_sha256(recipe: Recipe, repository: Path) -> str:
    """Identifies what a recipe installs; a comment reworded is no reason to install again."""
    lines = (repository / recipe.requirements).read_text(encoding="utf-8").splitlines()
    wanted = [line.partition("#")[0].strip() for line in lines]
    return hashlib.sha256("\n".join(filter(None, wanted)).encode()).hexdigest()


@dataclass(frozen=True)
class EngineInstaller:
    """Makes environments of one recipe below one folder."""

    recipe: Recipe
    repository: Path
    environments: Path
    base_python: Path
    access: PipAccess
    console: Console
    environ: Mapping[str, str]
    new_id: Callable[[], str]

    def install(self) -> EngineEnvironment:
        """Bring one environment to READY: the interrupted, failed or outdated one that is there, else a new one.

        Raises:
            SetupError: another setup is at work, or a step failed; the environment is then FAILED with the reason.
        """
        with setup_lock(self.environments):
            done_meanwhile = current_environment(self.environments, self.recipe, self.repository)
            return done_meanwhile or self._bring_to_ready(self._unfinished() or self._new())

    def repair(self, environment: EngineEnvironment) -> EngineEnvironment:
        """Compare every installed file with what was recorded, and install again what is damaged."""
        packages = site_packages_of(environment.venv)
        if packages is not None and not (packages.damaged() or packages.cut_short()):
            return environment
        with setup_lock(self.environments):
            return self._bring_to_ready(environment)

    def _unfinished(self) -> EngineEnvironment | None:
        """An environment of this recipe to go on with: the one that was ready before, else any."""
        mine = [one for one in environments_in(self.environments) if one.recipe == self.recipe.name]
        return max(mine, key=lambda one: one.ready_at or 0.0, default=None)

    def _new(self) -> EngineEnvironment:
        identifier = self.new_id()
        folder = self.environments / identifier
        folder.mkdir(mode=0o700)
        environment = EngineEnvironment(identifier, self.recipe.name, folder, EnvironmentState.INSTALLING)
        write_environment(environment)
        return environment

    def _bring_to_ready(self, environment: EngineEnvironment) -> EngineEnvironment:
        runner = StepRunner(environment.install_log, self.console, self.environ)
        steps = self._steps(environment)
        try:
            for number, step in enumerate(steps, start=1):
                environment = replace(environment, state=EnvironmentState.INSTALLING, step=step.title, reason="")
                write_environment(environment)
                if number == 1:
                    self._clear_damage(environment)
                    if self._has_pip(environment):
                        continue
                runner.run(step, number=number, total=len(steps))
            return self._ready(environment)
        except SetupError as err:
            reason = err.message.splitlines()[0]
            write_environment(replace(environment, state=EnvironmentState.FAILED, reason=reason))
            raise

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
        path = str(self.repository / self.recipe.requirements)
        arguments = (argument.replace("{requirements}", path) for argument in install.arguments)
        return Step(install.title, self.access.install(environment.python, *arguments), install.deadline_s)

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
        versions = json.loads((environment.folder / "self_test.json").read_text(encoding="utf-8"))
        ready = replace(
            environment,
            state=EnvironmentState.READY,
            step="",
            versions=versions,
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
