"""The KV write kernel's source on the CPU: every byte of the cache is accounted for."""

from __future__ import annotations

import numpy as np
import pytest
from dflash2.arguments import KvWriteArguments

from .host_kernels import address

TOKENS, HEADS, HEAD_DIM, PAGES, PAGE_SIZE = 5, 3, 96, 4, 16
SLOTS = np.array([17, -1, 63, 0, 18], np.int64)
AXES = {"token before head (NHD)": (0, 1, 2, 3), "head before token (HND)": (0, 2, 1, 3)}


@pytest.mark.parametrize("layout", AXES)
def test_keys_and_values_land_in_their_slots_and_nothing_else_changes(host_kernel, layout):
    rng = np.random.default_rng(0)
    packed = rng.standard_normal((TOKENS, 2, HEADS, HEAD_DIM)).astype(np.float16)  # keys and values of a token together
    axes = AXES[layout]
    shape = np.array((PAGES, PAGE_SIZE, HEADS, HEAD_DIM))[list(axes)]
    memory = rng.standard_normal((2, *shape)).astype(np.float16)
    caches = [memory[side].transpose(axes) for side in (0, 1)]  # seen as [page][slot][head][dim]
    expected = [cache.copy() for cache in caches]
    for token, slot in enumerate(SLOTS):
        if slot >= 0:
            for side in (0, 1):
                expected[side][slot // PAGE_SIZE, slot % PAGE_SIZE] = packed[token, side]

    strides = [stride // 16 for stride in caches[0].strides[:3]]
    pointers = [address(packed[:, 0]), address(packed[:, 1]), *map(address, (*caches, SLOTS))]
    arguments = KvWriteArguments(*pointers, TOKENS, HEADS, HEAD_DIM // 8, 2 * HEADS * HEAD_DIM, PAGE_SIZE, *strides)
    host_kernel("kv_write").run((TOKENS, 1, 1), arguments)
    np.testing.assert_array_equal(caches[0], expected[0])
    np.testing.assert_array_equal(caches[1], expected[1])
