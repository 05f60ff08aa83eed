"""The shelf: broken files leave the others, shipped presets stay as they are, own ones are kept whole or not at all."""

import re
import threading
from pathlib import Path

import pytest

from backend.errors import PresetError
from backend.launch.preset_file import dump_preset, read_preset
from backend.launch.shelf import PresetStore, read_shelf, renamed
from tests.backend.launch.vllm_versions import SHIPPED

NAMES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))


@pytest.fixture
def store(tmp_path: Path) -> PresetStore:
    return PresetStore(SHIPPED, tmp_path / "own")


def named(text: str, name: str) -> str:
    return re.sub(r"(?m)^name: .*$", f"name: {name}", text)


def test_every_shipped_preset_is_valid_and_named_like_its_file() -> None:
    shelf = read_shelf(SHIPPED)
    assert shelf.problems == ()
    assert {preset.name for preset in shelf.presets} == set(NAMES) == shelf.shipped


def test_a_broken_preset_leaves_the_others(tmp_path: Path, preset_text: str) -> None:
    (tmp_path / "a.yaml").write_text("nonsense")
    (tmp_path / "b.yaml").write_text(preset_text)
    (tmp_path / "c.yaml").mkdir()
    shelf = read_shelf(tmp_path)
    assert [preset.name for preset in shelf.presets] == ["smollm2-135m-cpu"]
    assert len(shelf.problems) == 2
    assert "a.yaml" in shelf.problems[0]


def test_a_name_taken_by_a_shipped_preset_is_refused(tmp_path: Path, preset_text: str) -> None:
    (tmp_path / "copy.yaml").write_text(preset_text)
    assert "already taken" in read_shelf(SHIPPED, tmp_path).problems[0]


def test_asking_for_an_unknown_preset_names_the_known() -> None:
    with pytest.raises(PresetError, match="smollm2-135m-cpu"):
        read_shelf(SHIPPED).by_name("nope")


def test_what_is_saved_is_exported_as_it_was_written(store: PresetStore, preset_text: str) -> None:
    text = named(preset_text, "mine") + "# my own remark\n"
    assert store.save(text).name == "mine"
    assert store.export("mine") == text
    assert not store.read().is_shipped("mine")


def test_windows_line_ends_are_kept(store: PresetStore, preset_text: str) -> None:
    text = named(preset_text, "mine").replace("\n", "\r\n")
    store.save(text)
    assert store.read().by_name("mine").context == 2048


def test_an_edit_may_rename_and_leaves_one_file(store: PresetStore, preset_text: str, tmp_path: Path) -> None:
    store.save(named(preset_text, "mine"))
    store.save(named(preset_text, "yours"), replacing="mine")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["yours.yaml"]
    store.save(named(preset_text, "yours").replace("context: 2048", "context: 1024"), replacing="yours")
    assert store.read().by_name("yours").context == 1024


def test_a_file_by_another_name_is_replaced_by_its_edit(store: PresetStore, preset_text: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "by hand.yaml").write_text(named(preset_text, "mine"), encoding="utf-8")
    store.save(named(preset_text, "mine"), replacing="mine")
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["mine.yaml"]


def test_an_edit_does_not_overwrite_a_file_that_holds_another_preset(
    store: PresetStore, preset_text: str, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "x.yaml").write_text(named(preset_text, "mine"))
    (own / "mine.yaml").write_text(named(preset_text, "theirs"))
    with pytest.raises(PresetError, match="already taken"):
        store.save(named(preset_text, "mine"), replacing="mine")
    assert store.export("theirs") == named(preset_text, "theirs")


def test_names_in_use_are_refused(store: PresetStore, preset_text: str) -> None:
    store.save(named(preset_text, "mine"))
    store.save(named(preset_text, "yours"))
    for text, replacing in (
        (preset_text, None),
        (named(preset_text, "mine"), None),
        (named(preset_text, "mine"), "yours"),
    ):
        with pytest.raises(PresetError, match="another name"):
            store.save(text, replacing=replacing)


