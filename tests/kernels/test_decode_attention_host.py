"""The decode and merge kernels' source on the CPU against double precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dflash2.arguments import DecodeArguments, MergeArguments, small_magic, word_magic
from dflash2.variants import DecodeTile, MergeTile

from .attention_problem import Problem, ProblemShape, make_problem
from .host_kernels import HostKernel, address

BATCH = ProblemShape(head_dim=128, queries=(1, 1, 1), keys=(300, 37, 1), query_heads=12, kv_heads=2, page_size=32)


def run_decode(kernel: HostKernel, merge: HostKernel, problem: Problem, splits: int, seed: int = 1) -> np.ndarray:
    shape, tile = problem.shape, kernel.variant.tile
    assert isinstance(tile, DecodeTile)
    row, row_count = shape.query_heads * shape.head_dim, problem.query.shape[0] * shape.query_heads
    output = np.full_like(problem.query, np.nan)
    partial = np.full((splits, row_count, shape.head_dim), np.nan, np.float32)
    statistic = np.full((splits, row_count, 2), np.nan, np.float32)
    group = shape.query_heads // shape.kv_heads
    buffers = (problem.query, output, partial, statistic, problem.query_start, problem.kv_length)
    score = problem.scoring_arguments()
    arguments = DecodeArguments(
        *map(address, buffers), row, row, shape.query_heads,
        shape.kv_heads, word_magic(shape.kv_heads), group, small_magic(group),
        row_count, splits, word_magic(splits * tile.warps), problem.cache_arguments(), score,
    )  # fmt: skip
    column_blocks = -(-max(shape.queries) * group // tile.columns)
    kernel.run((column_blocks, splits, len(shape.queries) * shape.kv_heads), arguments, seed)
    if splits > 1:
        pointers, numbers = map(address, (partial, statistic, output)), (row, row_count, splits, score.scale_log2)
        assert isinstance(merge.variant.tile, MergeTile)
        grid = (shape.query_heads, problem.query.shape[0], merge.variant.tile.blocks)
        merge.run(grid, MergeArguments(*pointers, *numbers))
    return output.astype(np.float64)


@pytest.fixture
def largest_error(host_kernel):
    def measure(shape: ProblemShape, *, splits: int, columns: int = 8, seed: int = 0) -> float:
        kernel = host_kernel(f"decode_attention_d{shape.head_dim}_m{columns}")
        problem = make_problem(shape, seed)
        output = run_decode(kernel, host_kernel(f"merge_splits_d{shape.head_dim}"), problem, splits, seed + 1)
        return float(np.abs(output - problem.reference()).max())

    return measure


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 192, 256])
def test_one_token_a_sequence_matches_the_reference(largest_error, head_dim, splits):
    assert largest_error(replace(BATCH, head_dim=head_dim), splits=splits) < 2e-3


@pytest.mark.parametrize("columns", [8, 16])
def test_speculated_tokens_see_only_the_keys_before_them(largest_error, columns):
    shape = replace(BATCH, queries=(8, 3, 1), keys=(200, 37, 90), query_heads=6, kv_heads=2)
    assert largest_error(shape, splits=2, columns=columns) < 2e-3


@pytest.mark.parametrize(("head_dim", "columns"), [(128, 16), (256, 8)])
def test_a_group_of_sixteen_heads_takes_one_wide_block_or_two(largest_error, head_dim, columns):
    shape = replace(BATCH, head_dim=head_dim, queries=(1,), keys=(150,), query_heads=16, kv_heads=1)
    assert largest_error(shape, splits=2, columns=columns) < 2e-3


@pytest.mark.parametrize("splits", [4, 64])
def test_splits_without_keys_add_nothing(largest_error, splits):
    assert largest_error(replace(BATCH, keys=(130, 65, 64), head_dim=64), splits=splits) < 2e-3


@pytest.mark.parametrize("window", [1, 50, 1000])
def test_sliding_window_hides_older_keys_and_never_reads_them(largest_error, window):
    shape = replace(BATCH, queries=(4, 1, 1), keys=(300, 40, 90), query_heads=4, kv_heads=2, window=window)
    assert largest_error(shape, splits=2) < 2e-3


def test_soft_cap_bends_the_scores(largest_error):
    assert largest_error(replace(BATCH, softcap=1.5), splits=2) < 2e-3


@pytest.mark.parametrize("page_size", [2, 7, 784])
def test_any_page_size_finds_its_tokens(largest_error, page_size):
    assert largest_error(replace(BATCH, page_size=page_size), splits=2) < 2e-3


def test_padding_without_queries_reads_no_page(host_kernel):
    problem = make_problem(replace(BATCH, queries=(1, 0, 1), keys=(130, 90, 70)))
    problem.block_table[1] = np.iinfo(np.int32).max  # what a CUDA graph's padding may leave behind
    kernel, merge = host_kernel("decode_attention_d128_m8"), host_kernel("merge_splits_d128")
    assert np.abs(run_decode(kernel, merge, problem, splits=2) - problem.reference()).max() < 2e-3


def test_extreme_inputs_keep_their_relative_precision(host_kernel):
    problem = make_problem(replace(BATCH, amplitude=64.0))
    expected = problem.reference()
    kernel, merge = host_kernel("decode_attention_d128_m8"), host_kernel("merge_splits_d128")
    error = run_decode(kernel, merge, problem, splits=2) - expected
    assert np.linalg.norm(error) < 1e-3 * np.linalg.norm(expected)


def test_thread_order_does_not_change_a_bit(host_kernel):
    problem = make_problem(BATCH)
    kernel, merge = host_kernel("decode_attention_d128_m8"), host_kernel("merge_splits_d128")
    outputs = [run_decode(kernel, merge, problem, splits=3, seed=seed) for seed in (1, 2)]
    np.testing.assert_array_equal(*outputs)
