"""The prefill kernel's source on the CPU against double precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dflash2.arguments import PrefillArguments
from dflash2.variants import PrefillTile

from .attention_problem import Problem, ProblemShape, make_problem
from .host_kernels import HostKernel, address

SHORT = ProblemShape(head_dim=64, queries=(70, 1, 33), keys=(101, 40, 33))


def run_prefill(kernel: HostKernel, problem: Problem, seed: int = 1) -> np.ndarray:
    output = np.full_like(problem.query, np.nan)
    shape, tile = problem.shape, kernel.variant.tile
    assert isinstance(tile, PrefillTile)
    row = shape.query_heads * shape.head_dim
    arguments = PrefillArguments(
        *map(address, (problem.query, output, problem.query_start, problem.kv_length)),
        row, row, shape.query_heads, shape.query_heads // shape.kv_heads,
        problem.cache_arguments(), problem.scoring_arguments(),
    )  # fmt: skip
    grid = (shape.query_heads, len(shape.queries), -(-max(shape.queries) // tile.query_rows))
    kernel.run(grid, arguments, seed)
    return output.astype(np.float64)


def largest_error(kernel: HostKernel, shape: ProblemShape, seed: int = 0) -> float:
    problem = make_problem(shape, seed)
    return float(np.abs(run_prefill(kernel, problem, seed + 1) - problem.reference()).max())


@pytest.mark.parametrize("head_dim", [64, 96, 128, 192, 256])
def test_ragged_batch_over_a_cached_prefix_matches_the_reference(host_kernel, head_dim):
    kernel = host_kernel(f"prefill_attention_d{head_dim}")
    assert largest_error(kernel, replace(SHORT, head_dim=head_dim)) < 2e-3


@pytest.mark.parametrize(("head_dim", "cached"), [(64, 49), (128, 1), (256, 17)])
def test_a_tile_of_which_only_a_warps_last_query_sees_one_key_counts(host_kernel, head_dim, cached):
    shape = ProblemShape(head_dim=head_dim, queries=(40,), keys=(40 + cached,), query_heads=1)
    assert largest_error(host_kernel(f"prefill_attention_d{head_dim}"), shape) < 2e-3


@pytest.mark.parametrize("page_size", [2, 7, 32, 784])
def test_any_page_size_finds_its_tokens(host_kernel, page_size):
    assert largest_error(host_kernel("prefill_attention_d64"), replace(SHORT, page_size=page_size)) < 2e-3


@pytest.mark.parametrize("window", [1, 20, 64, 500])
@pytest.mark.parametrize("head_dim", [64, 256])
def test_sliding_window_hides_older_keys_and_never_reads_them(host_kernel, head_dim, window):
    shape = ProblemShape(head_dim=head_dim, queries=(140,), keys=(230,), query_heads=1, window=window)
    assert largest_error(host_kernel(f"prefill_attention_d{head_dim}"), shape) < 2e-3


@pytest.mark.parametrize("head_dim", [64, 256])
def test_soft_cap_bends_the_scores(host_kernel, head_dim):
    shape = replace(SHORT, head_dim=head_dim, softcap=1.5)
    assert largest_error(host_kernel(f"prefill_attention_d{head_dim}"), shape) < 2e-3


def test_heads_of_a_group_share_their_kv_head(host_kernel):
    shape = replace(SHORT, queries=(40,), keys=(64,), query_heads=6, kv_heads=2)
    assert largest_error(host_kernel("prefill_attention_d64"), shape) < 2e-3


def test_padding_without_queries_reads_no_page(host_kernel):
    problem = make_problem(replace(SHORT, queries=(20, 0, 3), keys=(40, 60, 30)))
    problem.block_table[1] = np.iinfo(np.int32).max
    assert np.abs(run_prefill(host_kernel("prefill_attention_d64"), problem) - problem.reference()).max() < 2e-3


@pytest.mark.parametrize("amplitude", [64.0, 1e-3])
def test_extreme_inputs_keep_their_relative_precision(host_kernel, amplitude):
    problem = make_problem(replace(SHORT, amplitude=amplitude))
    expected = problem.reference()
    error = run_prefill(host_kernel("prefill_attention_d64"), problem) - expected
    assert np.linalg.norm(error) < 1e-3 * np.linalg.norm(expected)


def test_thread_order_does_not_change_a_bit(host_kernel):
    problem = make_problem(SHORT)
    kernel = host_kernel("prefill_attention_d64")
    np.testing.assert_array_equal(run_prefill(kernel, problem, seed=1), run_prefill(kernel, problem, seed=2))
