"""dflash2's kernels on the timing model: they move exactly the bytes and do exactly the products they should."""

from __future__ import annotations

import json
import math
from itertools import product

import pytest
from dflash2 import cli
from dflash2.predict.cases import (
    KernelLibrary,
    _decode_launch,
    predict_decode,
    predict_merge,
    prefill_cost,
    prefill_seconds,
)
from dflash2.predict.emulation import Launch, emulate_cta
from dflash2.predict.forecast import Kernel
from dflash2.predict.machine import V100, V100_PESSIMISTIC
from dflash2.predict.memory import ADDRESS_BITS
from dflash2.predict.report import PredictedRow, render
from dflash2.predict.warp import WarpTrace
from dflash2.shapes import AttentionShape
from dflash2.variants import VARIANTS, KernelFamily, KernelVariant, PrefillTile

QWEN_27B = AttentionShape(query_heads=24, kv_heads=4, head_dim=256, query_tokens=1, context_tokens=1000)


def variant(family: KernelFamily, head_dim: int) -> KernelVariant:
    """The first variant of a family for a head dim."""
    return next(item for item in VARIANTS if item.family is family and f"_d{head_dim}" in item.name)


@pytest.fixture(scope="module")
def library() -> KernelLibrary:
    return KernelLibrary()


def traces_of(kernel: Kernel, launch: Launch) -> list[WarpTrace]:
    """Traces of every warp of every CTA."""
    ctas = product(*(range(size) for size in launch.grid))
    return [trace for cta in ctas for trace in emulate_cta(kernel.program, launch, (cta[0], cta[1], cta[2]))]


def test_decode_reads_every_key_and_value_once(library: KernelLibrary) -> None:
    chosen, splits = variant(KernelFamily.DECODE, 256), 3
    launch = _decode_launch(chosen, QWEN_27B, splits)
    keys_and_values = {
        launch.memory.address_of(buffer) >> ADDRESS_BITS for buffer in launch.memory.buffers if buffer.hbm_fraction == 1
    }
    touched = [
        sector
        for trace in traces_of(library.kernel(chosen), launch)
        for sector in trace.sectors
        if sector >> ADDRESS_BITS in keys_and_values
    ]
    assert len(set(touched)) * 32 == QWEN_27B.kv_bytes
    repeated = len(touched) / len(set(touched))
    # Two chunks share a sector of K and are read by two instructions; a sector of V is read once.
    assert 1.5 <= repeated < 1.55, "a lane without a key of its own repeats the last one, no more"


def test_causal_flop_counts_the_visible_keys() -> None:
    square = AttentionShape(2, 1, 64, query_tokens=3, context_tokens=3)
    assert square.causal_flop == 4 * 2 * 64 * (1 + 2 + 3)
    behind_a_prefix = AttentionShape(2, 1, 64, query_tokens=2, context_tokens=5)
    assert behind_a_prefix.causal_flop == 4 * 2 * 64 * (4 + 5)


def test_prefill_does_two_products_a_visible_block(library: KernelLibrary) -> None:
    """A key block is rows * keys * dim multiply-adds in each of two products; one HMMA step does 256 of them."""
    chosen = variant(KernelFamily.PREFILL, 128)
    tile = chosen.tile
    assert isinstance(tile, PrefillTile)
    shape = AttentionShape(32, 8, 128, 1, 1)
    cost = prefill_cost(library, chosen, shape, V100)
    blocks = 8  # the steady state is the difference of two runs 8 key blocks apart
    multiply_adds = 2 * tile.query_rows * tile.keys * tile.head_dim * blocks * cost.slots
    steps = multiply_adds / 256  # m8n8k4 in four quad-pairs is 1024 multiply-adds, in four steps
    busy_per_step = 2
    assert cost.steady.pipe_busy[4] == steps * busy_per_step


def test_prefill_time_grows_with_the_square_of_the_prompt(library: KernelLibrary) -> None:
    chosen, shape = variant(KernelFamily.PREFILL, 128), AttentionShape(32, 8, 128, 1, 1)
    cost = prefill_cost(library, chosen, shape, V100_PESSIMISTIC)
    long, longer = (
        prefill_seconds(cost, chosen, AttentionShape(32, 8, 128, tokens, tokens)) for tokens in (16384, 32768)
    )
    assert 3.7 < longer / long < 4.1


def test_predicted_decode_never_beats_the_memory(library: KernelLibrary) -> None:
    chosen = variant(KernelFamily.DECODE, 256)
    shape = AttentionShape(24, 4, 256, 1, 32768)
    forecast = predict_decode(library, chosen, shape, 20, V100)
    assert shape.kv_bytes / forecast.seconds < V100.hbm_bytes_per_s
    assert forecast.seconds > predict_decode(library, chosen, AttentionShape(24, 4, 256, 1, 8192), 20, V100).seconds


def test_long_contexts_are_extrapolated_in_proportion(library: KernelLibrary) -> None:
    chosen = variant(KernelFamily.DECODE, 256)
    times = [
        predict_decode(library, chosen, AttentionShape(24, 4, 256, 1, tokens), 20, V100).seconds - V100.launch_s
        for tokens in (65536, 262144)
    ]
    assert math.isclose(times[1] / times[0], 4, rel_tol=0.1)


def test_merging_more_splits_takes_longer(library: KernelLibrary) -> None:
    chosen = variant(KernelFamily.MERGE, 256)
    few, many = (predict_merge(library, chosen, QWEN_27B, splits, V100).seconds for splits in (4, 64))
    assert V100.launch_s < few < many


def test_the_command_labels_its_numbers_as_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["predict", "decode", "--head-dim", "64", "--tokens", "1024", "--pessimistic", "--json"]
    assert cli.main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert "predicted" in document["label"]
    assert "nothing here was measured" in document["label"]
    rows = [PredictedRow(**row) for row in document["rows"]]
    assert {row.kernel for row in rows} >= {"decode_attention_d64_m8"}
    table = render(rows, show_limits=True)
    assert "predicted us" in table
    assert "nothing here was measured" in table
    assert "idle:" in table


def test_an_unknown_head_dim_or_constant_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", "decode", "--head-dim", "80"]) == 1
    assert "head dim 80" in capsys.readouterr().err
    assert cli.main(["predict", "--set", "fill_sixteenth=3"]) == 1
    assert "no constant fill_sixteenth" in capsys.readouterr().err


def test_a_missing_disassembler_names_the_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLASH2_NVDISASM", "/nonexistent/nvdisasm")
    assert cli.main(["predict", "decode", "--head-dim", "64"]) == 1
    assert "triton==3.6.0" in capsys.readouterr().err
