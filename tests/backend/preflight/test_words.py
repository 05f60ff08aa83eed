"""The words of findings: both languages, no value left open."""

from string import Formatter

from backend.preflight.finding import Finding, Severity
from backend.preflight.words import WORDS, in_words


def test_every_rule_is_said_in_both_languages_with_the_same_values() -> None:
    for rule, words in WORDS.items():
        assert words.en_what and words.zh_what, rule
        assert bool(words.en_do) == bool(words.zh_do), rule
        assert _fields(words.en_what) == _fields(words.zh_what), rule
        assert any("一" <= sign <= "鿿" for sign in words.zh_what), rule


def _fields(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


def test_values_with_braces_and_markup_stay_as_they_are() -> None:
    finding = Finding("port_taken", Severity.ERROR, {"port": "80", "who": "{0.__class__} <b>"})
    assert in_words(finding, "en").what == "Port 80 is taken by {0.__class__} <b>."


def test_states_and_places_are_said_in_the_language() -> None:
    finding = Finding("card_dropped", Severity.ERROR, {"card": "V100", "state": "lost", "detail": ""})
    assert in_words(finding, "en").what.startswith("The card V100 fell off the bus.")
    assert "掉线" in in_words(finding, "zh").what


def test_a_rule_of_a_newer_panel_is_said_by_its_name() -> None:
    assert in_words(Finding("of_tomorrow", Severity.HINT), "zh").what == "of_tomorrow"
