"""Preset files: each mistake is named with its place, and what is written reads back the same."""

import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.errors import PresetError
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Preset
from backend.launch.preset_file import dump_preset, parse_preset, read_preset
from tests.backend.launch.vllm_versions import SHIPPED

TEXT = (SHIPPED / "smollm2-135m-cpu.yaml").read_text(encoding="utf-8")
GPU_TEXT = (SHIPPED / "qwen3.8-27b-nvfp4-v100-4k.yaml").read_text(encoding="utf-8")


def broken(text: str) -> str:
    with pytest.raises(PresetError) as caught:
        parse_preset(text, source="mine.yaml")
    return str(caught.value)


def line_of(text: str, beginning: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(beginning))


def test_unknown_key_names_file_line_key_and_the_nearest_known_one() -> None:
    message = broken(TEXT.replace("context: 2048", "contxt: 2048"))
    line = line_of(TEXT, "context:")
    assert message == f"mine.yaml, line {line}: contxt is not a known key. Did you mean 'context'?"


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("  zh: SmolLM2", "  zhh: SmolLM2", "title.zhh is not a known key. Did you mean 'zh'?"),
        ("    repo:", "    rpo:", "model.huggingface.rpo is not a known key. Did you mean 'repo'?"),
        ("eager: true", "speculation: {method: mtp, tokns: 1}", "speculation.tokns is not a known key. Did you mean"),
        ("eager: true", "sampling: {topp: 1}", "sampling.topp is not a known key. Did you mean 'top_p'?"),
        ("eager: true", "zzzz: 1", "zzzz is not a known key. Known keys: name, title"),
    ],
)
def test_unknown_keys_are_named_at_any_depth(right: str, wrong: str, expected: str) -> None:
    assert f"line {line_of(TEXT, right)}: {expected}" in broken(TEXT.replace(right, wrong))


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("context: 2048", "context: lots", "context = 'lots'"),
        ("context: 2048", "context: 2048.5", "context = 2048.5"),
        ("engine: cpu", "engine: gpu", "engine = 'gpu': Input should be 'cpu', 'volta' or 'cuda'"),
        ("eager: true", "gpus: 1", "gpus: must be 0 for engine: cpu"),
        ("eager: true", "env: {A: 1}", "env.A = 1"),
        ("  block-size: 32", "  block-size: {a: 1}", "flags.block-size = {'a': 1}: must be true, false"),
        ("  block-size: 32", "  max-model-len: 32", "flags.max-model-len: has a key of its own: context"),
        ("eager: true", "speculation: {method: eagle, tokens: 1}", "speculation.model: eagle needs a model"),
    ],
)
def test_a_wrong_value_is_shown_with_its_line(right: str, wrong: str, expected: str) -> None:
    assert f"line {line_of(TEXT, right)}: {expected}" in broken(TEXT.replace(right, wrong))


def test_missing_keys_are_named_with_their_path() -> None:
    assert "served_name is missing" in broken(TEXT.replace("served_name: smollm2-135m\n", ""))
    assert "model.name is missing" in broken(TEXT.replace("  name: SmolLM2-135M-Instruct\n", ""))


def test_a_text_where_keys_belong_is_told_which_keys() -> None:
    text = TEXT.replace("title:\n  en: SmolLM2 135M on the CPU\n  zh: SmolLM2 135M（CPU）\n", "title: T\n")
    assert "title must hold keys of its own: en, zh" in broken(text)


def test_what_a_card_cannot_do_is_named_with_its_line() -> None:
    text = GPU_TEXT.replace("dtype: float16", "dtype: bfloat16")
    assert f"line {line_of(GPU_TEXT, 'dtype:')}: dtype: bfloat16 needs compute capability 8.0" in broken(text)


@pytest.mark.parametrize("addition", ["context: 4096\n", "model: {name: a, name: b}\n"])
def test_repeated_keys_are_refused_at_any_depth(addition: str) -> None:
    assert "is there twice" in broken(TEXT + addition)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a",
        "a: [",
        "\t",
        "&a [*a]",
        "a: &x 1\nb: *x",
        "!!python/object:os.system x",
        "a: !!int ''",
        "a: !!timestamp x",
        "a: 0001-01-01 00:00:00 +23:59",
        "a: 2026-13-45",
        "? [a]\n: b",
        "[" * 2000,
        "{a: " * 3000,
        "a: " + "9" * 5000,
        "\x00",
        "\ud800",
    ],
)
def test_garbage_is_a_preset_error(text: str) -> None:
    assert "mine.yaml" in broken(text)


