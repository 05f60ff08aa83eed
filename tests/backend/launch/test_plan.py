"""Planning: a preset becomes exactly one command, and the preview is that command without its secrets."""

import shlex
from pathlib import Path

import pytest
from pydantic import SecretStr

from backend.launch.models import LocalModel
from backend.launch.plan import EngineTools, LaunchSpec, Listen, plan
from backend.launch.preset import Preset
from backend.launch.shelf import read_shelf

ROOT = Path(__file__).parents[3]
MODEL = LocalModel("SmolLM2-135M-Instruct", Path("/models/with space"))
ALL_FLAGS = frozenset({"--enable-per-request-metrics", "--enable-prompt-tokens-details"})


@pytest.fixture
def preset() -> Preset:
    return read_shelf(ROOT / "presets").by_name("smollm2-135m-cpu")


def planned(preset: Preset, *, flags: frozenset[str] = ALL_FLAGS, key: str | None = None) -> LaunchSpec:
    tools = EngineTools(python=Path("/env/bin/python"), flags=flags)
    return plan(preset, MODEL, tools=tools, listen=Listen(port=8123, api_key=SecretStr(key) if key else None))


def option(spec: LaunchSpec, name: str) -> str:
    return spec.argv[spec.argv.index(name) + 1]


def test_the_command_says_what_the_preset_means(preset: Preset) -> None:
    spec = planned(preset)
    assert spec.argv[:4] == ("/env/bin/python", "-P", "-m", "vllm.entrypoints.openai.api_server")
    assert option(spec, "--model") == "/models/with space"
    assert option(spec, "--max-model-len") == "2048"
    assert option(spec, "--port") == "8123"
    assert option(spec, "--host") == "127.0.0.1"
    assert option(spec, "--block-size") == "32"
    assert "--enforce-eager" in spec.argv
    assert spec.env["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_metrics_flags_are_passed_only_where_the_probe_shows_them(preset: Preset) -> None:
    with_flags, without = planned(preset), planned(preset, flags=frozenset())
    assert with_flags.argv[-2:] == ("--enable-per-request-metrics", "--enable-prompt-tokens-details")
    assert with_flags.reports_request_metrics
    assert not any("metrics" in word or "details" in word for word in without.argv)
    assert not without.reports_request_metrics


def test_a_false_flag_becomes_its_no_form(preset: Preset) -> None:
    spec = planned(preset.model_copy(update={"flags": {"enable-prefix-caching": False, "seed": 7}}))
    assert "--no-enable-prefix-caching" in spec.argv
    assert option(spec, "--seed") == "7"


def test_the_preview_is_the_command_and_hides_the_key(preset: Preset) -> None:
    spec = planned(preset, key="sk-secret-123")
    assert spec.env["VLLM_API_KEY"] == "sk-secret-123"
    assert "sk-secret-123" not in spec.shell_line()
    words = shlex.split(spec.shell_line())
    assert tuple(words[len(spec.env) :]) == spec.argv


def test_the_key_is_not_in_argv_where_every_user_of_the_machine_reads_it(preset: Preset) -> None:
    assert not any("sk-secret" in word for word in planned(preset, key="sk-secret-123").argv)
