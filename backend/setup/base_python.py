"""The interpreter that an engine's environment is made from: the panel's own, or another that the engine has packages for."""

import platform
import sys
from pathlib import Path

from backend.errors import SetupError
from backend.setup.bootstrap import ask, candidates, dotted
from backend.setup.recipe import Recipe


def own_base_python() -> Path:
    """The interpreter that the panel's environment was made from."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable)


def base_python_for(recipe: Recipe, repository: Path) -> Path:
    """The panel's own where it fits, else the first on PATH that does. Asks each by starting it: seconds, not on a loop.

    Raises:
        SetupError: none fits, or the recipe is not for this processor.
    """
    if platform.machine() not in recipe.machines:
        raise SetupError(
            f"The {recipe.title} has packages for {' and '.join(recipe.machines)} only; this machine is {platform.machine()}."
        )
    if recipe.runs_on(sys.version_info[:2]):
        return own_base_python()
    for path in candidates(repository):
        found = ask(path)
        if found is not None and found.has_venv and recipe.runs_on(found.version):
            return Path(found.path)
    raise SetupError(
        f"The {recipe.title} needs Python {dotted(recipe.python_from)} to {dotted(recipe.python_to)}; the panel runs on "
        f"{dotted(_own())}, and none on PATH fits.",
        hint="Install such a Python beside it (apt, conda or uv), then try again.",
    )


def _own() -> tuple[int, int]:
    return sys.version_info[0], sys.version_info[1]
