"""Whether a model's folder is whole: config, tokenizer, index against shards, headers against sizes. Weights are not read.

Each file is looked at once for each state of it: what did not change is remembered, within a bound.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from backend.fit.facts_error import ModelFactsError
from backend.fit.model_facts import (
    CONFIG_FILE,
    INDEX_FILE,
    MOST_CONFIG_BYTES,
    MOST_INDEX_BYTES,
    MOST_SHARDS,
    shards_of_index,
)
from backend.fit.safetensors_header import LENGTH_BYTES, header_length, read_header
from backend.launch.models import MODEL_FILE
from backend.preflight.situation import FileProblem

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE_FILE = "chat_template.jinja"
ANY_WEIGHTS = "*.safetensors"
MOST_TOKENIZER_BYTES = 128 * 1024 * 1024
MOST_FILES = 4096
REMEMBERED = 4096
_OTHER_TOKENIZERS = ("tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model", "*.tiktoken")
_OTHER_TOKENIZERS_TOO = ("sentencepiece*.model", "*.vocab", "tokenization_*.py", "tokenizer.model.v*")
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.gguf")
_DATE_SIGNS = ("strftime_now", "date_string")


@dataclass(frozen=True)
class FolderReport:
    """What a look at a model's folder found."""

    config: Mapping[str, Any] | None  # None: missing or broken
    missing: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    corrupt: tuple[FileProblem, ...] = ()
    changed: tuple[str, ...] = ()
    template_dates: bool | None = None  # None: there is no chat template that could be read


def look_at_folder(folder: Path) -> FolderReport:
    """Look at the files. Blocks for as long as the headers of all shards take to read; never raises."""
    config = _json(folder / CONFIG_FILE, most_bytes=MOST_CONFIG_BYTES)
    tokenizer = _json(folder / TOKENIZER_FILE, most_bytes=MOST_TOKENIZER_BYTES)
    settings = _json(folder / TOKENIZER_CONFIG, most_bytes=MOST_CONFIG_BYTES)
    missing = [CONFIG_FILE] if config is None else []
    if tokenizer is None and not _has_any(folder, (*_OTHER_TOKENIZERS, *_OTHER_TOKENIZERS_TOO)):
        missing.append(TOKENIZER_FILE)
    corrupt = [found for found in (config, tokenizer, settings) if isinstance(found, FileProblem)]
    lacking, broken = _weights(folder)
    missing += lacking
    corrupt += broken
    lost, shorter, changed = _against_record(folder, {*missing, *(problem.file for problem in corrupt)})
    return FolderReport(
        config=config if isinstance(config, dict) else None,
        missing=tuple(missing),
        lost=lost,
        corrupt=(*corrupt, *shorter),
        changed=changed,
        template_dates=_template_dates(folder, settings),
    )


def _weights(folder: Path) -> tuple[list[str], list[FileProblem]]:
    """Weight files that are missing, and those that are broken."""
    index = _json(folder / INDEX_FILE, most_bytes=MOST_INDEX_BYTES)
    there = sorted(_glob(folder, ANY_WEIGHTS))[:MOST_SHARDS]
    if isinstance(index, FileProblem):
        return [], [index, *_broken(there)]
    if index is None:
        if not there and not _has_any(folder, _OTHER_WEIGHTS):
            return [ANY_WEIGHTS], []
        return [], list(_broken(there))
    try:
        named = shards_of_index(index, file=INDEX_FILE)
    except ModelFactsError as err:
        return [], [FileProblem(INDEX_FILE, str(err)), *_broken(there)]
    missing = [name for name in named if not (folder / name).is_file()]
    return missing, list(_broken([folder / name for name in named if name not in missing]))


def _broken(shards: list[Path]) -> Iterator[FileProblem]:
    for shard in shards:
        signature = _signature(shard)
        reason = _shard_problem(shard, *signature) if signature else "it cannot be read"
        if reason:
            yield FileProblem(shard.name, reason)


@lru_cache(maxsize=REMEMBERED)
def _shard_problem(shard: Path, size: int, modified_ns: int) -> str:
    """What is wrong with a shard of this size; "" for nothing. Its header is read, and must account for every byte."""
    try:
        tensors = read_header(shard)
        with shard.open("rb") as file:
            length = header_length(file.read(LENGTH_BYTES), file=shard.name)
    except ModelFactsError as err:
        return str(err).replace(f"{shard.parent}/", "")
    except OSError as err:
        return str(err.strerror)
    needed = LENGTH_BYTES + length + sum(tensor.size_bytes for tensor in tensors)
    return "" if size == needed else f"{size} bytes, its header accounts for {needed}"


def _against_record(folder: Path, told: set[str]) -> tuple[tuple[str, ...], tuple[FileProblem, ...], tuple[str, ...]]:
    """What model.json remembers of the download and is not so: lost, shorter (weights only), of another size."""
    record = _json(folder / MODEL_FILE, most_bytes=MOST_CONFIG_BYTES)
    files = record.get("files") if isinstance(record, dict) else None
    lost, shorter, changed = [], [], []
    for name, entry in list(files.items())[:MOST_FILES] if isinstance(files, dict) else []:
        expected = entry.get("bytes") if isinstance(entry, dict) else None
        if not isinstance(expected, int) or name in told or name.startswith("/") or ".." in name.split("/"):
            continue
        signature = _signature(folder / name)
        if signature is None:
            lost.append(name)
        elif signature[0] < expected and Path(name).suffix in (".bin", ".pt", ".gguf"):
            shorter.append(FileProblem(name, f"{signature[0]} of {expected} bytes"))
        elif signature[0] != expected:
            changed.append(name)
    return tuple(lost), tuple(shorter), tuple(changed)


def _template_dates(folder: Path, settings: Mapping[str, Any] | FileProblem | None) -> bool | None:
    """Whether the chat template asks for the day. A template in a file of its own counts before that in the settings."""
    text = _template_file(folder / TEMPLATE_FILE)
    if text is None and isinstance(settings, dict):
        text = json.dumps(settings["chat_template"]) if "chat_template" in settings else None
    return None if text is None else any(sign in text for sign in _DATE_SIGNS)


def _template_file(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(MOST_CONFIG_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None


def _json(path: Path, *, most_bytes: int) -> dict[str, Any] | FileProblem | None:
    """The file's object; what is wrong with it; None where it is not there."""
    signature = _signature(path)
    if signature is None:
        return None
    return _parsed(path, *signature, most_bytes)


@lru_cache(maxsize=64)
def _parsed(path: Path, size: int, modified_ns: int, most_bytes: int) -> dict[str, Any] | FileProblem:
    """The object of a file in this state. Callers only read it. Of a large one only whether it is JSON is kept."""
    if size > most_bytes:
        return FileProblem(path.name, f"longer than {most_bytes} bytes")
    try:
        found = json.loads(path.read_bytes())
    except OSError as err:
        return FileProblem(path.name, str(err.strerror))
    except (ValueError, RecursionError) as err:
        return FileProblem(path.name, f"not JSON: {err}"[:200])
    if not isinstance(found, dict):
        return FileProblem(path.name, "not a JSON object")
    return {} if path.name == TOKENIZER_FILE else found


def _signature(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None where it is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if path.is_file() else None


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []


def _has_any(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(_glob(folder, pattern) for pattern in patterns)
