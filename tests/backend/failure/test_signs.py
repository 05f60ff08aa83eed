"""Each sign fires on its own text, and on nothing that only looks like it."""

import pytest

from backend.engine.stage import Stage
from backend.failure.explain import SIGNS, explain
from backend.failure.failure import LaunchContext
from backend.failure.rule import Sign, find_in_line
from backend.failure.signs_card import OUT_OF_MEMORY
from backend.failure.words import WORDS, in_words
from tests.backend.failure.samples import MATCHING, UNRELATED, Sample

CONTEXT = LaunchContext(context=32768, gpus=2, port=8100, engine="cuda", batched_tokens=2048)


def explained(sample: Sample):
    return explain(sample.lines, returncode=sample.returncode, phase=Stage.IMPORTS, context=CONTEXT)


@pytest.mark.parametrize("sample", MATCHING, ids=lambda sample: sample.rule)
def test_a_text_is_explained_by_its_rule_with_its_values_and_the_line(sample: Sample) -> None:
    failure = explained(sample)

    assert failure.rule == sample.rule
    assert sample.values.items() <= failure.values.items()
    assert failure.line
    assert any(failure.line[-30:] in line for line in sample.lines)


@pytest.mark.parametrize("sample", MATCHING, ids=lambda sample: sample.rule)
def test_the_words_of_a_rule_use_only_values_that_it_fills(sample: Sample) -> None:
    for language in ("en", "zh"):
        words = in_words(explained(sample), language)
        assert "…" not in words.what + words.cause + words.do
        assert "{" not in words.what + words.cause + words.do


@pytest.mark.parametrize("sample", UNRELATED, ids=lambda sample: sample.lines[-1][:60])
def test_a_text_that_only_looks_like_a_cause_is_unknown(sample: Sample) -> None:
    failure = explained(sample)

    assert failure.rule == "unknown", failure
    assert failure.fixes == ()


# of a sample that ended by a signal, the exit code alone tells that it crashed
@pytest.mark.parametrize("sample", [one for one in MATCHING if one.returncode >= 0], ids=lambda sample: sample.rule)
def test_the_same_text_as_information_or_warning_decides_nothing(sample: Sample) -> None:
    for level in ("INFO", "WARNING", "DEBUG"):
        lines = [f"(EngineCore pid=77) {level} 12-01 12:00:00 [core.py:1] {line}" for line in sample.lines]
        failure = explain(lines, returncode=1, phase=Stage.IMPORTS, context=CONTEXT)
        assert failure.rule == "unknown", failure


def test_every_sign_has_a_sample() -> None:
    def fires(sign: Sign) -> bool:
        return any(find_in_line(text, (sign,)) for text in texts)

    texts = [part for sample in MATCHING for line in sample.lines for part in _parts(line)]
    assert [sign for sign in SIGNS if not fires(sign)] == []


def test_every_rule_of_a_sign_has_words() -> None:
    assert {sign.rule for sign in SIGNS} - {OUT_OF_MEMORY} <= set(WORDS)


def _parts(line: str) -> list[str]:
    """A line, and what is left of it after each colon: signs begin after the type of an exception."""
    starts = [0] + [index + 2 for index in range(len(line)) if line.startswith(": ", index)]
    starts += [line.index("[core.py:1108] ") + 15] if "[core.py:1108] " in line else []
    starts += [line.index("Value error, ") + 13] if "Value error, " in line else []
    return [line[start:].strip() for start in starts] + [f"x: {line.strip()}"]
