"""Runs the bench and prints it: roofline and prediction always, measurements where a card can give them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dflash2.bench.cases import BenchCase, all_cases
from dflash2.bench.measure import Bench, CardTimes, NotMeasured
from dflash2.bench.predicted import predicted_seconds
from dflash2.predict.cases import KernelLibrary
from dflash2.predict.machine import V100_PESSIMISTIC
from dflash2.variants import KernelFamily

LABEL = (
    "roofline: the best a V100 could do; predicted: by the timing model for a V100, pessimistic setting, not measured;"
    " this card and baseline: measured here"
)
HEAD = "| op | case | V100 roofline us | V100 predicted us | of roofline | this card us | baseline us | op / baseline |"


@dataclass(frozen=True)
class BenchRow:
    """One case. Times in microseconds; `card` names what was measured on, `note` why something was not."""

    op: str
    case: str
    roofline_us: float
    predicted_us: float
    predicted_share_of_roofline: float
    card_us: float | None
    baseline_us: float | None
    baseline: str
    note: str


def run(*, ops: Sequence[str], as_json: bool, measures: bool) -> int:
    """The `dflash2 bench` subcommand."""
    bench = Bench.open() if measures else NotMeasured("not asked for")
    library = KernelLibrary()
    chosen = [case for case in all_cases() if not ops or case.op in {KernelFamily(op) for op in ops}]
    rows = [bench_row(case, library, bench) for case in chosen]
    card = bench.reason if isinstance(bench, NotMeasured) else bench.card
    if as_json:
        print(json.dumps({"label": LABEL, "card": card, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(render(rows, card))
    return 0


def bench_row(case: BenchCase, library: KernelLibrary, bench: Bench | NotMeasured) -> BenchRow:
    """Predict one case, and measure it if there is a card."""
    predicted = predicted_seconds(case, library, V100_PESSIMISTIC)
    times = bench if isinstance(bench, NotMeasured) else bench.measure(case)
    return BenchRow(
        op=case.op,
        case=case.label,
        roofline_us=case.roofline_s * 1e6,
        predicted_us=predicted * 1e6,
        predicted_share_of_roofline=case.roofline_s / predicted,
        card_us=times.op_us if isinstance(times, CardTimes) else None,
        baseline_us=times.baseline_us if isinstance(times, CardTimes) else None,
        baseline=times.baseline if isinstance(times, CardTimes) else "",
        note=times.reason if isinstance(times, NotMeasured) else "",
    )


def render(rows: Sequence[BenchRow], card: str) -> str:
    """A Markdown table."""
    lines = [
        LABEL,
        f"this card: {card}",
        "",
        HEAD,
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        v100 = f"{row.roofline_us:.1f} | {row.predicted_us:.1f} | {row.predicted_share_of_roofline:.0%}"
        here = f"{_time(row.card_us)} | {_time(row.baseline_us)} | {_ratio(row)}"
        lines.append(f"| {row.op} | {row.case} | {v100} | {here} |")
    return "\n".join(lines)


def _time(microseconds: float | None) -> str:
    return "not measured" if microseconds is None else f"{microseconds:.1f}"


def _ratio(row: BenchRow) -> str:
    if row.card_us is None or row.baseline_us is None:
        return row.note
    return f"{row.card_us / row.baseline_us:.2f} of {row.baseline}"
