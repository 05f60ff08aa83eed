"""The measured columns: an op and its torch baseline, timed in turns on the card of this machine.

On a card other than a V100 the attention kernels are not timed: the driver emulates m8n8k4 there, about thirty times
slower than the card could be, so a number would mean nothing. The KV write and the merge use no such instruction; what
counts for them is the ratio to the baseline of the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dflash2.bench.cases import BenchCase
from dflash2.dispatch import HeadLayout
from dflash2.variants import KernelFamily

VOLTA = (7, 0)
WARM_UP_CALLS = 3
CALLS_A_GRAPH = 10
TIMED_REPLAYS = 30
FLUSH_BYTES = 128 << 20  # larger than any L2: every call reads its inputs from memory


@dataclass(frozen=True)
class NotMeasured:
    """Why there is no measurement."""

    reason: str


@dataclass(frozen=True)
class CardTimes:
    """Median times on this card, and what the baseline is."""

    op_us: float
    baseline_us: float
    baseline: str


class Bench:
    """Measures cases on one card through torch."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self._device = device
        self.card = f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
        self._is_volta = torch.cuda.get_device_capability(device) == VOLTA
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)

    @classmethod
    def open(cls) -> Bench | NotMeasured:
        """A bench on the current card, or the reason why there is none."""
        try:
            import torch
        except ImportError as err:
            return NotMeasured(f"torch is not installed ({err})")
        if not torch.cuda.is_available():
            return NotMeasured("torch sees no CUDA card")
        import dflash2.ops  # noqa: F401  registers the operators

        return cls(torch, torch.device("cuda", torch.cuda.current_device()))

    def measure(self, case: BenchCase) -> CardTimes | NotMeasured:
        """Time one case and its baseline."""
        if case.op in (KernelFamily.PREFILL, KernelFamily.DECODE) and not self._is_volta:
            return NotMeasured("m8n8k4 is emulated on this card")
        if case.shape.kv_bytes > self._torch.cuda.mem_get_info(self._device)[0] // 3:
            return NotMeasured("not enough free memory on this card")
        problem = _Problem(self._torch, self._device, case)
        op, baseline, name = {
            KernelFamily.PREFILL: problem.prefill,
            KernelFamily.DECODE: problem.decode,
            KernelFamily.MERGE: problem.merge,
            KernelFamily.KV_WRITE: problem.kv_write,
        }[case.op]()
        op_us, baseline_us = self._time_in_turns(self._capture(op), self._capture(baseline))
        return CardTimes(op_us, baseline_us, name)

    def _time_in_turns(self, first: Any, second: Any) -> tuple[float, float]:
        """Median microseconds a call of two graphs; they take turns, so that a changing clock meets both alike."""
        flush_only = self._capture(lambda: None)
        times: tuple[list[float], list[float], list[float]] = ([], [], [])
        for _ in range(TIMED_REPLAYS):
            for graph, kept in zip((first, second, flush_only), times, strict=True):
                kept.append(self._replay_us(graph))
        flush = _median(times[2])
        return (_median(times[0]) - flush) / CALLS_A_GRAPH, (_median(times[1]) - flush) / CALLS_A_GRAPH

    def _capture(self, call: Callable[[], object]) -> Any:
        """A CUDA graph of several calls, each behind a flush of L2: launching from Python is not what is timed."""
        for _ in range(WARM_UP_CALLS):
            call()
        self._torch.cuda.synchronize(self._device)
        graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(graph):
            for _ in range(CALLS_A_GRAPH):
                self._flush.zero_()
                call()
        return graph

    def _replay_us(self, graph: Any) -> float:
        cuda = self._torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3


Timed = tuple[Callable[[], object], Callable[[], object], str]


