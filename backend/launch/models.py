"""The model folders in the state folder: which are there, how large they are, and how their weights are stored."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.errors import LaunchError

log = logging.getLogger(__name__)

EMBEDDED = "SmolLM2-135M-Instruct"  # comes with the setup
MODEL_FILE = "model.json"  # written last, so a folder without it is not a model yet
MAX_CONFIG_BYTES = 8 * 1024 * 1024
WEIGHT_SUFFIXES = frozenset({".safetensors", ".bin", ".pt", ".gguf"})


@dataclass(frozen=True)
class LocalModel:
    """A model folder that is complete: its model.json is written after every other file."""

    name: str
    folder: Path
    quantization: str | None = None  # the method its own files name; "" for none, None where they could not be read
    weight_bytes: int | None = None  # of all weight files


def list_models(models: Path) -> tuple[LocalModel, ...]:
    """Every complete model folder; one whose model.json cannot be read is logged and left out."""
    return tuple(read_model(name, folder) for name, folder in model_folders(models))


def model_folders(models: Path) -> Iterator[tuple[str, Path]]:
    """Name and folder of every complete model; of its files only model.json is read."""
    for path in sorted(models.glob(f"*/{MODEL_FILE}")):
        try:
            name = json.loads(path.read_text(encoding="utf-8"))["name"]
        except (OSError, ValueError, KeyError, TypeError) as err:
            log.warning("model folder %s left out: %s", path.parent, err)
            continue
        yield str(name), path.parent


def find_model(models: Path, name: str) -> LocalModel:
    """The complete model folder of this name.

    Raises:
        LaunchError: there is none.
    """
    for found, folder in model_folders(models):
        if found == name:
            return read_model(name, folder)
    hint = (
        "Run 'make setup': it prepares this model." if name == EMBEDDED else "Put its folder there, or choose another."
    )
    raise LaunchError(f"The model {name!r} is not in {models}.", hint=hint)


def read_model(name: str, folder: Path) -> LocalModel:
    """What the folder's own files tell of a model. A file that cannot be read leaves its fact unknown."""
    return LocalModel(name, folder, declared_quantization(folder), _weight_bytes(folder))


def declared_quantization(folder: Path) -> str | None:
    """The quantization method that config.json or hf_quant_config.json names, as vLLM looks for it; "" where none does."""
    config = _read_json(folder / "config.json")
    if config is None:
        return None
    text_config = config.get("text_config")
    for holder in (config, text_config if isinstance(text_config, dict) else {}):
        for key in ("quantization_config", "compression_config"):
            declared = holder.get(key)
            if isinstance(declared, dict):
                return str(declared.get("quant_method") or "compressed-tensors").lower()
    if (folder / "hf_quant_config.json").is_file():  # ModelOpt's own file
        return "modelopt"
    return ""


def _weight_bytes(folder: Path) -> int | None:
    try:
        sizes = [path.stat().st_size for path in folder.iterdir() if path.suffix in WEIGHT_SUFFIXES]
    except OSError as err:
        log.warning("size of the model in %s not known: %s", folder, err)
        return None
    return sum(sizes) if sizes else None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError) as err:
        log.debug("%s cannot be read: %s", path, err)
        return None
    return values if isinstance(values, dict) else None
