"""Log endings written without knowledge of the rules: a cause is named only where it is the true one.

Three groups, a folder each: `ruled` have a cause that a rule is for, in words of other versions and other engines;
`unruled` have a cause without a rule; `traps` hold lines that look like a cause and are none.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from backend.engine.stage import Stage
from backend.failure.explain import explain
from backend.failure.failure import UNKNOWN, Failure, LaunchContext
from backend.failure.words import WORDS

PACK = Path(__file__).parent / "pack"
RULED, UNRULED, TRAPS = "ruled", "unruled", "traps"


@dataclass(frozen=True)
class Ending:
    """How one engine ended, and the causes that may be named for it. "unknown" may always be said."""

    group: str
    topic: str
    name: str
    returncode: int
    phase: Stage | None
    lines: tuple[str, ...]
    allowed: frozenset[str]
    why: str
    out_of_memory_kills: int | None


def read_pack() -> tuple[Ending, ...]:
    endings = []
    for path in sorted(PACK.glob("*/*.yaml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
            endings.append(
                Ending(
                    group=path.parent.name,
                    topic=path.stem,
                    name=entry["name"],
                    returncode=entry["returncode"],
                    phase=None if entry["phase"] is None else Stage(entry["phase"]),
                    lines=tuple(entry["lines"].splitlines()),
                    allowed=frozenset(entry["allowed"]),
                    why=entry["why"],
                    out_of_memory_kills=entry.get("out_of_memory_kills"),
                )
            )
    return tuple(endings)


ENDINGS = read_pack()


def of_group(group: str) -> list[Ending]:
    return [ending for ending in ENDINGS if ending.group == group]


def explained(ending: Ending) -> Failure:
    return explain(
        ending.lines,
        returncode=ending.returncode,
        phase=ending.phase,
        context=LaunchContext(),
        out_of_memory_kills=ending.out_of_memory_kills,
    )


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: f"{ending.group}: {ending.name}")
def test_a_cause_is_named_only_where_it_is_the_true_one(ending: Ending) -> None:
    failure = explained(ending)
    assert failure.rule in ending.allowed | {UNKNOWN}, f"{ending.why}; told by: {failure.line!r}"


def test_at_least_half_of_the_causes_with_a_rule_are_found_in_other_words() -> None:
    unknown = [ending.name for ending in of_group(RULED) if not explained(ending).is_known]
    total = len(of_group(RULED))
    sys.stdout.write(f"\n{total - len(unknown)} of {total} causes with a rule are found; not found: {unknown}\n")
    assert len(unknown) <= total / 2, unknown


def test_an_ending_that_is_not_explained_shows_its_last_lines() -> None:
    for ending in ENDINGS:
        failure = explained(ending)
        if not failure.is_known:
            assert 1 <= len(failure.last_lines) <= 8, ending.name


def test_the_pack_holds_what_it_says() -> None:
    assert len(of_group(RULED)) >= 20
    assert len(of_group(UNRULED)) >= 25
    assert len(of_group(TRAPS)) >= 15
    assert [name for name, count in Counter(ending.name for ending in ENDINGS).items() if count > 1] == []
    for ending in ENDINGS:
        assert 3 <= len(ending.lines) <= 40, ending.name
        assert ending.allowed <= WORDS.keys(), ending.name
        assert bool(ending.allowed) is (ending.group == RULED) or ending.group == TRAPS, ending.name
