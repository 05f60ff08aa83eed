"""The predicted column: each bench case on the timing model (which needs the packages of the extra "predict")."""

from __future__ import annotations

from collections.abc import Callable

from dflash2.bench.cases import BenchCase
from dflash2.dispatch import decode_variant, kv_write_variant, merge_variant, prefill_variant
from dflash2.predict.cases import (
    KernelLibrary,
    predict_decode,
    predict_kv_write,
    predict_merge,
    prefill_cost,
    prefill_seconds,
)
from dflash2.predict.machine import V100_PESSIMISTIC, Machine
from dflash2.variants import KernelFamily


def make_predictor(machine: Machine = V100_PESSIMISTIC) -> Callable[[BenchCase], float]:
    """Seconds of a case by the timing model. Raises ToolMissing when NVRTC, nvdisasm or a C compiler is absent."""
    library = KernelLibrary()
    library.kernel(kv_write_variant())  # the smallest kernel: shows at once whether the tools are there
    return lambda case: predicted_seconds(case, library, machine)


def predicted_seconds(case: BenchCase, library: KernelLibrary, machine: Machine) -> float:
    """Predicted time of one case on a V100; decode includes the merge of its splits."""
    shape, head_dim = case.shape, case.shape.head_dim
    if case.op is KernelFamily.PREFILL:
        variant = prefill_variant(head_dim)
        return prefill_seconds(prefill_cost(library, variant, shape, machine), variant, shape)
    if case.op is KernelFamily.KV_WRITE:
        return predict_kv_write(library, kv_write_variant(), shape, machine).seconds
    merge = 0.0
    if case.splits > 1:
        merge = predict_merge(library, merge_variant(head_dim), shape, case.splits, machine).seconds
    if case.op is KernelFamily.MERGE:
        return merge
    attend = decode_variant(head_dim, shape.query_tokens * shape.group_size)
    return predict_decode(library, attend, shape, case.splits, machine).seconds + merge
