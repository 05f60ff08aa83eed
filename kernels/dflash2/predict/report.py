"""What `dflash2 predict` prints: predicted times of the attention kernels, as a table or JSON. Nothing is measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from dflash2.dispatch import HeadLayout, decode_variant, merge_variant, prefill_variant, split_count
from dflash2.errors import Dflash2Error
from dflash2.predict.cases import (
    KernelLibrary,
    predict_decode,
    predict_merge,
    prefill_cost,
    prefill_seconds,
)
from dflash2.predict.forecast import CtaCost
from dflash2.predict.machine import V100, V100_PESSIMISTIC, Machine
from dflash2.predict.validation import run as run_validation
from dflash2.shapes import AttentionShape
from dflash2.variants import HEAD_DIMS, KernelVariant

LABEL = "predicted by the timing model for a V100 (80 SMs, 1530 MHz); nothing here was measured"
PREFILL_TOKENS = (1024, 4096, 8192, 32768)
DECODE_TOKENS = (8192, 65536)
# Heads of the models that count: Qwen3.x 27B at head dim 256, Llama- and Qwen-8B-like below.
_HEADS = {256: (24, 4)}
_DEFAULT_HEADS = (32, 8)


@dataclass(frozen=True)
class PredictedRow:
    """One predicted launch sequence. `rate` is causal TFLOP/s for prefill and GB/s of K and V for decode."""

    op: str
    kernel: str
    head_dim: int
    tokens: int
    setting: str  # "nominal", or "pessimistic" with the small instruction cache
    microseconds: float
    rate: float
    unit: str
    detail: str
    limits: str


def run(arguments: argparse.Namespace) -> int:
    """The `dflash2 predict` subcommand."""
    overrides = _parse_overrides(arguments.set)
    if arguments.what == "validate":
        return run_validation(overrides, as_json=arguments.json)
    machines = {"pessimistic": V100_PESSIMISTIC.with_overrides(overrides)}
    if not arguments.pessimistic:
        machines = {"nominal": V100.with_overrides(overrides), **machines}
    head_dims, page_size = arguments.head_dim, arguments.page_size
    rows: list[PredictedRow] = []
    if arguments.what in ("attention", "prefill"):
        rows += predict_prefill_rows(machines, head_dims, arguments.tokens or PREFILL_TOKENS, page_size)
    if arguments.what in ("attention", "decode"):
        tokens = arguments.tokens or DECODE_TOKENS
        rows += predict_decode_rows(machines, head_dims, tokens, page_size, splits=arguments.splits)
    if arguments.json:
        print(json.dumps({"label": LABEL, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(render(rows, show_limits=arguments.limits))
    return 0


def predict_prefill_rows(
    machines: dict[str, Machine], head_dims: Sequence[int] | None, tokens: Iterable[int], page_size: int
) -> list[PredictedRow]:
    """Causal prefill of one prompt."""
    library, lengths, rows = KernelLibrary(), tuple(tokens), []
    for head_dim in _chosen_head_dims(head_dims):
        variant = prefill_variant(head_dim)
        for setting, machine in machines.items():
            cost = prefill_cost(library, variant, _shape(head_dim, 1, 1, page_size), machine)
            rows += [_prefill_row(variant, cost, _shape(head_dim, n, n, page_size), setting) for n in lengths]
    return rows


def _prefill_row(variant: KernelVariant, cost: CtaCost, shape: AttentionShape, setting: str) -> PredictedRow:
    seconds = prefill_seconds(cost, variant, shape)
    return PredictedRow(
        op="prefill",
        kernel=variant.name,
        head_dim=shape.head_dim,
        tokens=shape.query_tokens,
        setting=setting,
        microseconds=seconds * 1e6,
        rate=shape.causal_flop / seconds / 1e12,
        unit="TFLOP/s",
        detail=f"{cost.slots} CTA/SM",
        limits=cost.limits(),
    )


def predict_decode_rows(
    machines: dict[str, Machine],
    head_dims: Sequence[int] | None,
    tokens: Iterable[int],
    page_size: int,
    splits: int | None = None,
) -> list[PredictedRow]:
    """One decode step of one sequence, merge included; `splits` None takes what the operators would."""
    library, lengths, rows = KernelLibrary(), tuple(tokens), []
    for head_dim in _chosen_head_dims(head_dims):
        for setting, machine in machines.items():
            for length in lengths:
                shape = _shape(head_dim, 1, length, page_size)
                rows.append(_decode_row(library, shape, splits or _usual_splits(shape), setting, machine))
    return rows


def _decode_row(
    library: KernelLibrary, shape: AttentionShape, splits: int, setting: str, machine: Machine
) -> PredictedRow:
    variant = decode_variant(shape.head_dim, shape.group_size)
    attend = predict_decode(library, variant, shape, splits, machine)
    merge_s = 0.0
    if splits > 1:
        merge_s = predict_merge(library, merge_variant(shape.head_dim), shape, splits, machine).seconds
    return PredictedRow(
        op="decode",
        kernel=variant.name,
        head_dim=shape.head_dim,
        tokens=shape.context_tokens,
        setting=setting,
        microseconds=(attend.seconds + merge_s) * 1e6,
        rate=shape.kv_bytes / (attend.seconds + merge_s) / 1e9,
        unit="GB/s",
        detail=f"{splits} splits, {attend.slots} CTA/SM fit, merge {merge_s * 1e6:.1f} us of it",
        limits=attend.limits(),
    )


def _usual_splits(shape: AttentionShape) -> int:
    heads = HeadLayout(shape.query_heads, shape.kv_heads, shape.head_dim)
    return split_count(
        heads, sequences=shape.sequences, longest_query=shape.query_tokens, longest_context=shape.context_tokens
    )


def render(rows: Sequence[PredictedRow], *, show_limits: bool) -> str:
    """Rows as a Markdown table under the label."""
    lines = [
        LABEL,
        "",
        "| op | kernel | tokens | setting | predicted us | predicted rate | detail |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        detail = f"{row.detail}; {row.limits}" if show_limits else row.detail
        lines.append(
            f"| {row.op} | {row.kernel} | {row.tokens} | {row.setting} | {row.microseconds:.1f} |"
            f" {row.rate:.1f} {row.unit} | {detail} |"
        )
    return "\n".join(lines)


def _chosen_head_dims(wanted: Sequence[int] | None) -> Sequence[int]:
    for head_dim in wanted or ():
        if head_dim not in HEAD_DIMS:
            raise Dflash2Error(f"no kernel has head dim {head_dim}", f"there are {', '.join(map(str, HEAD_DIMS))}")
    return wanted or HEAD_DIMS


def _shape(head_dim: int, query_tokens: int, context_tokens: int, page_size: int) -> AttentionShape:
    query_heads, kv_heads = _HEADS.get(head_dim, _DEFAULT_HEADS)
    return AttentionShape(query_heads, kv_heads, head_dim, query_tokens, context_tokens, page_size=page_size)


def _parse_overrides(settings: Sequence[str]) -> dict[str, float]:
    overrides = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise Dflash2Error(f"--set {setting} has no value", "write CONSTANT=VALUE")
        overrides[name] = float(value)
    return overrides
