"""The sentences about imports: every key used has one in both languages, with fields that are filled."""

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.importing.words import VALUE_CHARACTERS, WORDS, ImportNote

IMPORTING = Path(__file__).parents[3] / "backend" / "importing"


def uses() -> Iterator[tuple[str, frozenset[str]]]:
    """(key, names of its values) of every note the import modules make."""
    for path in IMPORTING.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "note":
                yield node.args[0].value, frozenset(str(keyword.arg) for keyword in node.keywords)


def fields(text: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name)


def test_every_key_is_used_and_every_use_is_a_key() -> None:
    assert {key for key, _ in uses()} == set(WORDS)


def test_a_sentence_uses_only_values_that_are_always_filled() -> None:
    for key, given in uses():
        for text in WORDS[key]:
            assert fields(text) <= given, key


@pytest.mark.parametrize("key", WORDS)
def test_both_languages_say_the_same_values(key: str) -> None:
    en, zh = WORDS[key]
    assert fields(en) == fields(zh)
    assert re.search(r"[\u4e00-\u9fff]", zh)
    assert not re.search(r"[\u4e00-\u9fff]", en)


def test_long_values_are_cut_for_showing() -> None:
    shown = ImportNote("shell_left_out", {"value": "x" * 1000}).in_language("en")
    assert "x" * (VALUE_CHARACTERS - 1) + "…" in shown
    assert len(shown) < 400
