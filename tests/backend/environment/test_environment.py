"""Engine environments on disk: what their records tell, and what broken ones do not disturb."""

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backend.environment.environment import (
    EngineEnvironment,
    EnvironmentKind,
    EnvironmentState,
    Lack,
    LackKey,
    find_environment,
    list_environments,
    read_environment,
    write_environment,
    write_json,
)
from backend.state_folder import StateFolder
from tests.fakes.engine_folder import make_environment


@pytest.fixture
def state_folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    return folder


def test_record_comes_back_as_it_was_written(state_folder: StateFolder) -> None:
    written = replace(
        make_environment(state_folder.environments / "abcd2345", {}),
        versions={"vllm": "0.32.0", "torch": "2.13.0+cpu"},
        requirements_sha256="12ab",
        fingerprint="34cd",
        ready_at=1764576000.5,
    )
    write_environment(written)
    assert list_environments(state_folder) == (written,)


def test_nothing_there_is_an_empty_list(tmp_path: Path) -> None:
    assert list_environments(StateFolder(tmp_path / "nowhere")) == ()
    assert find_environment(StateFolder(tmp_path / "nowhere"), "cpu") is None


@pytest.mark.parametrize("state", [EnvironmentState.INSTALLING, EnvironmentState.FAILED])
def test_only_a_ready_environment_is_found(state_folder: StateFolder, state: EnvironmentState) -> None:
    make_environment(state_folder.environments / "half2345", {}, state=state)
    assert find_environment(state_folder, "cpu") is None
    ready = make_environment(state_folder.environments / "good2345", {})
    assert find_environment(state_folder, "cpu") == ready
    assert find_environment(state_folder, "v100") is None


def test_newest_of_several_ready_ones_is_found(state_folder: StateFolder) -> None:
    old, new = (make_environment(state_folder.environments / name, {}) for name in ("zold2345", "anew2345"))
    write_environment(replace(old, ready_at=1.0))
    found = find_environment(state_folder, "cpu")
    assert found is not None
    assert found.id == new.id


def test_ready_environment_whose_python_is_gone_is_broken(state_folder: StateFolder) -> None:
    environment = make_environment(state_folder.environments / "abcd2345", {})
    environment.python.unlink()
    broken = read_environment(environment.folder)
    assert broken.state is EnvironmentState.BROKEN
    assert str(environment.python) in broken.reason
    assert find_environment(state_folder, "cpu") is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"recipe": "cpu", "state": "flying"}', "\u0000"])
def test_broken_record_is_logged_and_hides_no_other(
    state_folder: StateFolder, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = make_environment(state_folder.environments / "good2345", {})
    bad = state_folder.environments / "aaaa2345"
    bad.mkdir()
    (bad / "environment.json").write_text(content)
    with caplog.at_level(logging.WARNING):
        assert list_environments(state_folder) == (good,)
    assert "aaaa2345" in caplog.text


def test_replacing_a_record_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"n": 1})
    write_json(path, {"n": 2})
    assert path.read_text() == '{\n  "n": 2\n}\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_paths_lie_in_its_folder() -> None:
    environment = EngineEnvironment("abcd2345", "cpu", Path("/s/environments/abcd2345"), EnvironmentState.READY)
    assert environment.python == Path("/s/environments/abcd2345/venv/bin/python")
    assert environment.install_log.parent == environment.probe_file.parent == environment.folder


def test_records_of_all_kinds_come_back(state_folder: StateFolder) -> None:
    kinds = (
        {"kind": EnvironmentKind.PYTHON, "external_python": Path(sys.executable)},
        {"kind": EnvironmentKind.DOCKER, "image": "vllm/vllm-openai:v0.19.1"},
        {"kind": EnvironmentKind.ADDRESS, "address": "http://10.0.0.5:8000"},
        {"missing": (Lack(LackKey.NO_CARD, "torch.cuda: no driver"),), "title": "the lab's", "recipe": "v100"},
    )
    for number, values in enumerate(kinds):
        folder = state_folder.environments / f"kind234{number}"
        folder.mkdir()
        plain = EngineEnvironment(folder.name, "", folder, EnvironmentState.READY, ready_at=1.0)
        written = replace(plain, **values)  # type: ignore[arg-type]
        write_environment(written)
        found = read_environment(folder)
        expected = written if written.kind is not EnvironmentKind.MANAGED else replace(written, state=found.state)
        assert replace(found, reason="") == expected


def test_record_of_an_earlier_release_is_one_that_we_installed(state_folder: StateFolder) -> None:
    folder = make_environment(state_folder.environments / "oldd2345", {}).folder
    old = {
        "recipe": "cpu", "state": "ready", "step": "", "reason": "", "fingerprint": "f", "ready_at": 1796125697.7,
        "requirements_sha256": "4411", "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "vllm": "0.32.0"},
    }  # fmt: skip
    (folder / "environment.json").write_text(json.dumps(old))
    environment = read_environment(folder)
    assert (environment.kind, environment.state) == (EnvironmentKind.MANAGED, EnvironmentState.READY)
    assert (environment.title, environment.missing, environment.external_python) == ("", (), None)
    assert environment.versions["vllm"] == "0.32.0"


@pytest.mark.parametrize(
    "values",
    [{"kind": "python"}, {"kind": "python", "external_python": "bin/python"}, {"kind": "docker"}, {"kind": "address"}],
)
def test_record_that_does_not_say_which_is_left_out(state_folder: StateFolder, values: dict[str, str]) -> None:
    folder = state_folder.environments / "half2345"
    folder.mkdir()
    (folder / "environment.json").write_text(json.dumps({"recipe": "", "state": "ready", **values}))
    assert list_environments(state_folder) == ()


def test_image_has_no_python_here() -> None:
    image = EngineEnvironment("i", "", Path("/e/i"), EnvironmentState.READY, kind=EnvironmentKind.DOCKER, image="a:1")
    with pytest.raises(LookupError):
        _ = image.python
