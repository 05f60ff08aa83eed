"""The shipped presets: each says where its model is, and its sum of memory adds up with its own numbers."""

import re
from pathlib import Path

import pytest

from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Preset
from backend.launch.preset_file import read_preset

SHIPPED = Path(__file__).parents[3] / "presets"
ON_CARDS = sorted(path for path in SHIPPED.glob("*.yaml") if "engine: cpu" not in path.read_text(encoding="utf-8"))
NUMBER = r"(\d+\.\d\d)"


def number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    assert match, pattern
    return float(match[1].replace(",", ""))


def test_every_file_is_named_like_its_preset() -> None:
    for path in SHIPPED.glob("*.yaml"):
        assert read_preset(path).name == path.stem


@pytest.mark.parametrize("path", ON_CARDS, ids=lambda path: path.stem)
def test_the_sum_of_memory_adds_up_and_is_of_this_preset(path: Path) -> None:
    text, preset = path.read_text(encoding="utf-8"), read_preset(path)
    visible, share = number(rf"#\s+{NUMBER} x", text), number(rf"x {NUMBER}\s+=", text)
    asked, weights = number(rf"=\s+{NUMBER}\s+asked for", text), number(rf"-\s+{NUMBER}\s+weights", text)
    estimate, left = number(rf"-\s+{NUMBER}\s+estimate", text), number(rf"=\s+{NUMBER}\s+for the KV cache", text)
    assert preset.card is not None
    assert 0.9 * preset.card.memory_gib < visible < preset.card.memory_gib
    assert share == preset.memory_utilization
    assert asked == pytest.approx(visible * share, abs=0.01)
    assert left == pytest.approx(asked - weights - estimate, abs=0.02)
    assert number(r"a step of ([\d,]+) tokens", text) == preset.max_batched_tokens
    assert number(r"request of ([\d,]+) tokens", text) == preset.context
    assert needed(text, preset) <= left


def needed(text: str, preset: Preset) -> float:
    """GiB a card for the requests that may run at once, from the comment."""
    one = number(rf": {NUMBER}(?:;|\n)", text)
    if preset.max_sequences == 1:
        return one
    assert number(r"; (\d+) of them", text) == preset.max_sequences
    total = number(rf"of them: {NUMBER}", text)
    assert total == pytest.approx(one * (preset.max_sequences or 0), abs=0.05)
    return total


@pytest.mark.parametrize("path", ON_CARDS, ids=lambda path: path.stem)
def test_a_v100_preset_asks_for_what_a_v100_can(path: Path) -> None:
    preset = read_preset(path)
    assert preset.card is not None
    is_volta = preset.card.version == (7, 0)
    assert (preset.engine is EngineKind.VOLTA) == is_volta
    assert (preset.attention_backend == "dflash2") == is_volta
    if is_volta:
        assert preset.dtype == "float16"
        assert preset.kv_cache_dtype is None


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_summary_is_one_sentence_or_two_in_each_language_and_claims_no_speed(path: Path) -> None:
    preset = read_preset(path)
    assert len(preset.summary.en) < 200
    assert len(preset.summary.zh) < 100
    assert not re.search(r"tok/s|tokens? (a|per) second|x faster|倍", preset.summary.en + preset.summary.zh)
