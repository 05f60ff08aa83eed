"""Model folders: only complete ones count."""

import json
from pathlib import Path

import pytest

from backend.errors import LaunchError
from backend.launch.models import find_model, list_models


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
    with pytest.raises(LaunchError, match=r"'Nope'.*make setup"):
        find_model(tmp_path, "Nope")
