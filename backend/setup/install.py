"""`python -m backend.setup.install --environments DIR --recipe NAME [--id ID]`: one installation as a process of its own.

It tells its progress in JSON lines on its standard output (progress_lines.py), waits its turn behind other recipes, and goes on
where an earlier one of its recipe stopped. The index comes by environment, never by argv: PIP_INDEX_URL and pip's other
variables, and VOLTA_TORCH_INDEX_URL for a further index. SIGTERM and Ctrl-C end it with its pip; the record then says
INSTALLING, and the next one goes on there. Exit codes: 0 ready, 1 failed, 130 cancelled.
"""

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from backend.errors import SetupError
from backend.setup.base_python import base_python_for
from backend.setup.engine_environment import EngineInstaller
from backend.setup.pip_access import PipAccess, access_from
from backend.setup.progress_lines import ProgressLines
from backend.setup.recipe import RECIPES, Recipe, TorchBuild, find_recipe
from backend.setup.torch_build import ask_torch_build
from backend.state_folder import new_id

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CANCELLED = 130
_ID = re.compile(r"[a-z0-9]{4,32}")


def main(argv: Sequence[str]) -> int:
    """The exit code."""
    options = _parser().parse_args(argv)
    recipe = find_recipe(options.recipe)
    if recipe is None:  # argparse has refused others
        raise SystemExit(2)
    signal.signal(signal.SIGTERM, _end)
    lines = ProgressLines(sys.stdout)
    try:
        installer = make_installer(
            recipe, Path(options.environments), lines, environ=os.environ, new_id=lambda: options.id or new_id()
        )
        ready = installer.install_in_turn(on_wait=lines.queued, build=lambda: _torch_build(installer, lines))
    except SetupError as err:
        lines.failed(err.message, err.hint)
        return 1
    except OSError as err:  # a full or unreadable disk is nothing to trace back
        lines.failed(f"The installation stopped: {err}.", "Free some disk space where it is full, then go on.")
        return 1
    except KeyboardInterrupt:
        return CANCELLED
    lines.done(ready.id)
    return 0


def make_installer(
    recipe: Recipe, environments: Path, lines: ProgressLines, *, environ: Mapping[str, str], new_id: Callable[[], str]
) -> EngineInstaller:
    """The installer of a recipe, its index as this environment says.

    Raises:
        SetupError: the recipe is not for this machine.
    """
    plain = PipAccess().environ(environ)
    access = access_from(
        Path(sys.executable),
        plain,
        environ.get("VOLTA_INDEX_URL") or None,
        environ.get("VOLTA_TORCH_INDEX_URL") or None,
    )
    return EngineInstaller(
        recipe=recipe,
        repository=REPOSITORY,
        environments=environments,
        base_python=base_python_for(recipe, REPOSITORY),
        access=access,
        console=lines,
        environ=access.environ(environ),
        new_id=new_id,
    )


def _torch_build(installer: EngineInstaller, lines: ProgressLines) -> TorchBuild:
    """Which build the index has, where the recipe takes either."""
    recipe = installer.recipe
    if len(recipe.footprints) == 1:
        return next(iter(recipe.footprints))
    lines.line("Asking the package index which build of torch it has.")
    return ask_torch_build(Path(sys.executable), recipe.torch, access=installer.access, environ=installer.environ)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: the way out ends pip and needs its seconds
    raise KeyboardInterrupt


def _identifier(text: str) -> str:
    if not _ID.fullmatch(text):
        raise argparse.ArgumentTypeError("4 to 32 small letters and digits")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m backend.setup.install", description="Install one engine environment.", allow_abbrev=False
    )
    parser.add_argument("--environments", required=True, help="the folder of all environments")
    parser.add_argument("--recipe", required=True, choices=[recipe.name for recipe in RECIPES])
    parser.add_argument("--id", type=_identifier, help="of the environment to make, where none of this recipe is begun")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
