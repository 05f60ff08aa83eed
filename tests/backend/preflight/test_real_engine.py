"""Held against the real CPU engine: an error is found exactly where its own start fails."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from backend.environment.abilities import engine_kinds
from backend.environment.environment import EngineEnvironment, find_environment
from backend.environment.probe import EnvironmentProbe, cached_probe, look_at
from backend.environment.views import EnvironmentView
from backend.errors import PanelError
from backend.fit.estimate import FitEstimate, estimate
from backend.fit.inverse import longest_context
from backend.fit.model_facts import read_model_facts
from backend.fit.preset_wish import wish_of_preset
from backend.fit.wish import CardMemory
from backend.gpu.snapshot import GpuView
from backend.host import read_host
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.models import LocalModel, list_models, read_model
from backend.launch.plan import Listen, plan
from backend.launch.preset import Preset
from backend.launch.shelf import read_shelf
from backend.preflight.collect import Surroundings, collect
from backend.preflight.examine import examine, worst
from backend.preflight.finding import Severity
from backend.preflight.situation import Situation
from backend.reading import Missing
from backend.state_folder import StateFolder, default_root
from tests.backend.launch.vllm_versions import SHIPPED
from tests.panel_process import free_port

pytestmark = pytest.mark.faults

START_TIMEOUT_S = 300.0
END_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Start:
    """One configuration of the embedded model; `rule` is the finding that is expected, "" where it starts."""

    name: str
    rule: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    damage: Callable[[Path], None] | None = None


def _replace(path: Path, content: bytes) -> None:
    path.unlink()  # a hard link: the real file stays whole
    path.write_bytes(content)


def _cut_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    _replace(weights, weights.read_bytes()[: 64 * 1024**2])


def _strange_class(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    _replace(folder / "config.json", json.dumps({**config, "architectures": ["ZephyrNineForCausalLM"]}).encode())


def _remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


STARTS = [
    Start("ok", ""),
    Start("context too long", "context_above_model", {"context": 8193}),
    Start("KV cache too small", "fit_context_too_long", {"context": 8192, "kv_cache_gib": 0.125}),
    Start("cut weights", "file_corrupt", damage=_cut_weights),
    Start("no tokenizer", "tokenizer_missing", damage=_remove_tokenizer),
    Start("unknown architecture", "model_class_unknown", damage=_strange_class),
]


@dataclass(frozen=True)
class Lab:
    """The prepared environment and model."""

    environment: EngineEnvironment
    probe: EnvironmentProbe
    model: LocalModel
    preset: Preset

    @property
    def tools(self) -> EngineTools:
        return EngineTools(
            kind=EngineKind.CPU,
            python=self.environment.python,
            environment=self.environment.id,
            flags=self.probe.flags,
            choices=self.probe.choices,
            vllm=self.probe.vllm,
            plugins=self.probe.plugins,
        )


@pytest.fixture(scope="module")
def lab() -> Lab:
    """What `make test` prepared."""
    folder = StateFolder(Path(os.environ.get("VOLTA_HOME") or default_root()))
    environment = find_environment(folder, "cpu")
    if environment is None:
        pytest.fail(f"No CPU engine is installed in {folder.root}. Run 'make dev' first.")
    preset = read_shelf(SHIPPED).by_name("smollm2-135m-cpu")
    model = next(model for model in list_models(folder.models) if model.name == preset.model.name)
    return Lab(environment, cached_probe(environment) or look_at(environment), model, preset)


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_an_error_is_found_exactly_where_the_engine_fails(lab: Lab, start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(lab.model.folder, folder, copy_function=_link)
    if start.damage is not None:
        start.damage(folder)
    values = {name: getattr(lab.preset, name) for name in Preset.model_fields}
    preset = Preset.model_validate({**values, **start.preset})
    model, port = read_model(lab.model.name, folder), free_port()
    findings = examine(_situation(lab, preset, model, port))
    errors = [finding.rule for finding in findings if finding.severity is Severity.ERROR]
    starts, log = _starts(lab, preset, model, port, tmp_path)
    assert starts is (start.rule == ""), log[-3000:]
    assert (worst(findings) is Severity.ERROR) is not starts, errors
    assert errors == ([start.rule] if start.rule else [])


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)


def _situation(lab: Lab, preset: Preset, model: LocalModel, port: int) -> Situation:
    host = read_host(lab.environment.folder)
    view = EnvironmentView(
        lab.environment, lab.probe, False, "", None, engine_kinds(lab.environment, lab.probe), missing=()
    )
    found: FitEstimate | None = None
    facts, error, longest = None, "", None
    total, used = host.memory_total_bytes, host.memory_used_bytes
    assert not isinstance(total, Missing) and not isinstance(used, Missing)
    try:
        facts = read_model_facts(model.folder)
        wish, memory = wish_of_preset(preset, version=lab.probe.vllm), CardMemory(total, used)
        found, longest = estimate(facts, wish, memory), longest_context(facts, wish, memory)
    except PanelError as err:
        error = str(err)
    return collect(
        preset,
        tools=lab.tools,
        model=model,
        facts=facts,
        chosen=(),
        adjustments=Adjustments(port=port),
        port=port,
        surroundings=Surroundings(GpuView(), host, (view,), "", None),
        estimate=found,
        estimate_error=error,
        longest_context=longest,
    )


def _starts(lab: Lab, preset: Preset, model: LocalModel, port: int, folder: Path) -> tuple[bool, str]:
    """Whether the engine becomes ready, and its log. It is ended either way, with everything it started."""
    spec = plan(preset, model, tools=lab.tools, listen=Listen(port))
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | dict(spec.env)
    path = folder / "engine.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            ("nice", *spec.argv),
            cwd="/",
            env=environ,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        return _becomes_ready(process, spec.base_url), path.read_text(errors="replace")
    finally:
        with contextlib.suppress(ProcessLookupError):  # all of it ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=END_TIMEOUT_S)


def _becomes_ready(process: subprocess.Popen[bytes], address: str) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)  # it does not listen yet
    pytest.fail(f"the engine neither became ready nor ended within {START_TIMEOUT_S:g} s")
