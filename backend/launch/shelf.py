"""The presets a person can choose from: the shipped ones, which nobody changes, and the person's own."""

import json
import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import yaml

from backend.errors import PresetError
from backend.launch.preset import Preset
from backend.launch.preset_file import compose, parse_preset, read_preset, read_text

MAX_OWN_PRESETS = 500
_MAX_NAME = 64

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PresetShelf:
    """All presets that could be read, and what is wrong with the others."""

    presets: tuple[Preset, ...]
    problems: tuple[str, ...]
    shipped: frozenset[str] = frozenset()  # names of those that come with the panel: read-only
    paths: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))  # name -> its file

    def by_name(self, name: str) -> Preset:
        """The preset of this name. Raises PresetError naming the known ones."""
        for preset in self.presets:
            if preset.name == name:
                return preset
        raise PresetError(
            f"There is no preset named {name!r}.", hint=f"Known: {', '.join(p.name for p in self.presets)}."
        )

    def is_shipped(self, name: str) -> bool:
        """Whether it comes with the panel and can only be copied."""
        return name in self.shipped


def read_shelf(shipped: Path, own: Path | None = None, *, read: Callable[[Path], Preset] = read_preset) -> PresetShelf:
    """Every *.yaml of both folders, shipped first. A broken file is a problem of its own, never of the others."""
    presets: dict[str, Preset] = {}
    paths: dict[str, Path] = {}
    names_shipped: frozenset[str] = frozenset()
    problems = []
    for folder in (shipped, own):
        for path in sorted(folder.glob("*.yaml")) if folder else ():
            try:
                preset = read(path)
                if preset.name in presets:
                    raise PresetError(f"{path.name}: name: {preset.name!r} is already taken by another preset.")
            except PresetError as err:
                log.warning("preset left out: %s", err)
                problems.append(str(err))
            else:
                presets[preset.name], paths[preset.name] = preset, path
        if folder is shipped:
            names_shipped = frozenset(presets)
    return PresetShelf(tuple(presets.values()), tuple(problems), names_shipped, MappingProxyType(paths))


class _KnownFiles:
    """Presets as last read, so that a look at the shelf parses only what changed: twenty files take a second."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, tuple[tuple[int, int, int], Preset]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, path: Path) -> Preset:
        """The preset in a file. Raises PresetError."""
        try:
            status = path.stat()
        except OSError as err:
            raise PresetError(f"{path.name} cannot be read: {err}.") from err
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)  # our own writes are new files each
        with self._lock:
            known = self._known.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        preset = read_preset(path)
        with self._lock:
            self._known[path] = (identity, preset)
            while len(self._known) > 2 * MAX_OWN_PRESETS:
                self._known.popitem(last=False)
        return preset


class PresetStore:
    """The one writer of a person's own presets. Every method reads or writes files: call it off the event loop.

    Files are replaced whole: a reader, and the next start after a power cut, finds the old text or the new one.
    """

    def __init__(self, shipped: Path, own: Path) -> None:
        self._shipped = shipped
        self._own = own
        self._lock = threading.Lock()  # two tabs may save at once
        self._files = _KnownFiles()

    def read(self) -> PresetShelf:
        """Both folders as they are now."""
        return read_shelf(self._shipped, self._own, read=self._files.read)

    def save(self, text: str, *, replacing: str | None = None) -> Preset:
        """Keep a preset's text as it was written, comments and all; `replacing` names the own preset it is an edit of.

        Raises:
            PresetError: the text breaks the schema, its name is taken or shipped, or the file cannot be written.
        """
        preset = parse_preset(text, source="preset")
        with self._lock:
            self._put(text, preset, replacing)
        return preset

    def copy(self, name: str) -> Preset:
        """An own preset with the same content, a free name and a title that says it is a copy. Raises PresetError."""
        with self._lock:
            shelf = self.read()
            text = renamed(_text_of(shelf, name), name=_free_name(shelf, name, self._own))
            preset = parse_preset(text, source="preset")
            self._put(text, preset, None)
        return preset

    def delete(self, name: str) -> None:
        """Remove an own preset. Raises PresetError for an unknown or a shipped one."""
        with self._lock:
            path = self._own_path(self.read(), name)
            try:
                path.unlink(missing_ok=True)
            except OSError as err:
                raise PresetError(f"{path} cannot be deleted: {err}.") from err

    def export(self, name: str) -> str:
        """The preset's file, as it was written. Raises PresetError."""
        return _text_of(self.read(), name)

    def _put(self, text: str, preset: Preset, replacing: str | None) -> None:
        shelf = self.read()
        earlier = self._own_path(shelf, replacing) if replacing is not None else None
        path = self._own / f"{preset.name}.yaml"
        if shelf.is_shipped(preset.name):
            raise PresetError(
                f"The name {preset.name!r} belongs to a preset that comes with the panel.",
                hint="Give this one another name.",
            )
        is_taken = preset.name != replacing and preset.name in shelf.paths
        if is_taken or (path != earlier and path.exists()):  # a file may hold a preset of another name
            raise PresetError(f"The name {preset.name!r} is already taken.", hint="Give this one another name.")
        if replacing is None and len(shelf.presets) - len(shelf.shipped) >= MAX_OWN_PRESETS:
            raise PresetError(f"There are {MAX_OWN_PRESETS} presets already.", hint="Delete some first.")
        _write_whole(path, text)
        if earlier is not None and earlier != path:
            earlier.unlink(missing_ok=True)

    def _own_path(self, shelf: PresetShelf, name: str) -> Path:
        shelf.by_name(name)
        if shelf.is_shipped(name):
            raise PresetError(
                f"{name!r} comes with the panel and stays as it is.", hint="Make a copy and change that one."
            )
        return shelf.paths[name]


def renamed(text: str, *, name: str) -> str:
    """A preset's text under another name, its titles marked as a copy, everything else untouched. Raises PresetError."""
    document = compose(text, source="preset")
    edits: list[tuple[yaml.Node, str]] = []
    for key, value in document.value:
        if key.value == "name":
            edits.append((value, name))
        if key.value == "title" and isinstance(value, yaml.MappingNode):
            endings = {"en": " (copy)", "zh": "（副本）"}
            edits += [(node, str(node.value) + endings[k.value]) for k, node in value.value if k.value in endings]
    for node, value in sorted(edits, key=lambda edit: -edit[0].start_mark.index):
        rest = text[node.end_mark.index :]
        # a block scalar's node ends behind its line break
        line_break = "\n" if text[: node.end_mark.index].endswith("\n") else ""
        text = text[: node.start_mark.index] + json.dumps(value, ensure_ascii=False) + line_break + rest
    return text


def _text_of(shelf: PresetShelf, name: str) -> str:
    shelf.by_name(name)
    return read_text(shelf.paths[name])


def _free_name(shelf: PresetShelf, name: str, own: Path) -> str:
    stem = re.sub(r"-copy(-\d+)?$", "", name)[: _MAX_NAME - len("-copy-0000")]
    for number in range(1, MAX_OWN_PRESETS + 2):
        candidate = f"{stem}-copy" if number == 1 else f"{stem}-copy-{number}"
        if candidate not in shelf.paths and not (own / f"{candidate}.yaml").exists():
            return candidate
    raise PresetError(f"There are too many copies of {name!r}.", hint="Delete some first.")


def _write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with partial.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as err:
        raise PresetError(f"{path} cannot be written: {err}.", hint="The disk may be full.") from err
