"""backend.changes: waiting on a version."""

import asyncio

from backend.changes import Changes


async def test_a_reader_that_is_behind_does_not_wait() -> None:
    changes = Changes()
    changes.notify()
    assert await asyncio.wait_for(changes.wait(0, timeout_s=60), timeout=1) == 1


async def test_a_reader_that_is_up_to_date_waits_for_the_next_change() -> None:
    changes = Changes()
    waiting = asyncio.create_task(changes.wait(0, timeout_s=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    changes.notify()
    assert await asyncio.wait_for(waiting, timeout=1) == 1


async def test_waiting_ends_at_the_deadline_with_the_same_version() -> None:
    assert await asyncio.wait_for(Changes().wait(0, timeout_s=0.01), timeout=1) == 0


async def test_a_slow_reader_skips_versions_and_sees_the_newest() -> None:
    changes = Changes()
    for _ in range(5):
        changes.notify()
    assert await changes.wait(2, timeout_s=60) == 5


async def test_all_readers_are_woken_by_one_change() -> None:
    changes = Changes()
    readers = [asyncio.create_task(changes.wait(0, timeout_s=60)) for _ in range(20)]
    await asyncio.sleep(0)
    changes.notify()
    assert await asyncio.wait_for(asyncio.gather(*readers), timeout=1) == [1] * 20


async def test_readers_that_gave_up_leave_nothing_behind() -> None:
    changes = Changes()
    reader = asyncio.create_task(changes.wait(0, timeout_s=60))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait((reader,), timeout=1)
    await changes.wait(0, timeout_s=0.001)
    assert not changes._waiters
    changes.notify()
    assert changes.version == 1
