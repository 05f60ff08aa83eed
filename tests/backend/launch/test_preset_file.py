"""Presets: the shipped ones are valid, and each mistake is named with its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import PresetError
from backend.launch.preset_file import read_preset
from backend.launch.shelf import read_shelf

SHIPPED = Path(__file__).parents[3] / "presets"


@pytest.fixture
def preset_text() -> str:
    return (SHIPPED / "smollm2-135m-cpu.yaml").read_text(encoding="utf-8")


def broken(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PresetError) as caught:
        read_preset(path)
    return str(caught.value)


def test_every_shipped_preset_is_valid_and_named_like_its_file() -> None:
    shelf = read_shelf(SHIPPED)
    assert shelf.problems == ()
    assert {preset.name for preset in shelf.presets} == {path.stem for path in SHIPPED.glob("*.yaml")}


def test_unknown_key_names_file_line_key_and_the_nearest_known_one(tmp_path: Path, preset_text: str) -> None:
    line = preset_text.splitlines().index("context: 2048") + 1
    message = broken(tmp_path, preset_text.replace("context: 2048", "contxt: 2048"))
    assert message == f"mine.yaml, line {line}: contxt is not a known key. Did you mean 'context'?"


def test_unknown_nested_key_is_named_with_its_path(tmp_path: Path, preset_text: str) -> None:
    message = broken(tmp_path, preset_text.replace("  zh: SmolLM2", "  zhh: SmolLM2"))
    assert "title.zhh is not a known key. Did you mean 'zh'?" in message


def test_wrong_value_is_shown(tmp_path: Path, preset_text: str) -> None:
    message = broken(tmp_path, preset_text.replace("context: 2048", "context: lots"))
    assert "context = 'lots'" in message


def test_missing_key_is_named(tmp_path: Path, preset_text: str) -> None:
    assert "served_name is missing" in broken(tmp_path, preset_text.replace("served_name: smollm2-135m\n", ""))


def test_repeated_key_is_refused(tmp_path: Path, preset_text: str) -> None:
    assert "context is there twice" in broken(tmp_path, preset_text + "context: 4096\n")


@pytest.mark.parametrize("text", ["", "- a", "a: [", "\t", "&a [*a]", "!!python/object:os.system x"])
def test_garbage_is_a_preset_error(tmp_path: Path, text: str) -> None:
    assert "mine.yaml" in broken(tmp_path, text)


def test_huge_file_is_refused_unread(tmp_path: Path) -> None:
    assert "larger than 64 KiB" in broken(tmp_path, "#" * 100_000)


@given(st.text(max_size=200))
def test_no_text_makes_it_crash(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("presets") / "mine.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(PresetError):
        read_preset(path)


def test_a_broken_preset_leaves_the_others(tmp_path: Path, preset_text: str) -> None:
    (tmp_path / "a.yaml").write_text("nonsense")
    (tmp_path / "b.yaml").write_text(preset_text)
    shelf = read_shelf(tmp_path)
    assert [preset.name for preset in shelf.presets] == ["smollm2-135m-cpu"]
    assert len(shelf.problems) == 1
    assert "a.yaml" in shelf.problems[0]


def test_a_name_taken_by_a_shipped_preset_is_refused(tmp_path: Path, preset_text: str) -> None:
    (tmp_path / "copy.yaml").write_text(preset_text)
    shelf = read_shelf(SHIPPED, tmp_path)
    assert "already taken" in shelf.problems[0]


def test_asking_for_an_unknown_preset_names_the_known() -> None:
    with pytest.raises(PresetError, match="smollm2-135m-cpu"):
        read_shelf(SHIPPED).by_name("nope")
