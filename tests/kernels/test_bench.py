"""The bench: what each case must move and compute, its prediction, and how what was not measured is said."""

from __future__ import annotations

import json

import pytest
from dflash2 import cli
from dflash2.bench.cases import PEAK_BYTES_PER_S, PEAK_FLOP_PER_S, BenchCase, all_cases
from dflash2.bench.measure import Bench, CardTimes, NotMeasured
from dflash2.bench.predicted import make_predictor
from dflash2.bench.report import BenchRow, NotPredicted, Predictor, bench_row, open_predictor, render
from dflash2.predict.machine import V100_PESSIMISTIC
from dflash2.shapes import AttentionShape
from dflash2.variants import KernelFamily

DECODE_8K = AttentionShape(24, 4, 256, query_tokens=1, context_tokens=8192)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return make_predictor()


def test_decode_has_to_read_the_cache_once() -> None:
    case = BenchCase(KernelFamily.DECODE, "model", DECODE_8K, splits=20)
    cache = 2 * 8192 * 4 * 256 * 2
    assert case.moved_bytes == cache + 2 * 24 * 256 * 2
    assert case.roofline_s == pytest.approx(case.moved_bytes / PEAK_BYTES_PER_S)


def test_prefill_is_bound_by_the_tensor_cores() -> None:
    case = BenchCase(KernelFamily.PREFILL, "model", AttentionShape(24, 4, 256, 8192, 8192))
    assert case.roofline_s == pytest.approx(case.shape.causal_flop / PEAK_FLOP_PER_S)


def test_kv_write_reads_and_writes_each_new_key_and_value() -> None:
    case = BenchCase(KernelFamily.KV_WRITE, "model", AttentionShape(24, 4, 256, 10, 10))
    assert case.moved_bytes == 2 * (2 * 10 * 4 * 256 * 2)


def test_the_merge_has_to_read_every_split() -> None:
    case = BenchCase(KernelFamily.MERGE, "model", DECODE_8K, splits=20)
    assert case.moved_bytes == 20 * 24 * (256 + 2) * 4 + 24 * 256 * 2


def test_every_op_is_benched_and_no_prediction_beats_the_roofline(predictor: Predictor) -> None:
    cases = all_cases()
    assert {case.op for case in cases} == set(KernelFamily)
    light = [case for case in cases if case.op is not KernelFamily.PREFILL and case.shape.head_dim == 256]
    for case in (case for case in light if case.shape.context_tokens <= 8192):
        in_l2 = case.op is KernelFamily.MERGE  # its input may never have left L2, which the roofline does not know
        assert in_l2 or predictor(case) > case.roofline_s, case.label


def test_decode_s_prediction_includes_the_merge(predictor: Predictor) -> None:
    times = {
        op: predictor(BenchCase(op, "model", DECODE_8K, splits=20))
        for op in (KernelFamily.DECODE, KernelFamily.MERGE)
    }
    unsplit = predictor(BenchCase(KernelFamily.DECODE, "model", DECODE_8K))
    assert times[KernelFamily.MERGE] > V100_PESSIMISTIC.launch_s
    assert times[KernelFamily.DECODE] > times[KernelFamily.MERGE]
    assert unsplit > 3 * times[KernelFamily.DECODE], "four blocks cannot keep the memory of 80 SMs busy"


def test_without_a_card_the_reason_stands_where_the_times_would(predictor: Predictor) -> None:
    bench = Bench.open()
    assert isinstance(bench, NotMeasured), "this test runs where there is no card"
    row = bench_row(BenchCase(KernelFamily.MERGE, "model", DECODE_8K, splits=20), predictor, bench)
    assert (row.card_us, row.baseline_us) == (None, None)
    assert row.note == bench.reason
    assert "| none | none |  | torch" in render([row], bench.reason, "model")


def test_measured_times_are_shown_with_their_ratio() -> None:
    row = BenchRow("kv_write", "case", 1.0, 2.0, 30.0, 60.0, "indexed assignment in torch", "")
    assert "| 1.0 | 2.0 | 50% | 30.0 | 60.0 | 0.50 of indexed assignment in torch |" in render([row], "a card", "model")


def test_without_the_timing_model_s_tools_the_rest_is_still_benched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH2_NVDISASM", "/nonexistent/nvdisasm")
    missing = open_predictor()
    assert isinstance(missing, NotPredicted)
    row = bench_row(BenchCase(KernelFamily.KV_WRITE, "model", DECODE_8K), missing, NotMeasured("no card"))
    assert row.predicted_us is None
    assert "triton==3.6.0" in missing.reason
    assert row.note == "no card"
    assert f"prediction: {missing.reason}" in render([row], "none", missing.reason)


def test_card_times_are_not_confused_with_predictions(predictor: Predictor) -> None:
    class FakeBench:
        card = "a card"

        def measure(self, case: BenchCase) -> CardTimes:
            return CardTimes(10.0, 20.0, "torch")

    case = BenchCase(KernelFamily.MERGE, "model", DECODE_8K, splits=20)
    row = bench_row(case, predictor, FakeBench())  # type: ignore[arg-type]
    assert (row.card_us, row.baseline_us, row.note) == (10.0, 20.0, "")
    assert row.predicted_us == pytest.approx(predictor(case) * 1e6)


def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--no-card", "--op", "kv_write"]) == 0
    assert "V100 predicted us" in capsys.readouterr().out
    assert cli.main(["bench", "--no-card", "--op", "kv_write", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["op"] for row in document["rows"]} == {"kv_write"}
    assert "not measured" in document["label"]
    assert document["card"] == "not asked for"
