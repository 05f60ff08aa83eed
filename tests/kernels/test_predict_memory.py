"""What accesses cost: bank conflicts, lines, sectors; and how device memory reads."""

from __future__ import annotations

import numpy as np
import pytest
from dflash2.errors import SimulationFailed
from dflash2.predict.lanes import LANE_IDS
from dflash2.predict.memory import Buffer, DeviceMemory, global_cost, shared_wavefronts

EVERY_LANE = np.ones(32, bool)


@pytest.mark.parametrize(
    ("case", "addresses", "width", "wavefronts"),
    [
        ("consecutive words", LANE_IDS * 4, 4, 1),
        ("one word for all", LANE_IDS * 0, 4, 1),
        ("one bank, 32 rows", LANE_IDS * 128, 4, 32),
        ("two lanes a bank", LANE_IDS * 8, 4, 2),
        ("consecutive 64-bit", LANE_IDS * 8, 8, 2),
        ("consecutive 128-bit", LANE_IDS * 16, 16, 4),
        ("rows of 256 bytes, 128-bit", LANE_IDS * 256, 16, 32),
        ("the same 128-bit word: phases never merge", LANE_IDS * 0, 16, 4),
    ],
)
def test_shared_accesses_cost_their_wavefronts(case: str, addresses: np.ndarray, width: int, wavefronts: int) -> None:
    assert shared_wavefronts(addresses, LANE_IDS, width) == wavefronts, case


def test_moving_an_access_does_not_change_its_wavefronts() -> None:
    addresses = LANE_IDS * 36 % 512
    for shift in (0, 4, 64, 132, 4096):
        assert shared_wavefronts(addresses + shift, LANE_IDS, 4) == shared_wavefronts(addresses, LANE_IDS, 4)


def test_moving_an_access_within_a_line_changes_its_sectors() -> None:
    aligned, moved = (global_cost(LANE_IDS * 4 + shift, LANE_IDS, 4) for shift in (256, 272))
    assert aligned.sectors == [256, 288, 320, 352]
    assert moved.sectors == [256, 288, 320, 352, 384]
    assert (aligned.lines, moved.lines) == (1, 2)


def test_an_xor_swizzle_makes_a_column_of_rows_free_of_conflicts() -> None:
    """Rows of 128 bytes at one 16-byte chunk: 8 lanes of a phase hit one bank group, until the chunk is swizzled."""
    row = LANE_IDS % 8
    assert shared_wavefronts(row * 128, LANE_IDS, 16) == 32
    assert shared_wavefronts(row * 128 + (3 ^ row) * 16, LANE_IDS, 16) == 4


@pytest.mark.parametrize(
    ("case", "addresses", "width", "lines", "sectors"),
    [
        ("consecutive words", LANE_IDS * 4, 4, 1, 4),
        ("consecutive 128-bit", LANE_IDS * 16, 16, 4, 16),
        ("one word a line", LANE_IDS * 128, 4, 32, 32),
        ("two lanes a sector, 128-bit", LANE_IDS * 512, 16, 32, 32),
        ("a word across sectors", LANE_IDS[:1] * 0 + 30, 4, 1, 2),
    ],
)
def test_global_accesses_cost_their_lines_and_sectors(
    case: str, addresses: np.ndarray, width: int, lines: int, sectors: int
) -> None:
    cost = global_cost(addresses, LANE_IDS[: len(addresses)], width)
    assert (cost.lines, len(cost.sectors)) == (lines, sectors), case


def test_buffers_read_their_contents_and_others_zero() -> None:
    table = Buffer(16, np.array([7, 8, 9, 10], np.int32))
    unknown = Buffer(1 << 20)
    memory = DeviceMemory([unknown, table])
    at = memory.address_of(table) + (LANE_IDS % 4) * 4
    assert list(memory.load(at, EVERY_LANE, 4)[:4]) == [7, 8, 9, 10]
    assert not memory.load(memory.address_of(unknown) + LANE_IDS * 4, EVERY_LANE, 4).any()


def test_a_read_behind_a_table_is_an_error_not_a_zero() -> None:
    table = Buffer(16, np.array([7, 8, 9, 10], np.int32))
    memory = DeviceMemory([table])
    with pytest.raises(SimulationFailed, match="byte 16"):
        memory.load(memory.address_of(table) + LANE_IDS * 0 + 16, EVERY_LANE, 4)


def test_arguments_are_packed_like_a_c_struct() -> None:
    buffer = Buffer(16)
    memory = DeviceMemory([buffer])
    packed = memory.pack([np.int32(5), buffer, np.float32(1.0), np.int64(-1)])
    assert packed.hex() == "05000000" + "00000000" + "0000000010000000" + "0000803f" + "00000000" + "ff" * 8
