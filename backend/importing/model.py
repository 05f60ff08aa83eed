"""Which model a foreign command means, and in which format its weights are."""

import re
from collections.abc import Callable
from typing import Any

from backend.errors import PresetError

Note = Callable[..., None]

_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+?)(?:/|$)")  # the hub's cache: models--Qwen--Qwen3-8B/snapshots/…
_MODELSCOPE_CACHE = re.compile(r"modelscope/(?:hub/)?(?:models/)?([\w.-]+)/([\w.-]+)/?$")
_QUANTIZATIONS = {
    "awq": "awq",
    "awq_marlin": "awq",
    "fp8": "fp8",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "int8": "int8",
    "modelopt_fp4": "nvfp4",
    "modelopt_mixed": "nvfp4",
    "none": "none",
    "nvfp4": "nvfp4",
    "ptpc_fp8": "fp8",
}
_IN_NAMES = (
    (re.compile(r"nvfp4|[-_.]fp4", re.IGNORECASE), "nvfp4"),
    (re.compile(r"awq", re.IGNORECASE), "awq"),
    (re.compile(r"gptq", re.IGNORECASE), "gptq"),
    (re.compile(r"fp8", re.IGNORECASE), "fp8"),
    (re.compile(r"int8|w8a8|w8a16", re.IGNORECASE), "int8"),
)


def model_source(model: str, revision: str | None, *, modelscope: bool, note: Note) -> dict[str, Any]:
    """The preset's `model`: a repository on a hub, or the name of a folder.

    Raises:
        PresetError: the model is a variable nobody set, or a place holder of some documentation.
    """
    model = model.strip().rstrip("/\\")
    if re.search(r"[$<>]", model) or not re.search(r"\w", model):
        raise PresetError(f"The model is {model[:200]!r}.", hint="Write its real name or folder instead.")
    cached, by_modelscope = _CACHED.search(model), _MODELSCOPE_CACHE.search(model.replace("___", "."))
    if cached:
        repo, modelscope = f"{cached[1]}/{cached[2]}", False
    elif by_modelscope:
        repo, modelscope = f"{by_modelscope[1]}/{by_modelscope[2]}", True
    else:
        repo = model
    if not _REPO.fullmatch(repo):
        name = re.split(r"[/\\]", model)[-1].replace("___", ".")[:200]
        note("model_by_path", value=model, name=name)
        return {"name": name}
    source = {"repo": repo, "revision": revision or ("master" if modelscope else "main")}
    return {"name": repo.split("/")[1], "modelscope" if modelscope else "huggingface": source}


def quantization_of(given: str | None, model: str, *, note: Note) -> str:
    """The preset's `quantization`, from the flag, else from the model's name."""
    if given in _QUANTIZATIONS:
        return _QUANTIZATIONS[given]
    if given is not None:
        note("quantization_left_to_checkpoint", value=given)
    found = next((kind for pattern, kind in _IN_NAMES if pattern.search(re.split(r"[/\\]", model)[-1])), None)
    if found is None:
        return "none"
    note("quantization_from_name", value=found)
    return found
