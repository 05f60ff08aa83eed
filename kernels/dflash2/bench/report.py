"""Runs the bench and prints it: roofline and prediction always, measurements where a card can give them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from dflash2.bench.cases import BenchCase, all_cases
from dflash2.bench.measure import Bench, CardTimes, NotMeasured
from dflash2.errors import ToolMissing
from dflash2.extras import PREDICT_HINT
from dflash2.variants import KernelFamily

LABEL = (
    "roofline: the best a V100 could do; predicted: by the timing model for a V100, pessimistic setting, not measured;"
    " this card and baseline: measured here"
)
HEAD = (
    "| op | case | V100 roofline us | V100 predicted us | roofline / predicted | this card us | baseline us |"
    " op / baseline | note |"
)


@dataclass(frozen=True)
class BenchRow:
    """One case. Times in microseconds; None was not predicted or not measured, and `note` says why."""

    op: str
    case: str
    roofline_us: float
    predicted_us: float | None
    card_us: float | None
    baseline_us: float | None
    baseline: str
    note: str


def run(*, ops: Sequence[str], as_json: bool, measures: bool) -> int:
    """The `dflash2 bench` subcommand."""
    bench = Bench.open() if measures else NotMeasured("not asked for")
    predictor = open_predictor()
    chosen = [case for case in all_cases() if not ops or case.op in {KernelFamily(op) for op in ops}]
    rows = [bench_row(case, predictor, bench) for case in chosen]
    card = bench.reason if isinstance(bench, NotMeasured) else bench.card
    if as_json:
        print(json.dumps({"label": LABEL, "card": card, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(render(rows, card))
    return 0


Predictor = Callable[[BenchCase], float]


@dataclass(frozen=True)
class NotPredicted:
    """Why there is no prediction: something the timing model needs is not installed."""

    reason: str


def open_predictor() -> Predictor | NotPredicted:
    """The timing model in its pessimistic setting, or the reason why it cannot run here."""
    try:
        from dflash2.bench.predicted import make_predictor

        return make_predictor()
    except ModuleNotFoundError as err:
        return NotPredicted(f"no prediction: {err}; {PREDICT_HINT}")
    except ToolMissing as err:
        return NotPredicted(f"no prediction: {err}")


def bench_row(case: BenchCase, predictor: Predictor | NotPredicted, bench: Bench | NotMeasured) -> BenchRow:
    """Predict one case and measure it, as far as this machine can."""
    predicted_us, op_us, baseline_us, baseline, notes = None, None, None, "", []
    if isinstance(predictor, NotPredicted):
        notes.append(predictor.reason)
    else:
        predicted_us = predictor(case) * 1e6
    times = bench if isinstance(bench, NotMeasured) else bench.measure(case)
    if isinstance(times, CardTimes):
        op_us, baseline_us, baseline = times.op_us, times.baseline_us, times.baseline
    else:
        notes.append(times.reason)
    roofline_us = case.roofline_s * 1e6
    return BenchRow(case.op, case.label, roofline_us, predicted_us, op_us, baseline_us, baseline, "; ".join(notes))


def render(rows: Sequence[BenchRow], card: str) -> str:
    """A Markdown table."""
    lines = [LABEL, f"this card: {card}", "", HEAD, "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        share = "" if row.predicted_us is None else f"{row.roofline_us / row.predicted_us:.0%}"
        v100 = f"{row.roofline_us:.1f} | {_time(row.predicted_us)} | {share}"
        here = f"{_time(row.card_us)} | {_time(row.baseline_us)} | {_ratio(row)}"
        lines.append(f"| {row.op} | {row.case} | {v100} | {here} | {row.note} |")
    return "\n".join(lines)


def _time(microseconds: float | None) -> str:
    return "none" if microseconds is None else f"{microseconds:.1f}"


def _ratio(row: BenchRow) -> str:
    if row.card_us is None or row.baseline_us is None:
        return ""
    return f"{row.card_us / row.baseline_us:.2f} of {row.baseline}"