def test_a_few_lines_of_aliases_are_refused_before_they_grow() -> None:
    lines = ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{p: *a{n - 1}, q: *a{n - 1}}}" for n in range(1, 40)]
    assert "aliases" in broken("\n".join(lines))


def test_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("#" * 100_000)
    with pytest.raises(PresetError, match="larger than 64 KiB"):
        read_preset(path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"name: \x80"])
def test_a_file_that_is_no_text_is_a_preset_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(PresetError, match="mine.yaml"):
        read_preset(path)


@given(st.text(max_size=200))
def test_no_text_makes_it_crash(text: str) -> None:
    broken(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(Preset.model_fields)), values)
def test_no_value_of_any_key_makes_it_crash(key: str, value: Any) -> None:
    document = {**yaml.safe_load(TEXT), key: value}
    try:
        preset = parse_preset(yaml.safe_dump(document, allow_unicode=True), source="mine.yaml")
    except PresetError as err:
        assert "mine.yaml" in str(err)
    else:
        assert parse_preset(dump_preset(preset), source="again") == preset


@given(st.sampled_from(TEXT.split()), st.text(string.printable, max_size=12))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_slip_of_the_pen_makes_it_crash(word: str, slip: str) -> None:
    try:
        parse_preset(TEXT.replace(word, slip, 1), source="mine.yaml")
    except PresetError as err:
        assert "mine.yaml" in str(err)


names = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
words = st.text(min_size=1, max_size=40)
numbers = st.floats(min_value=0.01, max_value=100, allow_nan=False)
flags = st.dictionaries(
    names.map(lambda name: f"x-{name}"),
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30)
    | st.lists(st.text(max_size=10), min_size=1, max_size=3).map(tuple),
    max_size=4,
)  # fmt: skip


@st.composite
def presets(draw: st.DrawFn) -> Preset:
    """Any preset the schema takes, on a CPU or on cards."""
    on_cpu = draw(st.booleans())
    title = {"en": draw(words), "zh": draw(words)}
    where: dict[str, Any] = {"engine": "cpu", "kv_cache_gib": draw(numbers)}
    if not on_cpu:
        where = {
            "engine": draw(st.sampled_from(["volta", "cuda"])),
            "gpus": draw(st.integers(1, 8)),
            "memory_utilization": draw(st.none() | st.floats(0.1, 1)),
            "kv_offload_gib": draw(st.none() | numbers),
            "parallel": draw(st.sampled_from(["tensor", "pipeline"])),
            "speculation": draw(st.none() | st.just({"method": "mtp", "tokens": 2})),
        }
    return Preset.model_validate(
        {
            "name": draw(names),
            "title": title,
            "summary": title,
            "model": {"name": draw(words), "huggingface": draw(st.none() | st.just({"repo": "a/b", "revision": "v1"}))},
            "served_name": "m",
            "dtype": "float16",
            "context": draw(st.integers(64, 2**24)),
            "prefix_caching": draw(st.none() | st.booleans()),
            "sampling": draw(st.none() | st.fixed_dictionaries({"top_k": st.integers(0, 99)})),
            "flags": draw(flags),
            "env": draw(st.dictionaries(names.map(lambda name: f"X_{name.replace('-', '_')}"), st.text(max_size=20))),
            "ready_timeout_s": draw(st.none() | numbers),
            **where,
        }
    )


@given(presets())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_every_preset_reads_back_as_it_was_written(preset: Preset) -> None:
    assert parse_preset(dump_preset(preset), source="again") == preset


def test_every_key_is_explained_at_the_top_of_a_written_preset() -> None:
    head, _, body = dump_preset(parse_preset(TEXT, source="t")).partition("\n\n")
    assert all(line.startswith("#") for line in head.splitlines())
    for key in Preset.model_fields:
        assert f"#  {key}:" in head
    assert "EngineKind" not in body
    assert f"engine: {EngineKind.CPU}" in body
