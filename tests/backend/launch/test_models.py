"""Model folders: only complete ones count, and their own files tell how the weights are stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.errors import LaunchError
from backend.launch.models import EMBEDDED, declared_quantization, find_model, list_models, read_model


def make(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "model.json").write_text(content)


def test_a_folder_without_its_record_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "model.safetensors").write_bytes(b"x")
    make(tmp_path / "whole", json.dumps({"name": "Tiny"}))
    assert [model.name for model in list_models(tmp_path)] == ["Tiny"]
    assert find_model(tmp_path, "Tiny").folder == tmp_path / "whole"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\x00"])
def test_a_broken_record_leaves_the_others(tmp_path: Path, content: str) -> None:
    make(tmp_path / "broken", content)
    make(tmp_path / "whole", json.dumps({"name": "Tiny"}))
    assert [model.name for model in list_models(tmp_path)] == ["Tiny"]


def test_an_absent_model_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"'Nope'.*choose another"):
        find_model(tmp_path, "Nope")
    with pytest.raises(LaunchError, match="make setup"):
        find_model(tmp_path, EMBEDDED)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ""),
        ({"quantization_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
        ({"quantization_config": {"quant_method": "AWQ"}}, "awq"),
        ({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, "fp8"),
        ({"compression_config": {"format": "pack-quantized"}}, "compressed-tensors"),
        ({"quantization_config": None, "text_config": "odd"}, ""),
    ],
)
def test_the_checkpoint_declares_its_quantization(tmp_path: Path, config: dict[str, Any], expected: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert declared_quantization(tmp_path) == expected


def test_a_modelopt_file_beside_the_config_declares_as_well(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "hf_quant_config.json").write_text("{}")
    assert declared_quantization(tmp_path) == "modelopt"


@pytest.mark.parametrize("content", [None, "", "[]", "{"])
def test_what_cannot_be_read_is_unknown_not_unquantized(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    model = read_model("m", tmp_path)
    assert (model.quantization, model.weight_bytes) == (None, None)


def test_the_size_is_that_of_the_weights(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"x" * 10)
    (tmp_path / "b.safetensors").write_bytes(b"x" * 5)
    (tmp_path / "tokenizer.json").write_bytes(b"x" * 99)
    assert read_model("m", tmp_path).weight_bytes == 15
    assert read_model("m", tmp_path / "gone").weight_bytes is None
