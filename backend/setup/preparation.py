"""The order of setup: what is missing, said before it is downloaded; then the panel's environment, the engine's, and the model."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from backend.environment.environment import EngineEnvironment
from backend.errors import SetupError
from backend.setup.arguments import SetupArguments
from backend.setup.console import Console, size
from backend.setup.download_plan import DownloadPlan, PlanRow, cache_row, row_for
from backend.setup.engine_environment import begun_environment, current_environment
from backend.setup.gpu_detection import detect_nvidia, engine_advice
from backend.setup.machine import machine_warnings
from backend.setup.model_install import EMBEDDED_MODEL, MODEL_FOOTPRINT, embedded_model_folder
from backend.setup.panel_environment import PanelEnvironment
from backend.setup.pip_access import PipAccess, access_from
from backend.setup.recipe import CPU_RECIPE, Recipe, TorchBuild
from backend.setup.torch_build import ask_torch_build


@dataclass(frozen=True)
class Preparation:
    """One run of setup, before any of the panel's packages need to be there."""

    arguments: SetupArguments
    repository: Path
    console: Console
    environ: Mapping[str, str]
    base_python: Path
    recipe: Recipe = CPU_RECIPE

    @cached_property
    def access(self) -> PipAccess:
        arguments = self.arguments
        return access_from(self.base_python, self.environ, arguments.index_url, arguments.torch_index_url)

    @property
    def panel(self) -> PanelEnvironment:
        return PanelEnvironment(self.repository, self.base_python, with_dev=self.arguments.with_dev)

    @property
    def environments(self) -> Path:
        return self.arguments.home / "environments"

    @property
    def models(self) -> Path:
        return self.arguments.home / "models"

    def ready_engine(self) -> EngineEnvironment | None:
        """The engine environment, if nothing about it needs doing."""
        return current_environment(self.environments, self.recipe, self.repository)

    def prepare_panel(self) -> bool:
        """Make the panel's environment whole. True where that took an installation, and the plan was shown.

        Raises:
            SetupError: no space, no agreement, or an installation that failed.
        """
        panel = self.panel
        if panel.is_whole() and not (self.arguments.repair and panel.is_damaged()):
            return False
        with panel.lock():
            runner = panel.runner(self.console, self.access.environ(self.environ))
            panel.create(runner)
            self.announce(is_panel_missing=True)
            panel.install(runner, self.access)
        return True

    def announce(self, *, is_panel_missing: bool, with_model: bool = True) -> None:
        """Show what is to be downloaded, check the space for it, and ask where there is someone to answer.

        Raises:
            SetupError: the space does not suffice, or the answer is no.
        """
        is_engine_missing = not self.arguments.panel_only and self.ready_engine() is None
        build = self._torch_build() if is_engine_missing else None
        rows = (
            *self._panel_rows(is_panel_missing),
            *self._engine_rows(build),
            *(self._model_rows() if with_model else ()),
        )
        plan = DownloadPlan((*rows, *cache_row(rows, self.environ)))
        if not plan.rows:
            return
        for line in ("Volta Panel needs:", *plan.table(), *self._notes(build)):
            self.console.line(line)
        plan.check_space()
        if not self.arguments.assume_yes and sys.stdin.isatty() and not self.console.confirm("Go on?", sys.stdin):
            raise SetupError("Nothing was downloaded.", hint="Run this again at any time.")

    def _torch_build(self) -> TorchBuild:
        if len(self.recipe.footprints) == 1:
            return next(iter(self.recipe.footprints))
        self.console.progress("Asking the package index which build of torch it has ...")
        return ask_torch_build(self.panel.python, self.recipe.torch, access=self.access, environ=self.environ)

    def _panel_rows(self, is_missing: bool) -> tuple[PlanRow, ...]:
        if not is_missing:
            return ()
        what = "the panel and its test tools" if self.arguments.with_dev else "the panel"
        return (row_for(what, self.panel.footprint(), self.panel.venv, begun=self.panel.venv),)

    def _engine_rows(self, build: TorchBuild | None) -> tuple[PlanRow, ...]:
        if build is None:
            return ()
        environment = begun_environment(self.environments, self.recipe)
        begun = None if environment is None else environment.folder
        what = f"the {self.recipe.title} (vLLM)"
        return (row_for(what, self.recipe.footprint(build), self.environments, begun=begun),)

    def _model_rows(self) -> tuple[PlanRow, ...]:
        if self.arguments.panel_only or embedded_model_folder(self.models) is not None:
            return ()
        return (PlanRow(f"the model {EMBEDDED_MODEL} (comes with the engine)", MODEL_FOOTPRINT, self.models),)

    def _notes(self, build: TorchBuild | None) -> list[str]:
        notes = [*engine_advice(detect_nvidia()), *machine_warnings()]
        sizes = [footprint.download_bytes for footprint in self.recipe.footprints.values()]
        saved = max(sizes) - min(sizes)
        cheaper = f"A source of PyTorch's CPU wheels (--extra-index-url URL) would save about {size(saved)}."
        if build is TorchBuild.CUDA and saved:
            notes.append(
                f"This index has the CUDA build of torch only: it works without a card too, but is large. {cheaper}"
            )
        if build is TorchBuild.UNKNOWN:
            notes.append(
                f"The package index did not say which build of torch it has, so the larger one is assumed. {cheaper}"
            )
        notes.append(
            "Where the download is slow, name a mirror near you by --index-url URL. "
            "It can be stopped at any time: run again, it goes on with what is missing."
        )
        return notes
