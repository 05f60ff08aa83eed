"""Presets as YAML text: read strictly, with every mistake named by file, line and key, and written for people to edit."""

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from backend.errors import PresetError
from backend.launch.preset import Preset

MAX_PRESET_BYTES = 64 * 1024
_SHOWN = 200  # characters of a foreign value or message
_FLAG_TYPES = "must be true, false, a number, a text or a list of texts"
_ODD_LETTERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_HEAD = """\
# A preset of Volta Panel: what shall run, as intent. The panel spells it for the vLLM version it finds.
# A key that is left out leaves the decision to the engine. An unknown key is an error, so that no typing mistake passes.
# Keys:
"""


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases and tags: a few lines of nested aliases stand for more nodes than any memory holds."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise yaml.composer.ComposerError(
                None, None, "anchors, aliases and tags are not allowed in a preset", event.start_mark
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


class _TextDumper(yaml.SafeDumper):
    """Quotes a text with unusual line breaks: written plainly they are read back as spaces."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"' if _ODD_LETTERS.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_TextDumper.add_representer(str, _TextDumper.represent_text)


def read_preset(path: Path) -> Preset:
    """One preset file.

    Raises:
        PresetError: names the file, the line, the key and, for an unknown key, the nearest known one.
    """
    return parse_preset(read_text(path), source=path.name)


def read_text(path: Path) -> str:
    """The text of a preset file. Raises PresetError when it cannot be read or is no page of text."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PRESET_BYTES + 1)
        if len(content) > MAX_PRESET_BYTES:
            raise PresetError(f"{path.name} is larger than {MAX_PRESET_BYTES // 1024} KiB; a preset is a page of text.")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise PresetError(f"{path.name} cannot be read: {err}.") from err


def parse_preset(text: str, *, source: str) -> Preset:
    """The preset that a text describes; `source` is the name of the file in messages.

    Raises:
        PresetError: names the source, the line, the key and, for an unknown key, the nearest known one.
    """
    document = compose(text, source=source)
    try:
        values = _PlainLoader("").construct_document(document)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as err:
        raise PresetError(f"{source} is not valid YAML: {_one_line(str(err))}.") from err
    try:
        return Preset.model_validate(values)
    except ValidationError as err:
        raise PresetError(_explain(source, err, lines=dict(_lines_of_keys(document)))) from err


def compose(text: str, *, source: str) -> yaml.MappingNode:
    """The text as YAML nodes with their places, each key once. Raises PresetError."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PRESET_BYTES:
        raise PresetError(f"{source} is larger than {MAX_PRESET_BYTES // 1024} KiB; a preset is a page of text.")
    try:
        document = yaml.compose(text, Loader=_PlainLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        raise PresetError(f"{source} is not valid YAML: {_one_line(str(err))}.") from err
    if not isinstance(document, yaml.MappingNode):
        raise PresetError(f"{source} must hold 'key: value' lines.")
    repeated = _repeated_key(document)
    if repeated is not None:
        raise PresetError(f"{source}, line {repeated[1]}: {repeated[0]} is there twice.")
    return document


def dump_preset(preset: Preset) -> str:
    """The preset as YAML that reads back as the same preset, with every key explained at the top."""
    values = preset.model_dump(mode="json", exclude_defaults=True)
    body = yaml.dump(values, Dumper=_TextDumper, sort_keys=False, allow_unicode=True, width=4096)
    return f"{_HEAD}{''.join(_explained_keys(Preset))}\n{body}"


def _explained_keys(model: type[BaseModel], *, indent: int = 2) -> Iterator[str]:
    for name, field in model.model_fields.items():
        need = "" if field.is_required() else " (optional)"
        yield f"#{' ' * indent}{name}:{need} {field.description or ''}".rstrip() + "\n"
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _explained_keys(inner, indent=indent + 2)


def _explain(source: str, err: ValidationError, *, lines: Mapping[tuple[str, ...], int]) -> str:
    problems = err.errors(include_url=False)
    # a misspelt key also leaves the right one missing: name the misspelling, it is the cause
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    location = tuple(str(part) for part in problem["loc"])
    kind, message = problem["type"], _one_line(problem["msg"])
    if kind == "together":
        location = (*location, *str(problem["ctx"]["key"]).split(".", 1))
    elif location[:1] == ("flags",) and kind != "extra_forbidden" and len(location) > 2:
        location, message = location[:2], _FLAG_TYPES
    line = next((lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in lines), None)
    where = f"{source}{f', line {line}' if line else ''}: {'.'.join(location)}"
    if kind == "extra_forbidden":
        return f"{where} is not a known key.{_nearest(location)}"
    if kind == "missing":
        return f"{where} is missing."
    if kind == "together":
        return f"{where}: {message}."
    if kind == "model_type":
        return f"{where} must hold keys of its own: {', '.join(_known_keys(Preset, location))}."
    return f"{where} = {_one_line(repr(problem['input']))}: {message}."


def _nearest(location: tuple[str, ...]) -> str:
    known = _known_keys(Preset, location[:-1])
    match = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else f" Known keys: {', '.join(known)}."


def _known_keys(model: type[BaseModel], parents: tuple[str, ...]) -> tuple[str, ...]:
    for parent in parents:
        inner = _model_in(model.model_fields[parent].annotation)
        if inner is None:
            return ()
        model = inner
    return tuple(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field's type is or may be."""
    if get_origin(annotation) is Annotated:
        return _model_in(get_args(annotation)[0])
    options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((one for one in options if isinstance(one, type) and issubclass(one, BaseModel)), None)


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
        name = str(key.value)
        if name in seen:
            return name, key.start_mark.line + 1
        seen.add(name)
        inner = _repeated_key(value)
        if inner is not None:
            return inner
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:_SHOWN]
