"""Numbers: three digits, the right unit."""

import pytest

from ui.numbers import duration, gib, percent, rate


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0042, "4.20 ms"),
        (0.0781, "78.1 ms"),
        (0.24, "240 ms"),
        (0.9996, "1.00 s"),
        (1.239, "1.24 s"),
        (12.34, "12.3 s"),
        (123.4, "123 s"),
    ],
)
def test_durations_have_three_digits(seconds: float, shown: str) -> None:
    assert duration(seconds).striptags() == shown


def test_rates_and_sizes_carry_their_unit() -> None:
    assert rate(41.27).striptags() == "41.3 tok/s"
    assert gib(13.31 * 2**30).striptags() == "13.3 GiB"


@pytest.mark.parametrize(("part", "whole", "shown"), [(1, 4, 25), (5, 4, 100), (1, 0, 0)])
def test_percentages_stay_in_bounds(part: float, whole: float, shown: int) -> None:
    assert percent(part, whole) == shown
