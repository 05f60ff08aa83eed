"""The fit bar and its words, from real estimates; and why there is none."""

import pytest

from backend.fit.estimate import estimate
from backend.fit.host_overheads import StartComparison
from backend.fit.wish import CardMemory, FitWish
from backend.known_models import Gap
from backend.proposal import Fit
from tests.backend.fit.fit_cards import SMOL
from ui.render_fit import render_comparison, render_fit
from ui.strings import Language

GIB = 2**30
EVIL = "<img src=x onerror=alert(1)>"


def fit(context: int, *, total_gib: float = 32) -> Fit:
    found = estimate(SMOL, FitWish(context=context, sequences=1), CardMemory(int(total_gib * GIB), 2 * GIB))
    return Fit(estimate=found, longest_context=8192, most_sequences=9)


@pytest.mark.parametrize("language", list(Language))
def test_the_segments_fill_the_bar_and_the_sum_names_them(language: Language) -> None:
    html = render_fit(fit(2048), language, is_host=False)
    for part in ("is-weights", "is-kv", "is-overhead", "is-others", "data-verdict", "data-kv-tokens"):
        assert part in html
    shares = [float(part.split("%")[0]) for part in html.split("width:")[1:]]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_beyond_the_cards_edge_the_edge_is_inside_the_bar() -> None:
    html = render_fit(fit(2048, total_gib=0.4), Language.EN, is_host=False)
    edge = float(html.split('<b style="left:')[1].split("%")[0])
    assert edge < 100


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize("gap", list(Gap))
def test_a_model_that_is_not_known_is_said_in_the_pages_language(gap: Gap, language: Language) -> None:
    html = render_fit(Fit(gap=EVIL, model_gap=gap), language, is_host=False)
    assert "<img" not in html
    assert ("Not known" in html or "asked" in html) == (language is Language.EN)


def test_an_assumed_card_is_said_so() -> None:
    assert "Tesla V100" in render_fit(
        Fit(estimate=fit(2048).estimate, assumed_card="Tesla V100 32 GB"), Language.EN, is_host=False
    )


def test_a_comparison_shows_both_numbers_and_is_blank_where_the_log_did_not_tell() -> None:
    known = StartComparison("e", 1, 1.0, predicted_tokens=1000, logged_tokens=990, overhead_difference_bytes=None)
    assert "1,000" in render_comparison(known, Language.EN) and "-1.0 %" in render_comparison(known, Language.EN)
    silent = StartComparison("e", 1, 1.0, predicted_tokens=1000, logged_tokens=None, overhead_difference_bytes=None)
    assert render_comparison(silent, Language.EN) == ""