class _Problem:
    """Tensors of one case: queries, a paged cache whose pages lie in random order, new tokens."""

    def __init__(self, torch: Any, device: Any, case: BenchCase) -> None:
        shape = case.shape
        self._torch, self._device, self._shape, self._splits = torch, device, shape, case.splits
        tokens = shape.sequences * shape.query_tokens
        pages = shape.sequences * shape.pages_per_sequence
        self._query = self._normal(tokens, shape.query_heads, shape.head_dim)
        self._output = torch.empty_like(self._query)
        self._cache = self._normal(pages, 2, shape.page_size, shape.kv_heads, shape.head_dim)
        order = torch.randperm(pages, device=device).int()
        self._table = order.view(shape.sequences, shape.pages_per_sequence)
        starts = torch.arange(shape.sequences + 1, device=device, dtype=torch.int32) * shape.query_tokens
        self._starts = starts.int()
        self._lengths = torch.full((shape.sequences,), shape.context_tokens, device=device, dtype=torch.int32)
        self._scale = shape.head_dim**-0.5

    def prefill(self) -> Timed:
        """Prefill attention against torch's scaled_dot_product_attention on the same, unpaged, keys and values."""
        batch = self._batch()

        def op() -> None:
            self._torch.ops.dflash2.prefill_attention(*batch, self._shape.query_tokens, self._scale)

        return op, self._dense_attention(), "torch SDPA on unpaged K and V"

    def decode(self) -> Timed:
        """Decode attention and its merge, against SDPA as above."""
        from dflash2.ops import new_workspace

        batch = self._batch()
        heads = HeadLayout(self._shape.query_heads, self._shape.kv_heads, self._shape.head_dim)
        workspace = new_workspace(self._query.shape[0], heads, self._splits, self._device)
        numbers = (self._shape.query_tokens, self._splits, self._scale)

        def op() -> None:
            self._torch.ops.dflash2.decode_attention(*batch, workspace, *numbers)

        return op, self._dense_attention(), "torch SDPA on unpaged K and V"

    def merge(self) -> Timed:
        """The merge alone against the same sums in torch."""
        from dflash2.dispatch import merge_variant
        from dflash2.launches import Scoring, merge_launch
        from dflash2.ops import runtime
        from dflash2.tensors import partials_of, queries_of, workspace_floats

        shape, splits, torch = self._shape, self._splits, self._torch
        queries = queries_of(self._query, self._output, self._starts, self._lengths, longest=1, kv_heads=shape.kv_heads)
        workspace = torch.rand(workspace_floats(queries.rows, shape.head_dim, splits), device=self._device)
        launch = merge_launch(
            merge_variant(shape.head_dim),
            queries,
            Scoring(self._scale),
            partials_of(workspace, queries, shape.head_dim, splits),
        )
        outputs = workspace[: splits * queries.rows * shape.head_dim].view(splits, queries.rows, shape.head_dim)
        statistics = workspace[outputs.numel() :].view(splits, queries.rows, 2)

        def baseline() -> object:
            weight = torch.exp2((statistics[..., 0] - statistics[..., 0].amax(0)) * launch.arguments.scale_log2)
            total = (weight[..., None] * outputs).sum(0)
            return (total / (weight * statistics[..., 1]).sum(0)[..., None]).half()

        return lambda: runtime().launch([launch], self._device), baseline, "the same sums in torch"

    def kv_write(self) -> Timed:
        """The KV write against an indexed assignment in torch."""
        shape, torch = self._shape, self._torch
        tokens = self._query.shape[0]
        keys, values = (self._normal(tokens, shape.kv_heads, shape.head_dim) for _ in range(2))
        slots = torch.randperm(self._cache.shape[0] * shape.page_size, device=self._device)[:tokens]
        page, position = slots // shape.page_size, slots % shape.page_size
        key_cache, value_cache = self._cache[:, 0], self._cache[:, 1]

        def baseline() -> None:
            key_cache[page, position] = keys
            value_cache[page, position] = values

        def op() -> None:
            torch.ops.dflash2.kv_write(keys, values, key_cache, value_cache, slots)

        return op, baseline, "indexed assignment in torch"

    def _batch(self) -> tuple[Any, ...]:
        caches = self._cache[:, 0], self._cache[:, 1]
        return (self._query, *caches, self._table, self._starts, self._lengths, self._output)

    def _dense_attention(self) -> Callable[[], object]:
        """Causal attention over K and V of the same size without pages; cases have equal lengths or one query."""
        shape = self._shape
        sizes = (shape.sequences, shape.kv_heads, shape.context_tokens, shape.head_dim)
        keys, values = (self._normal(*sizes) for _ in range(2))
        query = self._normal(shape.sequences, shape.query_heads, shape.query_tokens, shape.head_dim)
        attend = self._torch.nn.functional.scaled_dot_product_attention
        is_causal = shape.query_tokens > 1
        return lambda: attend(query, keys, values, is_causal=is_causal, enable_gqa=True)

    def _normal(self, *size: int) -> Any:
        return self._torch.randn(size, device=self._device, dtype=self._torch.float16)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
