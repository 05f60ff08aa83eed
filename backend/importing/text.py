"""Whatever a person pastes, told apart: a preset of ours, a command, a file of settings."""

import re

import yaml

from backend.errors import PresetError
from backend.importing.command import import_command
from backend.importing.draft import Import
from backend.importing.env import import_settings
from backend.launch.preset_file import parse_preset

MAX_CHARACTERS = 64 * 1024
SOURCE = "pasted text"
_PRESET_KEYS = frozenset({"name", "title", "served_name"})
_COMMAND = re.compile(r"^\s*--\w|\bvllm\s+serve\b|\bdocker\s+run\b|\bpodman\s+run\b|vllm\.entrypoints|api_server")


def read_import(text: str) -> Import:
    """The preset that a pasted text means, and what a person should know about it. Nothing in it is executed.

    Raises:
        PresetError: it is none of the three, or holds what only a shell could answer; the piece is named.
    """
    if not text.strip():
        raise PresetError("There is nothing to read.", hint="Paste a command, a config.env file or a preset.")
    if len(text) > MAX_CHARACTERS:
        raise PresetError(f"The text is longer than {MAX_CHARACTERS // 1024} KiB; a preset is a page of text.")
    if _is_preset(text):
        return Import(parse_preset(text, source=SOURCE), ())
    if _COMMAND.search(text):
        return import_command(text)
    return import_settings(text, source=SOURCE)


def _is_preset(text: str) -> bool:
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return False
    return isinstance(values, dict) and len(_PRESET_KEYS & values.keys()) >= 2
