"""Readings beside the event loop: never waited for, one at a time, and a fault does not end them."""

import threading

import pytest

from backend.engine.side_reading import SideReading
from tests.fakes.fake_specs import eventually_blocking


def test_a_value_is_there_some_time_after_it_was_asked_for() -> None:
    reading = SideReading(lambda: 7, name="seven")
    assert reading.latest is None
    reading.ask()
    eventually_blocking(lambda: reading.latest == 7, what="the value")


def test_a_reading_that_hangs_is_not_begun_twice_and_tells_for_how_long() -> None:
    release, begun = threading.Event(), []

    def hang() -> int:
        begun.append(1)
        release.wait(30)
        return len(begun)

    reading = SideReading(hang, name="hanging")
    reading.ask()
    reading.ask()
    eventually_blocking(lambda: reading.open_s > 0.1, what="it takes long")
    assert (len(begun), reading.latest) == (1, None)
    release.set()
    eventually_blocking(lambda: reading.latest == 1 and reading.open_s == 0.0, what="its end")


def test_a_fault_is_logged_and_the_next_reading_is_begun(caplog: pytest.LogCaptureFixture) -> None:
    results: list[int | Exception] = [OSError("gone"), 5]

    def read() -> int:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    reading = SideReading(read, name="faulty")
    reading.ask()
    eventually_blocking(lambda: len(results) == 1 and reading.open_s == 0.0, what="the fault")
    reading.ask()
    eventually_blocking(lambda: reading.latest == 5, what="the value")
    assert "faulty" in caplog.text
