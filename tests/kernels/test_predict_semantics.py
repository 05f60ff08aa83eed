"""The emulated integer and predicate instructions against Python's arithmetic, on random lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dflash2.errors import SimulationFailed
from dflash2.predict.instruction import decode
from dflash2.predict.lanes import WORD_MASK, as_float, float_bits, signed
from dflash2.predict.memory import DeviceMemory
from dflash2.predict.semantics import build_step
from dflash2.predict.warp import WarpState

EVERY_LANE = np.ones(32, bool)
EDGES = [0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x55555555]


def random_warp(seed: int) -> WarpState:
    warp = WarpState(0, (32, 1, 1), (0, 0, 0), DeviceMemory([]))
    random = np.random.default_rng(seed)
    warp.registers[:16] = random.integers(0, 1 << 32, (16, 32))
    warp.registers[:16, : len(EDGES)] = random.permuted(np.tile(EDGES, (16, 1)), axis=1)
    warp.predicates[:4] = random.random((4, 32)) < 0.5
    return warp


def execute(text: str, warp: WarpState) -> WarpState:
    build_step(decode(0, text, 0, {}), {0: bytes(range(256)) * 2})(warp, EVERY_LANE)
    return warp


def words(warp: WarpState, register: int) -> list[int]:
    return [int(value) for value in warp.registers[register]]


def s32(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


THREE_INPUT: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("IADD3 R20, R0, R1, R2", lambda a, b, c: a + b + c),
    ("IADD3 R20, R0, -R1, R2", lambda a, b, c: a - b + c),
    ("IMAD R20, R0, R1, R2", lambda a, b, c: a * b + c),
    ("IMAD.HI.U32 R20, R0, R1, R2", lambda a, b, c: (a * b >> 32) + c),
    ("IMAD.HI R20, R0, R1, R2", lambda a, b, c: (s32(a) * s32(b) >> 32) + c),
    ("LEA R20, R0, R1, 0x5", lambda a, b, c: (a << 5) + b),
    ("LEA.HI R20, R0, R1, R2, 0x5", lambda a, b, c: (((c << 32 | a) << 5) >> 32) + b),
    ("LEA.HI.SX32 R20, R0, R1, 0x1b", lambda a, b, c: (s32(a) >> 5) + b),
    ("LOP3.LUT R20, R0, R1, R2, 0xe8, !PT", lambda a, b, c: a & b | b & c | a & c),
    ("LOP3.LUT R20, R0, R1, R2, 0x96, !PT", lambda a, b, c: a ^ b ^ c),
    ("SHF.R.U32.HI R20, RZ, 0x7, R0", lambda a, b, c: a >> 7),
    ("SHF.R.S32.HI R20, RZ, 0x1f, R0", lambda a, b, c: s32(a) >> 31),
    ("SHF.L.U32 R20, R0, 0x9, RZ", lambda a, b, c: a << 9),
    ("SHF.R.U64 R20, R0, 0x3, R1", lambda a, b, c: (b << 32 | a) >> 3),
    ("SHF.L.U64.HI R20, R0, 0x3, R1", lambda a, b, c: ((b << 32 | a) << 3) >> 32),
    ("IMNMX R20, R0, R1, PT", lambda a, b, c: min(s32(a), s32(b))),
    ("IMNMX.U32 R20, R0, R1, !PT", lambda a, b, c: max(a, b)),
    ("IABS R20, R0", lambda a, b, c: abs(s32(a))),
    ("SGXT R20, R0, 0x8", lambda a, b, c: ((a & 255) ^ 128) - 128),
    ("SGXT.U32 R20, R0, 0x8", lambda a, b, c: a & 255),
    ("POPC R20, R0", lambda a, b, c: a.bit_count()),
    ("MOV R20, c[0x0][0x10]", lambda a, b, c: 0x13121110),
    ("PRMT R20, R0, 0x3210, R1", lambda a, b, c: a),
    ("PRMT R20, R0, 0x5410, R1", lambda a, b, c: (a & 0xFFFF) | (b & 0xFFFF) << 16),
    ("PRMT R20, R0, 0x9999, RZ", lambda a, b, c: 0xFFFFFFFF if a >> 15 & 1 else 0),
]


@pytest.mark.parametrize(("text", "expected"), THREE_INPUT, ids=[text for text, _ in THREE_INPUT])
def test_integer_instructions_agree_with_python(text: str, expected: Callable[[int, int, int], int]) -> None:
    for seed in range(8):
        before = random_warp(seed)
        inputs = list(zip(words(before, 0), words(before, 1), words(before, 2), strict=True))
        result = words(execute(text, before), 20)
        assert result == [expected(*lane) & WORD_MASK for lane in inputs]


def test_a_wide_product_adds_a_register_pair_with_sign() -> None:
    warp = random_warp(1)
    lanes = zip(words(warp, 0), words(warp, 1), words(warp, 4), words(warp, 5), strict=True)
    expected = [(s32(a) * s32(b) + (high << 32 | low)) & (1 << 64) - 1 for a, b, low, high in lanes]
    execute("IMAD.WIDE R20, R0, R1, R4", warp)
    assert [low | high << 32 for low, high in zip(words(warp, 20), words(warp, 21), strict=True)] == expected


def test_a_64_bit_sum_carries_through_a_predicate() -> None:
    warp = random_warp(2)
    lanes = zip(words(warp, 0), words(warp, 1), words(warp, 2), words(warp, 3), strict=True)
    expected = [(low + low2 + ((high + high2) << 32)) & (1 << 64) - 1 for low, high, low2, high2 in lanes]
    execute("IADD3 R20, P5, R0, R2, RZ", warp)
    execute("IADD3.X R21, R1, R3, RZ, P5, !PT", warp)
    assert [low | high << 32 for low, high in zip(words(warp, 20), words(warp, 21), strict=True)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ISETP.LT.AND P5, PT, R0, R1, PT", lambda a, b, p: s32(a) < s32(b)),
        ("ISETP.GE.U32.AND P5, PT, R0, R1, P2", lambda a, b, p: a >= b and p),
        ("ISETP.NE.OR P5, PT, R0, R1, P2", lambda a, b, p: a != b or p),
    ],
)
def test_compares_combine_with_a_predicate(text: str, expected: Callable[[int, int, bool], bool]) -> None:
    warp = random_warp(3)
    lanes = list(zip(words(warp, 0), words(warp, 1), warp.predicates[2], strict=True))
    execute(text, warp)
    assert list(warp.predicates[5]) == [expected(a, b, bool(p)) for a, b, p in lanes]


def test_a_64_bit_compare_lets_the_lower_word_decide_ties() -> None:
    warp = random_warp(4)
    warp.registers[3, ::2] = warp.registers[1, ::2]
    lanes = zip(words(warp, 0), words(warp, 1), words(warp, 2), words(warp, 3), strict=True)
    expected = [(high << 32 | low) < (high2 << 32 | low2) for low, high, low2, high2 in lanes]
    execute("ISETP.LT.U32.AND P5, PT, R0, R2, PT", warp)
    execute("ISETP.LT.U32.AND.EX P6, PT, R1, R3, PT, P5", warp)
    assert list(warp.predicates[6]) == expected


def test_integer_division_through_floats_is_exact() -> None:
    """The reciprocal sequence of an unsigned division, with the constants the compiler emits."""
    warp = random_warp(5)
    warp.registers[0] = np.arange(1, 33)
    execute("I2F.U32.RP R20, R0", warp)
    execute("MUFU.RCP R21, R20", warp)
    assert np.allclose(as_float(warp.registers[21]), 1 / np.arange(1, 33), rtol=1e-6)
    warp.registers[22] = float_bits(np.full(32, 3.75, np.float32))
    execute("F2I.FTZ.U32.TRUNC.NTZ R23, R22", warp)
    assert words(warp, 23) == [3] * 32


def test_shuffles_read_other_lanes_and_votes_count_them() -> None:
    warp = random_warp(6)
    source = words(warp, 0)
    execute("SHFL.BFLY PT, R20, R0, 0x4, 0x1f", warp)
    assert words(warp, 20) == [source[lane ^ 4] for lane in range(32)]
    execute("VOTE.ANY R21, PT, P1", warp)
    assert words(warp, 21)[0] == sum(int(bit) << lane for lane, bit in enumerate(warp.predicates[1]))


def test_inactive_lanes_keep_their_values() -> None:
    warp = random_warp(7)
    before = words(warp, 20)
    build_step(decode(0, "MOV R20, 0x5", 0, {}), {})(warp, np.arange(32) < 8)
    assert words(warp, 20) == [5] * 8 + before[8:]


def test_an_opcode_the_model_does_not_know_is_an_error_that_names_it() -> None:
    with pytest.raises(SimulationFailed, match="BREV"):
        build_step(decode(0, "BREV R0, R1", 0, {}), {})


def test_signed_reads_two_s_complement() -> None:
    assert list(signed(np.array([0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]))) == [0, 2**31 - 1, -(2**31), -1]
