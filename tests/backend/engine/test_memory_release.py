"""Whether the memory of an ended engine is free: told from readings of the cards."""

import time
from collections.abc import Mapping

from backend.engine.memory import CardUse, MemoryUse, card_memory, cards_in_use, read_memory
from backend.engine.memory_release import HeldMemory, held_memory, is_released, until_released
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuSnapshot, GpuView
from backend.reading import Missing, MissingReason

GIB = 1024**3
UNTOLD = Missing(MissingReason.UNSUPPORTED)


def card(used_gib: float, by_process: Mapping[int, int] | Missing = UNTOLD, *, at: float = 0.0) -> CardUse:
    return CardUse("GPU-1", int(used_gib * GIB), at, by_process)


def test_what_a_run_held_is_told_by_its_processes() -> None:
    held = held_memory((card(20, {7: 16 * GIB, 9: 4 * GIB}),), frozenset({7, 8}))
    assert held == {"GPU-1": HeldMemory(20 * GIB, 16 * GIB, 4 * GIB)}
    assert held_memory((card(20),), frozenset({7}))["GPU-1"].own_bytes is None


def test_a_card_is_released_when_as_much_is_gone_as_the_run_held() -> None:
    held = HeldMemory(20 * GIB, 16 * GIB, 4 * GIB)
    assert not is_released(held, ())
    assert not is_released(held, (card(20, {9: 4 * GIB}),))
    assert not is_released(held, (card(6, {9: 4 * GIB}),))
    assert is_released(held, (card(4.1, {9: 4 * GIB}),))


def test_another_engine_that_grows_meanwhile_is_not_waited_for() -> None:
    held = HeldMemory(20 * GIB, 16 * GIB, 4 * GIB)
    assert is_released(held, (card(12, {9: 12 * GIB}),))


def test_where_nobody_tells_who_holds_what_it_has_to_settle() -> None:
    held = HeldMemory(20 * GIB, None)
    assert not is_released(held, (card(20), card(10), card(4)))
    assert not is_released(held, (card(4), card(4)))
    assert is_released(held, (card(4), card(4), card(4.1)))


async def test_waiting_ends_when_the_driver_has_given_it_back() -> None:
    held = {"GPU-1": HeldMemory(20 * GIB, 16 * GIB, 4 * GIB)}
    began = time.monotonic()

    def gauge() -> tuple[CardUse, ...]:
        freed = time.monotonic() - began > 0.5
        return (card(4 if freed else 20, {9: 4 * GIB}, at=time.time() + 1),)

    assert await until_released(gauge, held, deadline_s=10.0)
    assert 0.5 <= time.monotonic() - began < 5.0


async def test_waiting_has_a_deadline_and_old_readings_do_not_count() -> None:
    held = {"GPU-1": HeldMemory(20 * GIB, 16 * GIB, 4 * GIB)}
    assert not await until_released(lambda: (card(20, {}, at=time.time() + 1),), held, deadline_s=0.3)
    assert not await until_released(lambda: (card(4, {9: 4 * GIB}, at=1.0),), held, deadline_s=0.3)


async def test_a_card_that_cannot_be_read_any_more_is_not_waited_for() -> None:
    assert await until_released(tuple, {"GPU-1": HeldMemory(20 * GIB, 16 * GIB)}, deadline_s=5.0)


def test_an_engines_card_memory_is_summed_over_cards_and_its_own_processes() -> None:
    cards = (card(9, {7: 2 * GIB, 9: GIB}), card(9, {8: 3 * GIB}))
    assert card_memory(cards, frozenset({7, 8})) == 5 * GIB
    assert card_memory((), frozenset({7})) is None
    assert card_memory((card(9),), frozenset({7})) == UNTOLD


def test_machine_memory_is_a_share_of_each_living_process() -> None:
    import os

    own = read_memory([os.getpid()])
    assert isinstance(own.held_bytes, int) and own.held_bytes > 1_000_000
    assert read_memory([2**22 - 3]) == MemoryUse(frozenset({2**22 - 3}), 0)


def test_only_cards_that_can_be_read_now_are_gauged() -> None:
    snapshot = GpuSnapshot("GPU-1", "b", 0, "V100", 5.0, 100, 200, 1, 1, 1, 1.0, 1.0, {7: 50})
    ok = GpuCard("b", GpuCardState.OK, since=0.0, snapshot=snapshot)
    lost = GpuCard("c", GpuCardState.LOST, since=0.0, snapshot=snapshot)
    assert cards_in_use(GpuView(cards=(ok, lost))) == (CardUse("GPU-1", 100, 5.0, {7: 50}),)
