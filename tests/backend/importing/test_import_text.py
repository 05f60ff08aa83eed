"""A pasted text is told apart by what it is, not by what a person says it is."""

from pathlib import Path

import pytest

from backend.errors import PresetError
from backend.importing.text import MAX_CHARACTERS, read_import

PRESETS = Path(__file__).parents[3] / "presets"


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_exported_preset_comes_back_as_itself(path: Path) -> None:
    understood = read_import(path.read_text(encoding="utf-8"))
    assert understood.preset.name == path.stem
    assert understood.notes == ()


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 4096", 4096),
        ("docker run --gpus all vllm/vllm-openai:v0.19.1 --model Qwen/Qwen3-8B --max-model-len 4096", 4096),
        ("--model Qwen/Qwen3-8B --max-model-len 4096", 4096),
        ("MODEL=Qwen/Qwen3-8B\nMAX_MODEL_LEN=4096\n", 4096),
        ("model: Qwen/Qwen3-8B\nmax-model-len: 4096\n", 4096),
    ],
)
def test_commands_and_settings_become_presets(text: str, context: int) -> None:
    assert read_import(text).preset.context == context


@pytest.mark.parametrize(
    "text", ["", "  \n", "x" * (MAX_CHARACTERS + 1), "hello there", "[1, 2", "name: x\ntitle: y\n"]
)
def test_anything_else_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(PresetError) as caught:
        read_import(text)
    assert str(caught.value)
