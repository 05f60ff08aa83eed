"""What engines taught is kept whole, whoever else learns at the same moment."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from sys import getswitchinterval, setswitchinterval

import pytest

from backend.fit.host_overheads import KEPT_COMPARISONS, HostOverheads, StartComparison
from backend.fit.learned_overhead import LearnedOverhead


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = getswitchinterval()
    setswitchinterval(1e-5)
    yield
    setswitchinterval(usual)


def compared(run: int) -> StartComparison:
    return StartComparison("engine", run, 1.0, predicted_tokens=100, logged_tokens=96, overhead_difference_bytes=run)


def test_what_was_kept_is_there_for_the_next_panel_and_is_bounded(tmp_path: Path) -> None:
    overheads = HostOverheads(tmp_path / "overheads.json")
    for run in range(KEPT_COMPARISONS + 1):
        overheads.keep("cpu", LearnedOverhead((run,)), compared(run))
    again = HostOverheads(tmp_path / "overheads.json")
    assert again.learned("cpu").differences == (KEPT_COMPARISONS,)
    assert again.comparison("engine", KEPT_COMPARISONS) == compared(KEPT_COMPARISONS)
    assert again.comparison("engine", 0) is None


@pytest.mark.usefixtures("eager_threads")
def test_two_engines_that_teach_at_the_same_moment_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "overheads.json"
    earlier = HostOverheads(path)
    for number in range(100):
        earlier.keep(f"key {number}", LearnedOverhead((number,) * 9), compared(number))
    for number in range(20):
        overheads = HostOverheads(path)
        keys = [f"one {number}", f"two {number}"]
        both = [threading.Thread(target=overheads.keep, args=(key, LearnedOverhead((1,)), compared(1))) for key in keys]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        kept = json.loads(path.read_text())["learned"]
        assert set(keys) <= kept.keys()
        assert len(kept) == 100 + 2 * (number + 1)
