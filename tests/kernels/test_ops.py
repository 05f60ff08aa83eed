"""The torch side: tensors become launches that compute the right thing, wrong ones are refused, operators trace.

The launches planned from CPU tensors run through the CPU shim, so what is checked is what a card would get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch  # noqa: TID251 (the operators under test are torch operators)
from dflash2 import ops
from dflash2.dispatch import HeadLayout
from dflash2.errors import ShapeUnsupported
from dflash2.launches import UNSPLIT, Launch, Scoring
from dflash2.tensors import (
    cache_of,
    partials_of,
    plan_decode,
    plan_kv_write,
    plan_prefill,
    queries_of,
    require_layout,
    workspace_floats,
)

from .attention_problem import Problem, ProblemShape, make_problem
from .host_kernels import HostKernel

HostKernels = Callable[[str], HostKernel]
TOLERANCE = 2e-3


def run(planned: Sequence[Launch], host_kernel: HostKernels) -> None:
    """Run launches one after the other on the CPU."""
    for launch in planned:
        host_kernel(launch.variant.name).run(launch.grid, launch.arguments)


class Tensors:
    """A problem as CPU tensors that share its memory, with an output full of NaN."""

    def __init__(self, problem: Problem) -> None:
        self.query, self.key_cache, self.value_cache, self.block_table, self.query_start, self.kv_length = (
            torch.from_numpy(array)
            for array in (
                problem.query, problem.key_cache, problem.value_cache, problem.block_table, problem.query_start,
                problem.kv_length,
            )
        )  # fmt: skip
        self.output = torch.full_like(self.query, float("nan"))
        self.longest = max(problem.shape.queries)
        self.kv_heads = problem.shape.kv_heads
        self.score = Scoring(problem.shape.scale, problem.shape.softcap, problem.shape.window)

    def error(self, problem: Problem) -> float:
        """Largest error of the output."""
        return float(np.abs(self.output.numpy().astype(np.float64) - problem.reference()).max())


def test_prefill_planned_from_tensors_computes_attention(host_kernel: HostKernels) -> None:
    shape = ProblemShape(head_dim=64, queries=(40, 3), keys=(70, 20), query_heads=4, kv_heads=2, softcap=20.0)
    problem = make_problem(shape)
    t = Tensors(problem)
    queries = queries_of(t.query, t.output, t.query_start, t.kv_length, longest=t.longest, kv_heads=t.kv_heads)
    run(plan_prefill(queries, cache_of(t.key_cache, t.value_cache, t.block_table), t.score, 64), host_kernel)
    assert t.error(problem) < TOLERANCE


@pytest.mark.parametrize("splits", [1, 3])
def test_decode_planned_from_tensors_computes_attention(host_kernel: HostKernels, splits: int) -> None:
    shape = ProblemShape(head_dim=64, queries=(1, 1, 1), keys=(301, 40, 700), query_heads=9, kv_heads=3)
    problem = make_problem(shape)
    t = Tensors(problem)
    queries = queries_of(t.query, t.output, t.query_start, t.kv_length, longest=t.longest, kv_heads=t.kv_heads)
    workspace = torch.full((workspace_floats(queries.rows, 64, splits),), float("nan"))
    partials = UNSPLIT if splits == 1 else partials_of(workspace, queries, 64, splits)
    planned = plan_decode(queries, cache_of(t.key_cache, t.value_cache, t.block_table), t.score, 64, partials)
    assert len(planned) == (1 if splits == 1 else 2)
    run(planned, host_kernel)
    assert t.error(problem) < TOLERANCE


def test_kv_write_planned_from_tensors_stores_every_token(host_kernel: HostKernels) -> None:
    fused = torch.randn(5, 3 * 2 * 64).half()  # keys and values are slices of one projection, as in an engine
    keys, values = (fused[:, part * 128 : (part + 1) * 128].view(5, 2, 64) for part in (1, 2))
    cache = torch.zeros(4, 2, 16, 2, 64).half()
    slots = torch.tensor([3, 17, -1, 40, 63])
    run(plan_kv_write(keys, values, cache[:, 0], cache[:, 1], slots), host_kernel)
    flat = cache.transpose(0, 1).reshape(2, 64, 2, 64)
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            assert torch.equal(flat[0, slot], keys[token])
            assert torch.equal(flat[1, slot], values[token])
    assert int((flat != 0).any(-1).any(-1).sum()) == 2 * 4


def valid() -> Tensors:
    return Tensors(make_problem(ProblemShape(head_dim=64, queries=(4,), keys=(20,), query_heads=2, kv_heads=1)))


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (lambda t: {"query": t.query.bfloat16()}, "must be torch.float16"),
        (lambda t: {"query": t.query.transpose(0, 1)}, "with adjacent heads"),
        (lambda t: {"query_start": t.query_start.long()}, "query_start must be a contiguous torch.int32"),
        (lambda t: {"kv_length": torch.cat([t.kv_length, t.kv_length])}, "2 lengths need 3 query starts"),
        (lambda t: {"output": t.output[:2]}, "and output"),
        (lambda t: {"query": torch.zeros(4 * 2 * 64 + 1).half()[1:].view(4, 2, 64)}, "multiple of 16 bytes"),
    ],
)
def test_queries_that_a_kernel_would_misread_are_refused(
    breaks: Callable[[Tensors], dict[str, torch.Tensor]], reason: str
) -> None:
    t = valid()
    tensors = {"query": t.query, "output": t.output, "query_start": t.query_start, "kv_length": t.kv_length}
    with pytest.raises(ShapeUnsupported, match=reason):
        queries_of(**{**tensors, **breaks(t)}, longest=4, kv_heads=1)


def test_caches_that_a_kernel_would_misread_are_refused() -> None:
    t = valid()
    with pytest.raises(ShapeUnsupported, match="K and V differ"):
        cache_of(t.key_cache, t.value_cache.contiguous(), t.block_table)
    with pytest.raises(ShapeUnsupported, match="block_table must be an int32 matrix"):
        cache_of(t.key_cache, t.value_cache, t.block_table.long())
    with pytest.raises(ShapeUnsupported, match="must be multiples of 8"):
        narrow = torch.zeros(4, 16, 1, 68).half()[..., :64]
        cache_of(narrow, narrow, t.block_table)
    with pytest.raises(ShapeUnsupported, match="head dim 64, the cache 128"):
        require_layout(t.query, torch.zeros(4, 16, 1, 128).half())


def test_a_workspace_that_is_too_small_is_refused() -> None:
    t = valid()
    queries = queries_of(t.query, t.output, t.query_start, t.kv_length, longest=4, kv_heads=1)
    heads = HeadLayout(2, 1, 64)
    workspace = ops.new_workspace(4, heads, 3, torch.device("cpu"))
    assert partials_of(workspace, queries, 64, 3).splits == 3
    with pytest.raises(ShapeUnsupported, match="workspace must be"):
        partials_of(workspace[:-1], queries, 64, 3)


def fake_batch() -> list[torch.Tensor]:
    """Arguments of the attention operators on a card that is not there."""
    shapes = [((3, 6, 64), torch.float16), *[((8, 16, 1, 64), torch.float16)] * 2, ((3, 4), torch.int32)]
    shapes += [((4,), torch.int32), ((3,), torch.int32), ((3, 6, 64), torch.float16)]
    return [torch.empty(size, dtype=dtype, device="cuda") for size, dtype in shapes]


def test_operators_can_be_traced_without_a_card() -> None:
    with torch._subclasses.FakeTensorMode():
        batch = fake_batch()
        workspace = ops.new_workspace(3, HeadLayout(6, 1, 64), 2, torch.device("cuda"))
        assert torch.ops.dflash2.prefill_attention(*batch, 1, 0.125) is None
        assert torch.ops.dflash2.decode_attention(*batch, workspace, 1, 2, 0.125, 0.0, 128) is None
        keys = torch.empty(3, 1, 64, dtype=torch.float16, device="cuda")
        slots = torch.empty(3, dtype=torch.int64, device="cuda")
        assert torch.ops.dflash2.kv_write(keys, keys, batch[1], batch[2], slots) is None


def test_schemas_name_what_is_written() -> None:
    for name, written in (
        ("prefill_attention", {"output"}),
        ("decode_attention", {"output", "workspace"}),
        ("kv_write", {"key_cache", "value_cache"}),
    ):
        schema = getattr(torch.ops.dflash2, name).default._schema
        mutated = {
            argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write
        }
        assert mutated == written


def test_a_cpu_tensor_is_refused_by_torch_itself() -> None:
    t = valid()
    with pytest.raises(NotImplementedError, match="CPU"):
        torch.ops.dflash2.prefill_attention(
            t.query, t.key_cache, t.value_cache, t.block_table, t.query_start, t.kv_length, t.output, 4, 0.125
        )


def test_tensors_on_two_devices_are_refused() -> None:
    t = valid()
    with pytest.raises(ShapeUnsupported, match="lie on cpu, meta"):
        ops.prefill_attention(
            t.query,
            t.key_cache,
            t.value_cache,
            t.block_table.to("meta"),
            t.query_start,
            t.kv_length,
            t.output,
            4,
            0.125,
        )
