"""Who asks: cookies that are ours, languages, and the origin of a WebSocket."""

import pytest

from ui.strings import Language
from ui.visitor import is_same_origin, language_of, viewer_of

GOOD = "0123456789abcdef0123456789abcdef"


def test_a_browser_with_its_cookie_is_a_viewer() -> None:
    viewer = viewer_of({"volta_browser": GOOD})
    assert viewer is not None
    assert viewer.browser == GOOD


@pytest.mark.parametrize("value", ["", "short", GOOD.upper(), GOOD + "0", "../../etc/passwd", GOOD[:-1] + "\n"])
def test_any_other_cookie_is_nobody(value: str) -> None:
    assert viewer_of({"volta_browser": value}) is None


def test_the_chosen_language_wins_over_setting_and_browser() -> None:
    chinese_browser = {"accept-language": "zh-CN"}
    assert language_of({}, chinese_browser) is Language.ZH
    assert language_of({}, chinese_browser, default="en") is Language.EN
    assert language_of({"volta_language": "zh"}, {}, default="en") is Language.ZH
    assert language_of({"volta_language": "xx"}, {}) is Language.EN


@pytest.mark.parametrize(
    ("origin", "host", "ours"),
    [
        ("http://127.0.0.1:7860", "127.0.0.1:7860", True),
        ("https://lab.example", "lab.example", True),
        ("http://evil.example", "127.0.0.1:7860", False),
        ("http://127.0.0.1:7861", "127.0.0.1:7860", False),
        ("null", "127.0.0.1:7860", False),
        ("", "127.0.0.1:7860", False),
    ],
)
def test_only_our_own_page_may_open_the_socket(origin: str, host: str, ours: bool) -> None:
    assert is_same_origin({"origin": origin, "host": host}) is ours
