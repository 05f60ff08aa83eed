"""What the kernels were tuned to, on the timing model in its pessimistic setting. Predictions, not measurements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dflash2.predict.machine import V100_PESSIMISTIC
from dflash2.predict.report import predict_decode_rows, predict_prefill_rows

MACHINES = {"pessimistic": V100_PESSIMISTIC}
PAGE_SIZE = 16
README = (Path(__file__).parents[2] / "kernels" / "README.md").read_text()


def readme_numbers(unit: str, head_dim: int) -> list[int]:
    """The pessimistic numbers of one head dim's row in the README's table of that unit."""
    (table,) = re.findall(rf"\n\| [^\n]*{re.escape(unit)}[^\n]* \|.*?\n\n", README, re.DOTALL)
    (row,) = re.findall(rf"\| D={head_dim} \|([^\n]*)", table)
    return [int(number) for number in re.findall(r"(\d+) \(", row)]


@pytest.mark.parametrize(
    ("head_dim", "goals"),
    [(64, {8192: 60}), (128, {8192: 60}), (256, {1024: 40, 8192: 60})],
)
def test_prefill_reaches_its_predicted_tflops(head_dim: int, goals: dict[int, int]) -> None:
    rows = predict_prefill_rows(MACHINES, [head_dim], goals, PAGE_SIZE)
    assert {row.tokens for row in rows} == set(goals)
    for row in rows:
        assert row.rate >= goals[row.tokens], row


def test_decode_of_head_dim_256_reaches_its_predicted_bandwidth_with_the_merge() -> None:
    goals = {8192: 780, 65536: 850}
    rows = predict_decode_rows(MACHINES, [256], goals, PAGE_SIZE)
    assert {row.tokens for row in rows} == set(goals)
    for row in rows:
        assert "merge" in row.detail
        assert row.rate >= goals[row.tokens], row


def test_the_readme_quotes_these_predictions() -> None:
    prefill = predict_prefill_rows(MACHINES, [256], (1024, 8192, 32768), PAGE_SIZE)
    assert readme_numbers("TFLOP/s", 256) == [round(row.rate) for row in prefill]
    decode = predict_decode_rows(MACHINES, [256], (8192, 65536), PAGE_SIZE)
    assert readme_numbers("GB/s", 256) == [round(row.rate) for row in decode]