def test_shipped_presets_are_neither_edited_nor_deleted(store: PresetStore, preset_text: str) -> None:
    with pytest.raises(PresetError, match="copy"):
        store.save(named(preset_text, "mine"), replacing="smollm2-135m-cpu")
    with pytest.raises(PresetError, match="copy"):
        store.delete("smollm2-135m-cpu")
    with pytest.raises(PresetError, match="no preset"):
        store.delete("../smollm2-135m-cpu")


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_differs_in_name_and_title_only(store: PresetStore, name: str) -> None:
    first, second = store.copy(name), store.copy(name)
    original = store.read().by_name(name)
    assert (first.name, second.name) == (f"{name}-copy", f"{name}-copy-2")
    assert first.title.en == f"{original.title.en} (copy)"
    assert first.model_copy(update={"name": name, "title": original.title}) == original
    comments = [line for line in store.export(name).splitlines() if line.startswith("#")]
    assert [line for line in store.export(first.name).splitlines() if line.startswith("#")] == comments


def test_a_copy_of_a_copy_is_named_after_the_first(store: PresetStore) -> None:
    first = store.copy("smollm2-135m-cpu")
    assert store.copy(first.name).name == "smollm2-135m-cpu-copy-2"


@pytest.mark.parametrize(
    "title",
    ["title: {en: A, zh: 甲}", "title:\n  en: |\n    A\n  zh: >-\n    甲", "title: {\"en\": \"A\", 'zh': '甲'}"],
)
def test_titles_in_every_style_of_yaml_are_renamed(preset_text: str, title: str, tmp_path: Path) -> None:
    text = re.sub(r"(?m)^title:\n(  .*\n)+", f"{title}\n", preset_text)
    (tmp_path / "x.yaml").write_text(renamed(text, name="new"), encoding="utf-8")
    preset = read_preset(tmp_path / "x.yaml")
    assert (preset.name, preset.title.en.replace("\n", ""), preset.context) == ("new", "A (copy)", 2048)
    assert preset.title.zh == "甲（副本）"


def test_a_file_edited_by_hand_is_read_anew(store: PresetStore, preset_text: str, tmp_path: Path) -> None:
    store.save(named(preset_text, "mine"))
    path = tmp_path / "own" / "mine.yaml"
    assert store.read().by_name("mine").context == 2048
    path.write_text(named(preset_text, "mine").replace("context: 2048", "context: 512"), encoding="utf-8")
    assert store.read().by_name("mine").context == 512
    path.write_text("broken", encoding="utf-8")
    assert [problem.partition(" ")[0] for problem in store.read().problems] == ["mine.yaml"]


def test_a_deleted_preset_is_gone(store: PresetStore, preset_text: str, tmp_path: Path) -> None:
    store.save(named(preset_text, "mine"))
    store.delete("mine")
    assert list((tmp_path / "own").iterdir()) == []


def test_a_broken_text_is_not_kept(store: PresetStore, preset_text: str, tmp_path: Path) -> None:
    with pytest.raises(PresetError, match="contxt"):
        store.save(named(preset_text, "mine").replace("context", "contxt"))
    assert not (tmp_path / "own").exists()


def test_a_folder_that_cannot_be_written_is_a_preset_error(preset_text: str, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("a file")
    with pytest.raises(PresetError, match="cannot be written"):
        PresetStore(SHIPPED, tmp_path / "own").save(named(preset_text, "mine"))


def test_of_two_that_save_one_name_at_once_one_wins(store: PresetStore, preset_text: str) -> None:
    outcomes: list[str] = []

    def save() -> None:
        try:
            outcomes.append(store.save(named(preset_text, "mine")).name)
        except PresetError:
            outcomes.append("refused")

    threads = [threading.Thread(target=save) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(outcomes) == ["mine"] + ["refused"] * 7


def test_a_reader_never_finds_half_a_file(store: PresetStore, preset_text: str) -> None:
    short, long = named(preset_text, "mine"), named(preset_text, "mine") + "# remark\n" * 2000
    store.save(short)
    done = threading.Event()

    def write() -> None:
        for _ in range(20):
            store.save(long, replacing="mine")
            store.save(short, replacing="mine")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert store.export("mine") in (short, long)
    writer.join(timeout=30)


@pytest.mark.parametrize("name", NAMES)
def test_a_written_preset_reads_back_the_same(store: PresetStore, name: str) -> None:
    preset = store.read().by_name(name)
    again = store.save(named(dump_preset(preset), "again"))
    assert again.model_copy(update={"name": name}) == preset
