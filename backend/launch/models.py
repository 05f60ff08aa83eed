"""The model folders in the state folder: which are there, and where."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from backend.errors import LaunchError

log = logging.getLogger(__name__)

MODEL_FILE = "model.json"  # written last, so a folder without it is not a model yet


@dataclass(frozen=True)
class LocalModel:
    """A model folder that is complete: its model.json is written after every other file."""

    name: str
    folder: Path


def list_models(models: Path) -> tuple[LocalModel, ...]:
    """Every complete model folder; one whose model.json cannot be read is logged and left out."""
    found = []
    for path in sorted(models.glob(f"*/{MODEL_FILE}")):
        try:
            name = json.loads(path.read_text(encoding="utf-8"))["name"]
        except (OSError, ValueError, KeyError, TypeError) as err:
            log.warning("model folder %s left out: %s", path.parent, err)
            continue
        found.append(LocalModel(name=str(name), folder=path.parent))
    return tuple(found)


def find_model(models: Path, name: str) -> LocalModel:
    """The complete model folder of this name.

    Raises:
        LaunchError: there is none.
    """
    for model in list_models(models):
        if model.name == name:
            return model
    raise LaunchError(
        f"The model {name!r} is not in {models}.", hint="Run 'make setup': it prepares the embedded model."
    )
