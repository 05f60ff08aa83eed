"""What `dflash2 predict` prints: predicted times of the attention kernels, as a table or JSON. Nothing is measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from dflash2.errors import Dflash2Error
from dflash2.predict.cases import (
    AttentionShape,
    KernelLibrary,
    predict_decode,
    predict_merge,
    prefill_cost,
    prefill_seconds,
)
from dflash2.predict.machine import V100, V100_PESSIMISTIC, Machine
from dflash2.predict.validation import run as run_validation
from dflash2.variants import VARIANTS, DecodeTile, KernelFamily, KernelVariant, PrefillTile

LABEL = "predicted by the timing model for a V100 (80 SMs, 1530 MHz); nothing here was measured"
PREFILL_TOKENS = (1024, 4096, 8192, 32768)
DECODE_TOKENS = (8192, 65536)
SPLIT_CANDIDATES = (5, 10, 20, 40, 60)
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
    rows: list[PredictedRow] = []
    if arguments.what in ("attention", "prefill"):
        rows += predict_prefill_rows(
            machines, arguments.head_dim, arguments.tokens or PREFILL_TOKENS, arguments.page_size
        )
    if arguments.what in ("attention", "decode"):
        rows += predict_decode_rows(
            machines, arguments.head_dim, arguments.tokens or DECODE_TOKENS, arguments.page_size
        )
    if arguments.json:
        print(json.dumps({"label": LABEL, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(render(rows, show_limits=arguments.limits))
    return 0


def predict_prefill_rows(
    machines: dict[str, Machine], head_dims: Sequence[int] | None, tokens: Iterable[int], page_size: int
) -> list[PredictedRow]:
    """Causal prefill of one prompt, for every prefill variant of the chosen head dims."""
    library, lengths, rows = KernelLibrary(), tuple(tokens), []
    for variant in _chosen(KernelFamily.PREFILL, head_dims):
        for setting, machine in machines.items():
            cost = prefill_cost(library, variant, _shape(variant, 1, 1, page_size), machine)
            for length in lengths:
                shape = _shape(variant, length, length, page_size)
                seconds = prefill_seconds(cost, variant, shape)
                rate = shape.causal_flop / seconds / 1e12
                detail = f"{cost.slots} CTA/SM"
                rows.append(_row("prefill", variant, length, setting, seconds, rate, "TFLOP/s", detail, cost.limits()))
    return rows


def predict_decode_rows(
    machines: dict[str, Machine], head_dims: Sequence[int] | None, tokens: Iterable[int], page_size: int
) -> list[PredictedRow]:
    """One decode step of one sequence, merge included, at the best number of splits."""
    library, lengths, rows = KernelLibrary(), tuple(tokens), []
    merges = {variant.name: variant for variant in VARIANTS if variant.family is KernelFamily.MERGE}
    for variant in _chosen(KernelFamily.DECODE, head_dims):
        merge = merges[f"merge_splits_d{_head_dim(variant)}"]
        for setting, machine in machines.items():
            for length in lengths:
                shape = _shape(variant, 1, length, page_size)
                options = []
                for splits in SPLIT_CANDIDATES:
                    attend = predict_decode(library, variant, shape, splits, machine)
                    combine = predict_merge(library, merge, shape, splits, machine)
                    options.append((attend.seconds + combine.seconds, splits, attend, combine))
                seconds, splits, attend, combine = min(options, key=lambda option: option[0])
                detail = f"{splits} splits, {attend.slots} CTA/SM, merge {combine.seconds * 1e6:.1f} us of it"
                rate = shape.kv_bytes / seconds / 1e9
                rows.append(_row("decode", variant, length, setting, seconds, rate, "GB/s", detail, attend.limits()))
    return rows


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


def _chosen(family: KernelFamily, head_dims: Sequence[int] | None) -> list[KernelVariant]:
    variants = [variant for variant in VARIANTS if variant.family is family]
    chosen = [variant for variant in variants if not head_dims or _head_dim(variant) in head_dims]
    if not chosen:
        known = sorted({_head_dim(variant) for variant in variants})
        raise Dflash2Error(f"no {family} kernel has head dim {head_dims}", f"there are {known}")
    return chosen


def _head_dim(variant: KernelVariant) -> int:
    if not isinstance(variant.tile, PrefillTile | DecodeTile):
        raise TypeError(f"{variant.name} has no tile")
    return variant.tile.head_dim


def _shape(variant: KernelVariant, query_tokens: int, context_tokens: int, page_size: int) -> AttentionShape:
    head_dim = _head_dim(variant)
    query_heads, kv_heads = _HEADS.get(head_dim, _DEFAULT_HEADS)
    return AttentionShape(query_heads, kv_heads, head_dim, query_tokens, context_tokens, page_size=page_size)


def _row(
    op: str,
    variant: KernelVariant,
    tokens: int,
    setting: str,
    seconds: float,
    rate: float,
    unit: str,
    detail: str,
    limits: str,
) -> PredictedRow:
    head_dim = _head_dim(variant)
    return PredictedRow(op, variant.name, head_dim, tokens, setting, seconds * 1e6, rate, unit, detail, limits)


def _parse_overrides(settings: Sequence[str]) -> dict[str, float]:
    overrides = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise Dflash2Error(f"--set {setting} has no value", "write CONSTANT=VALUE")
        overrides[name] = float(value)
    return overrides
