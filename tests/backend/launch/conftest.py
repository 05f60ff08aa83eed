"""The shipped presets."""

import pytest

from backend.launch.preset import Preset
from backend.launch.shelf import PresetShelf, read_shelf
from tests.backend.launch.vllm_versions import SHIPPED


@pytest.fixture(scope="session")
def shelf() -> PresetShelf:
    return read_shelf(SHIPPED)


@pytest.fixture
def preset_text() -> str:
    return (SHIPPED / "smollm2-135m-cpu.yaml").read_text(encoding="utf-8")


@pytest.fixture
def cpu_preset(shelf: PresetShelf) -> Preset:
    return shelf.by_name("smollm2-135m-cpu")


@pytest.fixture
def volta_preset(shelf: PresetShelf) -> Preset:
    return shelf.by_name("qwen3.8-27b-nvfp4-v100-4k")
