"""Previews of a planned command: which there are, what they say, and what they never say."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backend.errors import LaunchError
from backend.failure.failure import LaunchContext
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.models import LocalModel
from backend.launch.plan import GpuChoice, LaunchSpec, Listen, plan
from backend.launch.preset import Preset
from backend.preview.container import in_container
from backend.preview.previews import PreviewKind, docker_compose, docker_run, previews, shell_line, systemd_unit
from tests.backend.launch.vllm_versions import VERSIONS, tools_of
from tests.backend.preview.preview_readers import (
    Run,
    read_compose_file,
    read_docker_words,
    read_unit,
    run_words_in_bash,
)

IMAGE = "vllm/vllm-openai:v0.32.0"
MODEL = LocalModel("Qwen", Path("/models/with space, $HOME"), weight_bytes=1)
FIRST, SECOND = GpuChoice("GPU-1111", 1), GpuChoice("GPU-3333", 3)
KEY = "sk-secret-123"
EXPORTED = {"VLLM_API_KEY": KEY}


def planned(preset: Preset, *, image: str | None = None, version: str = "0.32.0", **options: Any) -> LaunchSpec:
    tools = tools_of(version, preset.engine)
    if image:
        tools = replace(tools, python=None, image=image)
    return plan(preset, MODEL, **{"tools": tools, "listen": Listen(8123, api_key=SecretStr(KEY)), **options})


def docker_read(spec: LaunchSpec, image: str | None = IMAGE, exported: Mapping[str, str] = EXPORTED) -> Run:
    line = docker_run(spec, image)
    env = {**exported, **{name: value for name, value in spec.env.items() if name not in exported}}
    return read_docker_words(run_words_in_bash(line.replace("/usr/bin/docker run", "docker run"), exported), env)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_form_is_there_and_none_holds_the_key(volta_preset: Preset, version: str) -> None:
    shown = previews(planned(volta_preset, version=version, gpus=(FIRST,)), image=IMAGE)
    assert [preview.kind for preview in shown] == list(PreviewKind)
    assert [preview.title for preview in shown] == [
        "preview.shell",
        "preview.docker",
        "preview.compose",
        "preview.systemd",
    ]
    for preview in shown:
        assert not preview.is_refused
        assert KEY not in preview.text
        comments = [line for line in preview.text.split("\n") if line.startswith("#")]
        assert any("VLLM_API_KEY" in comment for comment in comments)


def test_without_a_secret_nothing_is_asked_for(cpu_preset: Preset) -> None:
    spec = planned(cpu_preset, listen=Listen(8123))
    assert shell_line(spec) == spec.shell_line() + "\n"
    assert not any("export" in preview.text or "EnvironmentFile" in preview.text for preview in previews(spec))


def test_a_command_that_is_turned_into_a_container_is_what_planning_says_of_the_image(volta_preset: Preset) -> None:
    options: dict[str, Any] = {"gpus": (FIRST, SECOND), "adjustments": Adjustments(gpus=2)}
    turned = docker_read(planned(volta_preset, **options))
    own = docker_read(planned(volta_preset, image=IMAGE, **options))
    assert turned == own
    assert turned.cards == ["GPU-1111", "GPU-3333"]
    assert turned.ports == [("127.0.0.1", 8123, 8123)]
    assert turned.mounts == [(str(MODEL.folder), "/model")]
    assert "CUDA_VISIBLE_DEVICES" not in turned.env


def test_the_same_holds_for_a_second_model_that_guesses(volta_preset: Preset) -> None:
    values = {name: getattr(volta_preset, name) for name in Preset.model_fields}
    preset = Preset.model_validate({**values, "speculation": {"method": "eagle3", "tokens": 2, "model": "Draft"}})
    draft = LocalModel("Draft", Path("/models/draft"))
    turned = docker_read(planned(preset, draft=draft, gpus=(FIRST,)))
    assert turned == docker_read(planned(preset, image=IMAGE, draft=draft, gpus=(FIRST,)))
    assert turned.mounts == [(str(MODEL.folder), "/model"), ("/models/draft", "/draft-model")]
    assert '"model": "/draft-model"' in " ".join(turned.command)


def test_cards_that_nobody_chose_are_counted(volta_preset: Preset, cpu_preset: Preset) -> None:
    spec = planned(volta_preset, adjustments=Adjustments(gpus=2))
    for read in (docker_read(spec), read_compose_file(docker_compose(spec, IMAGE), EXPORTED)):
        assert (read.cards, read.card_count) == ([], 2)
    assert docker_read(planned(cpu_preset)).card_count == 0
    assert "deploy" not in docker_compose(planned(cpu_preset), IMAGE)


def test_a_docker_command_shows_itself_whatever_the_image(volta_preset: Preset) -> None:
    spec = planned(volta_preset, image="my/own:1", gpus=(FIRST,))
    shown = {preview.kind: preview.text for preview in previews(spec, image=IMAGE)}
    assert set(shown) == {PreviewKind.DOCKER, PreviewKind.COMPOSE, PreviewKind.SYSTEMD}
    assert shown[PreviewKind.DOCKER].endswith(spec.shell_line() + "\n")
    run, compose = docker_read(spec), read_compose_file(shown[PreviewKind.COMPOSE], EXPORTED)
    assert run == compose
    assert (run.image, run.env["VLLM_API_KEY"]) == ("my/own:1", KEY)
    unit = read_unit(shown[PreviewKind.SYSTEMD])
    assert tuple(unit.command(EXPORTED)) == spec.argv
    assert tuple(unit.command(EXPORTED, "ExecStopPost")) == spec.cleanup


def test_a_file_that_a_flag_names_is_seen_inside_at_its_place(volta_preset: Preset) -> None:
    spec = planned(volta_preset)
    spec = replace(spec, argv=(*spec.argv, "--chat-template", "/t/chat.jinja", "--tokenizer", str(MODEL.folder)))
    run = docker_read(spec)
    assert ("/t/chat.jinja", "/t/chat.jinja") in run.mounts
    assert run.command[-3:] == ["/t/chat.jinja", "--tokenizer", "/model"]


def test_an_address_of_version_6_is_published_in_brackets(volta_preset: Preset) -> None:
    assert docker_read(planned(volta_preset, listen=Listen(8123, host="::1"))).ports == [("::1", 8123, 8123)]


def test_without_an_image_the_containers_are_refused_with_a_reason(volta_preset: Preset) -> None:
    shown = {preview.kind: preview for preview in previews(planned(volta_preset), image=None)}
    assert {kind for kind, preview in shown.items() if preview.is_refused} == {PreviewKind.DOCKER, PreviewKind.COMPOSE}
    assert shown[PreviewKind.DOCKER].text == "# No docker image is known that does the same as this environment.\n"


def test_a_command_that_is_no_vllm_server_has_no_container() -> None:
    spec = LaunchSpec(title="Own", preset="own", argv=("/bin/server", "--port", "1"), port=1)
    with pytest.raises(LaunchError, match="Own is no vLLM server"):
        in_container(spec, IMAGE)
    assert [preview.is_refused for preview in previews(spec, image=IMAGE)] == [False, True, True, False]


# secrets


def secretive(**env: str) -> LaunchSpec:
    words = ("/bin/engine", "--header", f"Bearer {KEY}!", "--port", "8000")
    return LaunchSpec(
        title=f"with {KEY}", preset="x", argv=words, env=env, port=8000, secrets=frozenset({KEY}), kind=EngineKind.CPU
    )


def test_a_secret_inside_another_text_becomes_its_variable() -> None:
    spec = secretive(VLLM_API_KEY=KEY, OTHER=f"a {KEY} b", HF_TOKEN="hf_0123456789", PROXY="http://me:pw@host:1")
    line, unit = shell_line(spec), systemd_unit(spec)
    for text in (line, unit):
        assert not any(secret in text for secret in (KEY, "hf_0123", "me:pw"))
    assert line.startswith("# Set it first, it is a secret: export HF_TOKEN PROXY VLLM_API_KEY\n")
    assert shlex.split(line.split("\n")[1])[-3] == "Bearer ${VLLM_API_KEY:?}!"
    # an Environment= line can refer to no other variable, so the whole of OTHER comes from the file
    assert "HF_TOKEN=…, OTHER=…, PROXY=…, VLLM_API_KEY=…" in unit
    assert read_unit(unit).env() == {}
    assert "Description=with <VLLM_API_KEY>" in unit


def test_a_secret_that_no_variable_holds_gets_a_name() -> None:
    assert '"${SECRET:?}"' in shell_line(secretive())
    assert "export SECRET\n" in shell_line(secretive())
    assert '"${SECRET_:?}"' in shell_line(secretive(SECRET="other-value"))


def test_a_short_key_is_not_found_in_every_number() -> None:
    spec = replace(secretive(VLLM_API_KEY="8"), secrets=frozenset({"8"}))
    assert "--port 8000" in shell_line(spec)
    assert 'VLLM_API_KEY="${VLLM_API_KEY:?}"' in shell_line(spec)


def test_words_that_only_sound_secret_are_shown() -> None:
    spec = secretive(TOKENIZERS_PARALLELISM="false", HF_TOKEN="")
    assert "TOKENIZERS_PARALLELISM=false" in shell_line(spec)
    assert "HF_TOKEN=''" in shell_line(spec)


# what a form cannot hold


def test_a_working_folder_is_entered_first() -> None:
    spec = replace(secretive(), cwd="/with space/100%")
    assert spec.shell_line().startswith("cd '/with space/100%' && ")
    assert "WorkingDirectory=/with space/100%%\n" in systemd_unit(spec)
    with pytest.raises(LaunchError, match="working folder"):
        systemd_unit(replace(spec, cwd="/ends with\\"))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_program_can_be_given_is_refused_by_every_form(text: str, volta_preset: Preset) -> None:
    spec = planned(volta_preset)
    for broken in (replace(spec, argv=(*spec.argv, text)), replace(spec, env={**spec.env, "A": text})):
        assert all(preview.is_refused for preview in previews(broken, image=IMAGE))


def test_a_name_of_a_byte_that_is_no_character_is_for_the_shell_only(volta_preset: Preset) -> None:
    spec = planned(volta_preset)
    shown = previews(replace(spec, argv=(*spec.argv, "/m/\udcff")), image=IMAGE)
    assert [preview.is_refused for preview in shown] == [False, False, True, True]
    assert shown[0].text.endswith(" $'/m/\\377'\n")


def test_a_variable_without_a_proper_name_is_refused() -> None:
    with pytest.raises(LaunchError, match="A;rm"):
        shell_line(secretive(**{"A;rm": "1"}))


def test_systemd_is_given_no_program_that_it_cannot_start() -> None:
    for program in ("engine", "/a$b/engine"):
        with pytest.raises(LaunchError, match="systemd starts no program"):
            systemd_unit(replace(secretive(), argv=(program,)))


def test_systemd_would_drop_a_variable_with_a_control_character() -> None:
    with pytest.raises(LaunchError, match="value of A"):
        systemd_unit(secretive(A="\x1b[31m"))


def test_a_docker_option_that_is_not_ours_is_not_left_out_in_silence() -> None:
    spec = LaunchSpec(title="T", preset="p", argv=("/usr/bin/docker", "run", "--privileged", "i"), port=1)
    with pytest.raises(LaunchError, match="--privileged"):
        docker_compose(spec, None)
    assert LaunchContext() == spec.context
