"""Planning: a preset becomes exactly one command, and the preview is that command without its secrets."""

import csv
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter

from backend.errors import LaunchError
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.models import LocalModel
from backend.launch.notes import Note
from backend.launch.plan import EngineTools, GpuChoice, LaunchSpec, Listen, plan
from backend.launch.preset import Preset
from backend.launch.spelling_error import SpellingError
from tests.backend.launch.vllm_versions import VERSIONS, tools_of

MODEL = LocalModel("SmolLM2-135M-Instruct", Path("/models/with space"), weight_bytes=269_062_936)
ALL_FLAGS = frozenset({"--enable-per-request-metrics", "--enable-prompt-tokens-details", "--block-size", "--seed"})
INTENT = frozenset({"--dtype", "--max-model-len", "--enforce-eager", "--enable-prefix-caching"})
FIRST, SECOND = GpuChoice("GPU-1111", 1), GpuChoice("GPU-3333", 3)


def planned(preset: Preset, *, key: str | None = None, **options: Any) -> LaunchSpec:
    tools = EngineTools(EngineKind.CPU, python=Path("/env/bin/python"), flags=ALL_FLAGS | INTENT, environment="abc")
    listen = Listen(port=8123, api_key=SecretStr(key) if key else None)
    return plan(preset, MODEL, **{"tools": tools, "listen": listen, **options})


def option(spec: LaunchSpec, name: str) -> str:
    return spec.argv[spec.argv.index(name) + 1]


def test_the_command_says_what_the_preset_means(cpu_preset: Preset) -> None:
    spec = planned(cpu_preset)
    assert spec.argv[:4] == ("/env/bin/python", "-P", "-m", "vllm.entrypoints.openai.api_server")
    assert option(spec, "--model") == "/models/with space"
    assert option(spec, "--max-model-len") == "2048"
    assert option(spec, "--port") == "8123"
    assert option(spec, "--host") == "127.0.0.1"
    assert option(spec, "--block-size") == "32"
    assert "--enforce-eager" in spec.argv
    assert spec.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert (spec.environment, spec.kind, spec.model_bytes) == ("abc", EngineKind.CPU, 269_062_936)


def test_metrics_flags_are_passed_only_where_the_probe_shows_them(cpu_preset: Preset) -> None:
    unprobed = EngineTools(EngineKind.CPU, python=Path("/env/bin/python"))
    with_flags, without = planned(cpu_preset), planned(cpu_preset, tools=unprobed)
    assert with_flags.argv[-2:] == ("--enable-per-request-metrics", "--enable-prompt-tokens-details")
    assert with_flags.reports_request_metrics
    assert not any("metrics" in word or "details" in word for word in without.argv)
    assert not without.reports_request_metrics


def test_the_preview_is_the_command_and_hides_the_key(cpu_preset: Preset) -> None:
    spec = planned(cpu_preset, key="sk-secret-123")
    assert spec.env["VLLM_API_KEY"] == "sk-secret-123"
    assert "sk-secret-123" not in spec.shell_line()
    words = shlex.split(spec.shell_line())
    assert tuple(words[len(spec.env) :]) == spec.argv


def test_the_key_is_not_in_argv_where_every_user_of_the_machine_reads_it(cpu_preset: Preset) -> None:
    assert not any("sk-secret" in word for word in planned(cpu_preset, key="sk-secret-123").argv)


def test_a_change_for_one_launch_is_in_the_command_and_kept_with_it(cpu_preset: Preset) -> None:
    changes = Adjustments(context=896, port=8200)
    spec = planned(cpu_preset, adjustments=changes)
    assert (option(spec, "--max-model-len"), option(spec, "--port")) == ("896", "8200")
    assert (spec.adjustments, spec.port, spec.base_url) == (changes, 8200, "http://127.0.0.1:8200")
    assert (spec.context.context, spec.context.port, spec.max_model_len) == (896, 8200, 896)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.19.1", {"CUDA_VISIBLE_DEVICES": "1,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ("0.23.0", {"CUDA_VISIBLE_DEVICES": "1,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ("0.32.0", {"CUDA_VISIBLE_DEVICES": "GPU-1111,GPU-3333"}),
    ],
)
def test_cards_are_named_as_the_version_understands(
    volta_preset: Preset, version: str, expected: dict[str, str]
) -> None:
    tools = tools_of(version, EngineKind.VOLTA)
    spec = planned(volta_preset, tools=tools, gpus=(FIRST, SECOND), adjustments=Adjustments(gpus=2))
    assert {name: value for name, value in spec.env.items() if name.startswith("CUDA")} == expected
    assert spec.gpus == ("GPU-1111", "GPU-3333")
    assert option(spec, "--tensor-parallel-size") == "2"


def test_a_card_without_a_number_is_refused_where_only_numbers_are_understood(volta_preset: Preset) -> None:
    tools = tools_of("0.19.1", EngineKind.VOLTA)
    with pytest.raises(SpellingError, match="MIG-1"):
        planned(volta_preset, tools=tools, gpus=(GpuChoice("MIG-1"),))


