"""Cards are given by identity: the freest that answer and that no other engine has, or a reason."""

from pathlib import Path

import pytest

from backend.errors import LaunchError
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuSnapshot
from backend.launch.card_choice import choose_cards
from backend.launch.preset_file import read_preset
from backend.reading import Missing, MissingReason

PRESETS = Path(__file__).parents[3] / "presets"
UNREAD = Missing(MissingReason.UNSUPPORTED)
ONE_CARD = read_preset(PRESETS / "qwen3-8b-v100.yaml")
TWO_CARDS = read_preset(PRESETS / "qwen3-14b-2xv100.yaml")


def card(index: int, *, used_gib: int | None = 0, state: GpuCardState = GpuCardState.OK) -> GpuCard:
    snapshot = GpuSnapshot(
        uuid=f"GPU-{index}",
        bus_id=f"0000:0{index}:00.0",
        index=index,
        name="Tesla V100-SXM2-32GB",
        taken_at=1.0,
        memory_used_bytes=UNREAD if used_gib is None else used_gib * 2**30,
        memory_total_bytes=32 * 2**30,
        core_temperature_c=UNREAD,
        memory_temperature_c=UNREAD,
        utilization_percent=UNREAD,
        power_w=UNREAD,
        power_limit_w=UNREAD,
        process_memory_bytes=UNREAD,
    )
    return GpuCard(target=snapshot.bus_id, state=state, since=1.0, snapshot=snapshot)


def chosen(preset, *cards: GpuCard, taken: tuple[str, ...] = ()) -> list[str]:  # type: ignore[no-untyped-def]
    return [choice.uuid for choice in choose_cards(preset, cards, taken=taken)]


def test_the_freest_card_is_taken_and_one_that_does_not_tell_comes_last() -> None:
    assert chosen(ONE_CARD, card(0, used_gib=20), card(1, used_gib=3), card(2, used_gib=None)) == ["GPU-1"]
    assert chosen(ONE_CARD, card(0, used_gib=31), card(1, used_gib=None)) == ["GPU-0"]


def test_a_card_of_another_engine_is_left_to_it() -> None:
    assert chosen(ONE_CARD, card(0), card(1, used_gib=30), taken=("GPU-0",)) == ["GPU-1"]


def test_several_cards_come_in_the_drivers_order() -> None:
    assert chosen(TWO_CARDS, card(0, used_gib=9), card(1, used_gib=30), card(2)) == ["GPU-0", "GPU-2"]


def test_a_lost_card_is_not_given_although_its_last_reading_is_there() -> None:
    lost = card(0, state=GpuCardState.LOST)
    with pytest.raises(LaunchError, match=r"needs 2 cards; 1 of 2 are free.*1 card cannot be read"):
        chosen(TWO_CARDS, lost, card(1))


def test_without_readable_cards_or_need_nothing_is_chosen() -> None:
    assert chosen(ONE_CARD) == []
    assert chosen(read_preset(PRESETS / "smollm2-135m-cpu.yaml"), card(0)) == []


def test_a_card_that_a_person_chose_is_taken_whoever_else_uses_it() -> None:
    cards = (card(0, used_gib=31), card(1))
    assert [one.uuid for one in choose_cards(ONE_CARD, cards, taken=("GPU-0",), wanted=("GPU-0",))] == ["GPU-0"]


def test_a_chosen_card_that_is_lost_or_gone_is_named() -> None:
    with pytest.raises(LaunchError, match="GPU-0.*is lost"):
        choose_cards(ONE_CARD, (card(0, state=GpuCardState.LOST),), taken=(), wanted=("GPU-0",))
    with pytest.raises(LaunchError, match="no card GPU-9"):
        choose_cards(ONE_CARD, (card(0),), taken=(), wanted=("GPU-9",))
