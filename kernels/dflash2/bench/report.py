"""Runs the bench and prints it: roofline and prediction always, measurements where a card can give them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from dflash2.bench.cases import BenchCase, all_cases
from dflash2.bench.measure import Bench, NotMeasured
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
    """One case. Times in microseconds; None was not predicted, or not measured for the reason in `note`."""

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
    prediction = predictor.reason if isinstance(predictor, NotPredicted) else "timing model, pessimistic setting"
    if as_json:
        document = {"label": LABEL, "card": card, "prediction": prediction, "rows": [asdict(row) for row in rows]}
        print(json.dumps(document, indent=1))
    else:
        print(render(rows, card, prediction))
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
        return NotPredicted(f"none: {err}; {PREDICT_HINT}")
    except ToolMissing as err:
        return NotPredicted(f"none: {err}")


def bench_row(case: BenchCase, predictor: Predictor | NotPredicted, bench: Bench | NotMeasured) -> BenchRow:
    """Predict one case and measure it, as far as this machine can."""
    roofline_us = case.roofline_s * 1e6
    predicted_us = None if isinstance(predictor, NotPredicted) else predictor(case) * 1e6
    times = bench if isinstance(bench, NotMeasured) else bench.measure(case)
    if isinstance(times, NotMeasured):
        return BenchRow(case.op, case.label, roofline_us, predicted_us, None, None, "", times.reason)
    return BenchRow(case.op, case.label, roofline_us, predicted_us, times.op_us, times.baseline_us, times.baseline, "")


def render(rows: Sequence[BenchRow], card: str, prediction: str) -> str:
    """A Markdown table under what was measured on and what predicted."""
    lines = [
        LABEL,
        f"this card: {card}",
        f"prediction: {prediction}",
        "",
        HEAD,
        "|---|---|---|---|---|---|---|---|---|",
    ]
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
