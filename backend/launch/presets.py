"""Named launch recipes: one strict schema, read from YAML, every mistake named with file, line and key."""

import difflib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.errors import PresetError

log = logging.getLogger(__name__)

MAX_PRESET_BYTES = 64 * 1024
Flag = bool | int | float | str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Words(_Strict):
    """One text in the panel's languages."""

    en: Annotated[str, Field(min_length=1)]
    zh: Annotated[str, Field(min_length=1)]

    def in_language(self, language: str) -> str:
        return self.zh if language == "zh" else self.en


class Preset(_Strict):
    """A recipe as intent: which model, on which kind of engine, with how much context. The launcher spells it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    title: Words
    summary: Words
    model: Annotated[str, Field(min_length=1)]  # the name of a model in the state folder
    served_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$")]  # what clients call it
    engine: Literal["cpu"]  # the kind of engine environment it needs
    dtype: Literal["float32", "float16", "bfloat16"]
    context: Annotated[int, Field(ge=64)]  # tokens, prompt and answer together
    kv_cache_gib: Annotated[int, Field(ge=1)]
    flags: Mapping[str, Flag] = {}  # further engine flags, without their dashes
    env: Mapping[str, str] = {}
    expected_ready_s: Annotated[float, Field(gt=0)] | None = None
    ready_timeout_s: Annotated[float, Field(gt=0, le=7200)] = 600.0


@dataclass(frozen=True)
class PresetShelf:
    """All presets that could be read, and what is wrong with the others."""

    presets: tuple[Preset, ...]
    problems: tuple[str, ...]

    def by_name(self, name: str) -> Preset:
        for preset in self.presets:
            if preset.name == name:
                return preset
        raise PresetError(
            f"There is no preset named {name!r}.", hint=f"Known: {', '.join(p.name for p in self.presets)}."
        )


def read_shelf(*folders: Path) -> PresetShelf:
    """Every *.yaml in the folders, the first folder's first. A broken file is a problem of its own, never of the others."""
    presets: dict[str, Preset] = {}
    problems = []
    for path in (path for folder in folders for path in sorted(folder.glob("*.yaml"))):
        try:
            preset = read_preset(path)
            if preset.name in presets:
                raise PresetError(f"{path.name}: name: {preset.name!r} is already taken by another preset.")
        except PresetError as err:
            log.warning("preset left out: %s", err)
            problems.append(str(err))
        else:
            presets[preset.name] = preset
    return PresetShelf(tuple(presets.values()), tuple(problems))


def read_preset(path: Path) -> Preset:
    """One preset file.

    Raises:
        PresetError: names the file, the line, the key and, for an unknown key, the nearest known one.
    """
    try:
        if path.stat().st_size > MAX_PRESET_BYTES:
            raise PresetError(f"{path.name} is larger than {MAX_PRESET_BYTES // 1024} KiB; a preset is a page of text.")
        text = path.read_text(encoding="utf-8")
        document = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as err:
        raise PresetError(f"{path.name} cannot be read: {err}.") from err
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise PresetError(f"{path.name} is not valid YAML: {_one_line(str(err))}.") from err
    if not isinstance(values, dict) or document is None:
        raise PresetError(f"{path.name} must hold 'key: value' lines.")
    lines = dict(_lines_of_keys(document))
    repeated = _repeated_key(document)
    if repeated is not None:
        raise PresetError(f"{path.name}, line {repeated[1]}: {repeated[0]} is there twice.")
    try:
        return Preset.model_validate(values)
    except ValidationError as err:
        raise PresetError(_explain(path, err, lines=lines)) from err


def _explain(path: Path, err: ValidationError, *, lines: Mapping[tuple[str, ...], int]) -> str:
    problems = err.errors(include_url=False)
    # a misspelt key also leaves the right one missing: name the misspelling, it is the cause
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    location = tuple(str(part) for part in problem["loc"])
    line = next((lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in lines), 1)
    where = f"{path.name}, line {line}: {'.'.join(location)}"
    if problem["type"] == "extra_forbidden":
        return f"{where} is not a known key.{_nearest(location)}"
    if problem["type"] == "missing":
        return f"{path.name}: {'.'.join(location)} is missing."
    return f"{where} = {_one_line(repr(problem['input']))}: {problem['msg']}."


def _nearest(location: tuple[str, ...]) -> str:
    known = _known_keys(Preset, location[:-1])
    match = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else f" Known keys: {', '.join(known)}."


def _known_keys(model: type[BaseModel], parents: tuple[str, ...]) -> tuple[str, ...]:
    for parent in parents:
        annotation: Any = model.model_fields[parent].annotation
        options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        model = next(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))
    return tuple(model.model_fields)


def _lines_of_keys(node: yaml.Node, parents: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            location = (*parents, str(key.value))
            yield location, key.start_mark.line + 1
            yield from _lines_of_keys(value, location)


def _repeated_key(node: yaml.Node) -> tuple[str, int] | None:
    """YAML lets the last of two equal keys win in silence; a preset must not."""
    if not isinstance(node, yaml.MappingNode):
        return None
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen:
            return str(key.value), key.start_mark.line + 1
        seen.add(key.value)
        inner = _repeated_key(value)
        if inner is not None:
            return inner
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:200]
