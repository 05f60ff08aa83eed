"""The probe: what an engine says of itself, asked of real child processes; and the help text of argparse."""

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies

from backend.environment.environment import EngineEnvironment, find_environment
from backend.environment.probe import cached_probe, parse_help, probe_environment
from backend.errors import SetupError
from backend.state_folder import StateFolder, default_root
from tests.fakes.engine_folder import distribution, make_environment, stub_engine

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
    with pytest.raises(SetupError, match="cannot be started"):
        probe_environment(environment)


def test_engine_that_knows_no_help_of_all_groups_is_asked_for_the_plain_one(tmp_path: Path) -> None:
    server = stub_engine()["vllm/entrypoints/openai/api_server.py"].replace("--help=all", "--never")
    probe = probe_environment(make_environment(tmp_path / "abcd2345", stub_engine(server=server)))
    assert probe.supports("--dtype")


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
