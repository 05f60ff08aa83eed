"""Each preview read back by somebody else's reader is the spec: same words, same variables, same port, same folders."""

import json
import re
import shutil
import string
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.errors import LaunchError
from backend.failure.failure import LaunchContext
from backend.launch.container import SERVER_MODULE
from backend.launch.engine_kind import EngineKind
from backend.launch.plan import LaunchSpec
from backend.preview.previews import docker_compose, docker_run, previews, shell_line, systemd_unit
from tests.backend.preview.preview_readers import (
    DUMPER,
    NotingDaemon,
    Run,
    compose_program,
    noting_daemon,
    read_compose_file,
    read_docker_words,
    read_service,
    read_unit,
    run_in_bash,
    run_words_in_bash,
    systemd_reads,
    systemd_words,
)

IMAGE = "vllm/vllm-openai:v0.32.0"
SECRET = "s3cret 'value' $x"
EXPORTED = {"VLLM_API_KEY": SECRET}
NASTY = " '\"$%\\`{}[]()!#&;|<>*?~=:,@^-\n\tn0x7é中😀\u2028"

texts = st.text(
    st.sampled_from(NASTY) | st.characters(exclude_categories=("Cs",), exclude_characters="\0\x01\x7f"), max_size=12
)
printable = st.text(st.sampled_from(NASTY) | st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
names = st.text(string.ascii_uppercase, min_size=1, max_size=4).map("NV_".__add__)
folders = st.text(st.sampled_from(NASTY.replace("\n", "")), max_size=8).map(lambda text: f"/models/m{text}m")
fixed = [
    "%h %% %n $HOME ${HOME} $$ $(id) `id`",
    'a "quoted" \\"word\\" \\n',
    "two\nlines\ttab",
    ";",
    "#no comment",
    "",
    "~",
    "1e3",
    "no",
    "0o17",
    "!!str x",
    "- x",
    "{a: b}",
    f"Bearer {SECRET}.",
]


def server_spec(words: list[str], env: dict[str, str], folder: str = "/models/m", cards: int = 0) -> LaunchSpec:
    """A spec as planned for a Python environment, with these words and variables beside its own."""
    config = json.dumps({"method": "eagle3", "model": folder + "-draft", "x": "".join(words)})
    return LaunchSpec(
        title="100% nasty\ntitle",
        preset="p.q",
        argv=(
            *("/env/bin/python", "-P", "-m", SERVER_MODULE, "--model", folder, "--host", "127.0.0.1"),
            *("--port", "8123", "--speculative-config", config, "--extra", *words),
        ),
        env={"HF_HUB_OFFLINE": "1", "VLLM_API_KEY": SECRET, **env},
        port=8123,
        secrets=frozenset({SECRET}),
        kind=EngineKind.CUDA,
        gpus=tuple(f"GPU-{number}" for number in range(cards)),
        context=LaunchContext(gpus=cards or 1),
    )


def expected_run(spec: LaunchSpec) -> Run:
    """What the container must be, told from the spec alone."""
    words = list(spec.argv[4:])
    folder = words[1]
    config = json.loads(words[7])
    draft = config["model"]
    words[1], words[3], words[7] = "/model", "0.0.0.0", json.dumps({**config, "model": "/draft-model"})
    return Run(
        name="volta-p.q-8123",
        image=IMAGE,
        entrypoint=["python3"],
        command=["-m", SERVER_MODULE, *words],
        env=dict(spec.env),
        ports=[("127.0.0.1", 8123, 8123)],
        mounts=[(folder, "/model"), (draft, "/draft-model")],
        cards=list(spec.gpus),
        card_count=0 if spec.gpus else 1,
        shared_memory=16 * 2**30,
    )


nasty_specs = st.builds(
    server_spec, st.lists(texts, max_size=3), st.dictionaries(names, texts, max_size=3), folders, st.integers(0, 2)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, max_size=4), st.dictionaries(names, texts, max_size=4))
def test_bash_gives_a_program_exactly_the_words_and_variables_of_the_spec(
    words: list[str], env: dict[str, str]
) -> None:
    words = [*fixed, *words]
    spec = replace(server_spec([], env), argv=(*DUMPER, *words))
    line = shell_line(spec)
    assert SECRET not in line
    assert len(line.split("\n")) == 3  # the comment, the line, its end
    got, variables = run_in_bash(line, EXPORTED)
    assert got == words
    assert {name: variables[name] for name in spec.env} == dict(spec.env)


def test_bash_starts_nothing_while_the_secret_is_not_exported() -> None:
    line = shell_line(replace(server_spec([], {}), argv=("/bin/echo", "started")))
    done = subprocess.run(("bash", "--norc", "-c", line), env={}, capture_output=True, timeout=20, check=False)
    assert done.returncode != 0
    assert (done.stdout, b"VLLM_API_KEY" in done.stderr) == (b"", True)


