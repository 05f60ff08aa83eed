"""The shapes of vLLM's flags, held against the help of three versions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.launch.flag_shapes import BOOLEAN_FLAGS, LIST_FLAGS, OLD_BOOLEAN_FLAGS, SHORT_FLAGS

FLAGS = Path(__file__).parent / "flags"
VERSIONS = ("0.19.1", "0.23.0", "0.32.0")


def options(version: str) -> Iterator[tuple[list[str], str]]:
    """(long names, what stands behind them) of every option in the help."""
    for line in (FLAGS / f"vllm-{version}.txt").read_text(encoding="utf-8").splitlines():
        match = re.match(r"^  (-\S.*)$", line)
        if match:
            head = re.split(r"\s{2,}", match[1])[0]
            names = re.findall(r"(?:^|, )--([A-Za-z][\w-]*)", head)
            behind = re.sub(r"(^|, )-{1,2}[A-Za-z][\w-]*", "", head).strip()
            yield [name for name in names if not name.startswith("no-")], behind


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flag_is_called_alone_where_the_help_shows_no_value(version: str) -> None:
    alone = {name for names, behind in options(version) if not behind for name in names}
    valued = {name for names, behind in options(version) if behind for name in names}
    assert len(alone) > 50
    assert alone <= BOOLEAN_FLAGS
    assert not valued & BOOLEAN_FLAGS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flag_takes_several_words_where_the_help_shows_dots(version: str) -> None:
    several = {name for names, behind in options(version) if "..." in behind for name in names}
    single = {name for names, behind in options(version) if behind and "..." not in behind for name in names}
    assert several <= LIST_FLAGS
    assert not single & LIST_FLAGS


@pytest.mark.parametrize("version", VERSIONS)
def test_short_names_are_the_helps(version: str) -> None:
    text = (FLAGS / f"vllm-{version}.txt").read_text(encoding="utf-8")
    pairs = set(re.findall(r"^  --([\w-]+)[^\n]*?, -([a-z]+)\b", text, re.MULTILINE))
    assert pairs
    assert {(long, short) for long, short in pairs if SHORT_FLAGS.get(short) != long} == set()


def test_old_flags_are_in_no_help() -> None:
    known = {name for version in VERSIONS for names, _ in options(version) for name in names}
    assert not OLD_BOOLEAN_FLAGS & known
