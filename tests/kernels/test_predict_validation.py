"""The timing model against published V100 figures: rows that PyPI packages can rebuild, and the record of the rest."""

from __future__ import annotations

import pytest
from dflash2.predict.machine import V100
from dflash2.predict.validation import (
    Origin,
    ValidationRow,
    computed_rows,
    latency_rows,
    recorded_rows,
    render,
    summarize,
)

# What this model says, to four digits. A change here is a change of the model: give its reason in kernels/README.md.
EXPECTED = {
    "shared_load_dependent": 26.31,
    "global_load_dependent": 210.2,
    "shared_round_trip": 33.88,
    "mma_dependent": 9.344,
    "mma_independent": 8.492,
    "copy": 819.1,
    "triad": 837.9,
    "gemm_128x256 5120x4096x4096": 90.57,
    "gemm_128x256 4096x4096x4096": 82.77,
    "gemm_128x128 4096x4096x4096": 88.27,
    "gemm_128x256 8192x8192x8192": 91.01,
    "sgemm_128x128 4096x4096x4096": 14.84,
}


@pytest.fixture(scope="module")
def rows() -> list[ValidationRow]:
    return list(computed_rows())


def test_probe_stream_and_gemm_rows_come_out_as_documented(rows: list[ValidationRow]) -> None:
    assert {row.case: float(f"{row.predicted:.4g}") for row in rows} == EXPECTED


def test_every_computed_row_is_within_ten_percent_of_the_published_figure(rows: list[ValidationRow]) -> None:
    assert [row.case for row in rows if abs(row.error_percent) > 10] == []


def test_all_rows_together_have_the_documented_error(rows: list[ValidationRow]) -> None:
    summary = summarize([*rows, *recorded_rows()])
    assert summary == "35 rows that nothing was fitted to: mean error 4.1 %, median 2.4 %, worst 23.0 %, 33 within 10 %"


def test_rows_on_third_party_kernels_are_a_dated_record(rows: list[ValidationRow]) -> None:
    record = recorded_rows()
    assert len(record) == 27
    assert all(row.recorded_on for row in record)
    assert not any(row.recorded_on for row in rows)
    table = render([*rows[:1], *record[:1]])
    assert "computed now" in table
    assert f"record of {record[0].recorded_on}" in table


def test_a_changed_constant_moves_its_row() -> None:
    slower = {row.case: row.predicted for row in latency_rows(V100.with_overrides({"shared_latency": 25}))}
    grown = EXPECTED["shared_load_dependent"] + 10 * 31 / 32  # the clock is read after the 31st of 32 results
    assert slower["shared_load_dependent"] == pytest.approx(grown, abs=0.01)


def test_fitted_rows_are_marked_and_left_out_of_the_error() -> None:
    fitted = ValidationRow("g", "c", 200.0, 100.0, "x", Origin.FITTED)
    exact = ValidationRow("g", "d", 100.0, 100.0, "x", Origin.PREDICTED)
    assert summarize([fitted, exact]).startswith("1 rows that nothing was fitted to: mean error 0.0 %")