@pytest.mark.parametrize("character", ["\x01", "\x7f"])
def test_what_bash_loses_is_refused_and_not_printed_wrongly(character: str) -> None:
    spec = server_spec([character], {}, "/models/m")
    for form in (shell_line, lambda spec: docker_run(spec, IMAGE)):
        with pytest.raises(LaunchError, match="control character"):
            form(spec)


@settings(max_examples=60, deadline=None)
@given(nasty_specs)
def test_a_docker_run_says_the_container_of_the_spec(spec: LaunchSpec) -> None:
    line = docker_run(spec, IMAGE)
    assert SECRET not in line
    assert read_docker_words(run_words_in_bash(line, EXPORTED), EXPORTED) == expected_run(spec)


@settings(max_examples=200, deadline=None)
@given(nasty_specs)
def test_a_compose_file_says_the_container_of_the_spec(spec: LaunchSpec) -> None:
    text = docker_compose(spec, IMAGE)
    assert SECRET not in text
    assert read_compose_file(text, EXPORTED) == expected_run(spec)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, max_size=4), st.dictionaries(names, printable, max_size=4), folders)
def test_a_unit_says_the_command_of_the_spec(words: list[str], env: dict[str, str], folder: str) -> None:
    spec = server_spec([*fixed, *words], env, folder)
    text = systemd_unit(spec)
    assert SECRET not in text
    unit = read_unit(text)
    assert tuple(unit.command(EXPORTED)) == spec.argv
    assert unit.env() == {name: value for name, value in spec.env.items() if name != "VLLM_API_KEY"}
    assert unit.all("EnvironmentFile") == ["%E/volta-panel/volta-p.q-8123.env"]
    assert unit.all("Description") == ["100%% nasty title"]


# the formats' own programs


@pytest.fixture(scope="module")
def daemon() -> Iterator[NotingDaemon]:
    with noting_daemon() as running:
        yield running


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=nasty_specs)
def test_dockers_own_client_reads_the_same(spec: LaunchSpec, daemon: NotingDaemon, tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        warnings.warn("No docker client here: only our own reader has read the line.", stacklevel=1)
        read = read_docker_words(run_words_in_bash(docker_run(spec, IMAGE), EXPORTED), EXPORTED)
    else:
        read = daemon.read(docker_run(spec, IMAGE), EXPORTED, tmp_path)
    assert read == expected_run(spec)


def test_composes_own_reader_reads_the_same(tmp_path: Path) -> None:
    spec = server_spec(fixed, {"NV_A": "$x %y '\"", "NV_N": "1e3"}, "/models/a b,c:d", cards=2)
    text = docker_compose(spec, IMAGE)
    program = compose_program()
    if program is None:
        warnings.warn("No docker compose here: only our own reader has read the file.", stacklevel=1)
        assert read_compose_file(text, EXPORTED) == expected_run(spec)
        return
    (tmp_path / "compose.yaml").write_text(text, encoding="utf-8")
    words = (*program, "-f", str(tmp_path / "compose.yaml"), "config", "--format", "json")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), **EXPORTED}
    done = subprocess.run(words, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    service = json.loads(re.sub(rb"\$\$", b"$", done.stdout))["services"]["engine"]  # printed so as to be read again
    assert read_service(service) == expected_run(spec)


def test_systemds_own_reader_reads_the_same(tmp_path: Path) -> None:
    controls = "".join(map(chr, [*range(1, 32), 127, 0x85, 0x2028]))
    spec = server_spec([*fixed, controls, *NASTY], {"NV_A": "$x %y '\"\\ é", "NV_B": "two\nlines\tand \\n"}, "/m/a b")
    spec = replace(spec, argv=("/bin/sh", *spec.argv[1:]))  # systemd-analyze wants it to be there
    unit = tmp_path / "volta-test.service"
    unit.write_text(systemd_unit(spec), encoding="utf-8")
    found = systemd_reads(unit, tmp_path)
    if found is None:
        warnings.warn("No systemd-analyze here: only our own reader has read the unit.", stacklevel=1)
        assert tuple(read_unit(unit.read_text(encoding="utf-8")).command(EXPORTED)) == spec.argv
        return
    words, assignments = found
    doubled = [word.replace("$", "$$").replace(SECRET.replace("$", "$$"), "${VLLM_API_KEY}") for word in spec.argv[1:]]
    assert words == ["/bin/sh", *doubled]
    assert sorted(assignments) == sorted(f"{n}={value}" for n, value in spec.env.items() if n != "VLLM_API_KEY")


def test_the_reader_of_units_knows_the_examples_of_systemds_manual() -> None:
    assert systemd_words(r'''one "two two" 'a\x20b' c\sd "e'f" ""''') == ["one", "two two", "a b", "c d", "e'f", ""]
    assert systemd_words(r'"\u00e9\t\"" \101') == ['é\t"', "A"]


def test_no_form_is_refused_for_what_can_be_said() -> None:
    assert not any(preview.is_refused for preview in previews(server_spec(fixed, {"NV": "\n"}), image=IMAGE))