def test_another_number_of_cards_than_the_preset_splits_over_is_refused(volta_preset: Preset) -> None:
    with pytest.raises(LaunchError, match="needs 1 cards, not 2"):
        planned(volta_preset, tools=tools_of("0.19.1", EngineKind.VOLTA), gpus=(FIRST, SECOND))


def test_an_environment_without_a_program_is_refused(cpu_preset: Preset) -> None:
    with pytest.raises(LaunchError, match="neither a Python nor an image"):
        planned(cpu_preset, tools=EngineTools(EngineKind.CPU))


# docker


def in_docker(preset: Preset, **options: Any) -> LaunchSpec:
    tools = replace(tools_of("0.32.0", preset.engine), python=None, image="vllm/vllm-openai:v0.32.0")
    return planned(preset, tools=tools, **options)


def test_a_container_shows_its_port_on_the_panels_address_only(volta_preset: Preset) -> None:
    spec = in_docker(volta_preset, key="sk-secret-123", gpus=(FIRST,))
    assert spec.argv[:3] == ("/usr/bin/docker", "run", "--rm")
    assert option(spec, "--publish") == "127.0.0.1:8123:8123"
    assert option(spec, "--host") == "0.0.0.0"
    assert "--network" not in spec.argv
    assert (spec.host, spec.base_url) == ("127.0.0.1", "http://127.0.0.1:8123")


def test_a_container_gets_variables_by_name_and_no_secret_in_its_command(volta_preset: Preset) -> None:
    spec = in_docker(volta_preset, key="sk-secret-123")
    names = [spec.argv[place + 1] for place, word in enumerate(spec.argv) if word == "--env"]
    assert set(names) == set(spec.env)
    assert not any("sk-secret" in word for word in spec.argv)
    assert "sk-secret" not in spec.shell_line()


def test_a_container_sees_its_cards_by_uuid_and_the_model_read_only(volta_preset: Preset) -> None:
    spec = in_docker(volta_preset, gpus=(FIRST, SECOND), adjustments=Adjustments(gpus=2))
    assert option(spec, "--gpus") == '"device=GPU-1111,GPU-3333"'
    assert "CUDA_VISIBLE_DEVICES" not in spec.env
    assert option(spec, "--mount") == "type=bind,source=/models/with space,target=/model,readonly"
    assert option(spec, "--model") == "/model"


def test_a_folder_with_a_comma_is_one_field_of_the_mount(volta_preset: Preset) -> None:
    tools = replace(tools_of("0.32.0", EngineKind.VOLTA), python=None, image="i")
    model = LocalModel("m", Path('/a,b:"c'))
    spec = plan(volta_preset, model, tools=tools, listen=Listen(8123))
    fields = next(csv.reader([option(spec, "--mount")]))
    assert fields == ["type=bind", 'source=/a,b:"c', "target=/model", "readonly"]


def test_a_container_is_removed_by_the_name_it_was_given(volta_preset: Preset) -> None:
    spec = in_docker(volta_preset)
    assert spec.cleanup == ("/usr/bin/docker", "rm", "--force", option(spec, "--name"))
    assert planned(volta_preset, tools=tools_of("0.32.0", EngineKind.VOLTA)).cleanup == ()


def test_a_container_without_a_card_asks_for_none(cpu_preset: Preset) -> None:
    assert "--gpus" not in in_docker(cpu_preset).argv
    assert option(in_docker(cpu_preset.model_copy()), "--model") == "/model"


def test_the_second_model_is_mounted_beside_the_first(volta_preset: Preset) -> None:
    values = {name: getattr(volta_preset, name) for name in Preset.model_fields}
    preset = Preset.model_validate({**values, "speculation": {"method": "eagle3", "tokens": 2, "model": "Draft"}})
    spec = in_docker(preset, draft=LocalModel("Draft", Path("/models/draft")))
    assert "type=bind,source=/models/draft,target=/draft-model,readonly" in spec.argv
    assert '"model": "/draft-model"' in option(spec, "--speculative-config")


# records


@pytest.mark.parametrize("version", VERSIONS)
def test_a_spec_reads_back_from_its_record(volta_preset: Preset, version: str) -> None:
    adapter = TypeAdapter(LaunchSpec)
    spec = planned(volta_preset, tools=tools_of(version, EngineKind.VOLTA), gpus=(FIRST,), key="k")
    assert spec.notes
    assert adapter.validate_json(adapter.dump_json(spec)) == spec


def test_a_record_of_an_earlier_panel_reads_with_defaults() -> None:
    older = '{"title": "T", "preset": "p", "argv": ["/x"], "port": 8100, "ready_timeout_s": 77.0}'
    spec = TypeAdapter(LaunchSpec).validate_json(older)
    assert (spec.kind, spec.cleanup, spec.notes, spec.ready_timeout_s) == (None, (), (), 77.0)
    assert Note("no_effect") not in spec.notes
