"""KV write and merge against torch in one run on this card: no instruction is emulated, so their ratio counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from dflash2 import launches, ops
from dflash2.dispatch import merge_variant

from .problem import DEVICE

_WARM_UP, _REPEATS = 10, 200
_PAGE = 16


@dataclass(frozen=True)
class Ratio:
    """Time of dflash2 and of torch for the same work, medians in microseconds."""

    work: str
    dflash2_us: float
    torch_us: float

    @property
    def speedup(self) -> float:
        """How many times faster than torch."""
        return self.torch_us / self.dflash2_us


def time_all() -> list[Ratio]:
    """KV writes of a decode batch and of a prompt, and the merge of one and of many sequences."""
    writes = [_time_kv_write(*shape) for shape in ((64, 4, 256), (8192, 4, 256), (8192, 8, 128))]
    return [*writes, *(_time_merge(rows, 256, splits) for rows, splits in ((24, 20), (24 * 64, 4)))]


def _time_kv_write(tokens: int, heads: int, head_dim: int) -> Ratio:
    cache = torch.zeros(tokens // _PAGE + 2, 2, _PAGE, heads, head_dim, dtype=torch.float16, device=DEVICE)
    new = torch.randn(tokens, 2, heads, head_dim, device=DEVICE).half()
    slots = torch.randperm(cache.shape[0] * _PAGE, device=DEVICE)[:tokens]
    page, slot = slots // _PAGE, slots % _PAGE

    def scatter() -> None:
        cache[page, 0, slot] = new[:, 0]
        cache[page, 1, slot] = new[:, 1]

    def write() -> None:
        torch.ops.dflash2.kv_write(new[:, 0], new[:, 1], cache[:, 0], cache[:, 1], slots)

    name = f"KV write, {tokens} tokens, {heads} heads of {head_dim}"
    return Ratio(name, _graph_time_us(write), _graph_time_us(scatter))


def _time_merge(rows: int, head_dim: int, splits: int) -> Ratio:
    outputs = torch.randn(splits, rows, head_dim, device=DEVICE)
    statistics = torch.rand(splits, rows, 2, device=DEVICE) + 0.5
    merged = torch.empty(rows, 1, head_dim, dtype=torch.float16, device=DEVICE)
    none = torch.zeros(2, dtype=torch.int32, device=DEVICE)
    queries = launches.Queries(
        query=0, output=merged.data_ptr(), query_start=none.data_ptr(), kv_length=none.data_ptr(),
        query_token_stride=head_dim, output_token_stride=head_dim, tokens=rows, sequences=rows, longest=1,
        query_heads=1, kv_heads=1,
    )  # fmt: skip
    partials = launches.Partials(outputs.data_ptr(), statistics.data_ptr(), splits)
    launch = launches.merge_launch(merge_variant(head_dim), queries, launches.Scoring(1.0), partials)

    def with_torch() -> None:
        maximum, sums = statistics[..., 0], statistics[..., 1]
        weight = torch.exp(maximum - maximum.amax(0))
        torch.div((outputs * weight[..., None]).sum(0), (sums * weight).sum(0)[:, None]).half()

    name = f"merge of {splits} splits, {rows} rows of {head_dim}"
    return Ratio(name, _graph_time_us(lambda: ops.runtime().launch([launch], DEVICE)), _graph_time_us(with_torch))


def _graph_time_us(work: Callable[[], object]) -> float:
    """Median time inside a CUDA graph of ten runs, so that launching from Python is not what is timed."""
    runs = 10
    for _ in range(_WARM_UP):
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            work()
    times: list[float] = []
    for _ in range(_REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) * 1000 / runs)
    return sorted(times)[len(times) // 2]
