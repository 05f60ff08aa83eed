"""`python -m backend.setup run|prepare|status|install` in the panel's own environment: engines, the model, the panel's start."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backend.environment.environment import EngineEnvironment
from backend.environment.probe import cached_probe, probe_environment
from backend.errors import SetupError
from backend.setup.arguments import read_arguments
from backend.setup.base_python import base_python_for, own_base_python
from backend.setup.console import Console, duration
from backend.setup.engine_environment import EngineInstaller
from backend.setup.model_install import ModelInstaller, embedded_model_folder
from backend.setup.preparation import Preparation
from backend.setup.recipe import find_recipe
from backend.setup.status_report import status_lines
from backend.state_folder import StateFolder, new_id

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def main(argv: Sequence[str]) -> int:
    """The exit code; `run` does not return but becomes the panel."""
    arguments = read_arguments(argv, os.environ)
    console = Console(sys.stdout)
    preparation = Preparation(arguments, REPOSITORY, console, os.environ, own_base_python())
    try:
        if arguments.command == "status":
            for line in status_lines(preparation):
                console.line(line)
            return 0
        StateFolder(arguments.home).create()
        if arguments.command == "install":
            install_recipe(preparation)
            return 0
        if not arguments.panel_only:
            prepare_engine(preparation)
        if arguments.command == "run":
            start_panel(preparation)
    except (SetupError, OSError) as err:  # a full or unreadable disk is nothing to trace back
        console.line(f"Setup stopped: {err}")
        if arguments.command == "run":
            console.line("The panel itself is ready. To open it without the engine: make run SETUP_ARGS=--panel-only")
        return 1
    except KeyboardInterrupt:
        console.line("Interrupted. Run this again: it goes on where it stopped.")
        return 130
    return 0


def install_recipe(preparation: Preparation) -> None:
    """One engine beside the embedded one, as the panel installs it; what is there already is left alone.

    Raises:
        SetupError: it is not for this machine, the disk is too small, the answer is no, or a step failed.
    """
    recipe = find_recipe(preparation.arguments.recipe)
    if recipe is None:
        raise SetupError(f"There is no recipe named {preparation.arguments.recipe}.")
    wanted = replace(preparation, recipe=recipe, base_python=base_python_for(recipe, REPOSITORY))
    environment = wanted.ready_engine()
    if environment is None:
        if not wanted.arguments.is_announced:
            wanted.announce(is_panel_missing=False, with_model=False)
        environment = _installer(wanted).install()
    wanted.console.line(f"The {recipe.title} is ready in {environment.folder}.")
    for lack in environment.missing:
        wanted.console.line(f"Missing for its cards: {lack.key.value}: {lack.detail}")
    _probe(wanted, environment)


def prepare_engine(preparation: Preparation) -> None:
    """The CPU engine, its model and its probe: what is missing of them is made, what is there is left alone.

    Raises:
        SetupError: this Python has no packages of the engine, or a step failed.
    """
    environment, model = preparation.ready_engine(), embedded_model_folder(preparation.models)
    if (environment is None or model is None) and not preparation.arguments.is_announced:
        preparation.announce(is_panel_missing=False)
    installer = _installer(preparation)
    if environment is None:
        _check_python(preparation)
        environment = installer.install()
    elif preparation.arguments.repair:
        environment = installer.repair(environment)
    if model is None:
        ModelInstaller(preparation.models, preparation.console, preparation.access.environ(os.environ), new_id).install(
            environment
        )
    _probe(preparation, environment)


def start_panel(preparation: Preparation) -> None:
    """Become the panel: the same process id, so that signals and exit codes are the panel's own."""
    python = str(preparation.panel.python)
    environ = {**os.environ, "VOLTA_HOME": str(preparation.arguments.home)}
    sys.stdout.flush()
    os.execve(python, (python, str(preparation.repository / "app.py"), *preparation.arguments.app_arguments), environ)


def _installer(preparation: Preparation) -> EngineInstaller:
    return EngineInstaller(
        recipe=preparation.recipe,
        repository=preparation.repository,
        environments=preparation.environments,
        base_python=preparation.base_python,
        access=preparation.access,
        console=preparation.console,
        environ=preparation.access.environ(os.environ),
        new_id=new_id,
    )


def _check_python(preparation: Preparation) -> None:
    recipe, version = preparation.recipe, sys.version_info[:2]
    if not recipe.runs_on(version):
        first, last = (".".join(map(str, bound)) for bound in (recipe.python_from, recipe.python_to))
        raise SetupError(
            f"The {recipe.title} needs Python {first} to {last}; the panel runs on {version[0]}.{version[1]}.",
            hint=f"Remove {preparation.panel.venv} and run this again with such a Python first on PATH.",
        )


def _probe(preparation: Preparation, environment: EngineEnvironment) -> None:
    """Look at the engine's flags now, so that the panel need not when it starts."""
    if cached_probe(environment) is not None:
        return
    started = preparation.console.clock()
    preparation.console.progress("Looking at the engine's flags ...")
    probe = probe_environment(environment)
    elapsed = duration(preparation.console.clock() - started)
    preparation.console.line(
        f"vLLM {probe.vllm} with torch {probe.torch}: {len(probe.flags)} flags, looked at in {elapsed}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
