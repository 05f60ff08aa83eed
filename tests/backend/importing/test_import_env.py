"""Files of settings as people have them: KEY=VALUE lines and vLLM's own YAML."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import PresetError
from backend.importing.draft import Import
from backend.importing.env import import_env, import_serve_config, import_settings
from backend.launch.engine_kind import EngineKind
from backend.launch.preset_file import dump_preset, parse_preset

FULL = """\
# the lab's server
export MODEL_NAME=qwen3-14b
MODEL_PATH="/data/models/Qwen3-14B"   # local
HOST=0.0.0.0
PORT=8000
MAX_MODEL_LEN = 16384
TENSOR_PARALLEL_SIZE=2
GPU_MEMORY_UTILIZATION=0.92
VLLM_LOGGING_LEVEL=INFO
NCCL_P2P_DISABLE=1
DTYPE='half'
ENFORCE_EAGER=true
HF_TOKEN=hf_aaaaaaaaaaaaaaaa
API_KEY=geheim
CUDA_VISIBLE_DEVICES=0,1
SWAP_SPACE=4
LOG_FILE=/var/log/vllm.log
EMPTY=
EXTRA_ARGS="--max-num-seqs 8 --enable-prefix-caching --override-generation-config '{\\"temperature\\": 0.6}'"
"""


def values(imported: Import) -> dict[str, Any]:
    dumped = imported.preset.model_dump(mode="json", exclude_defaults=True)
    return {key: value for key, value in dumped.items() if key not in ("name", "title", "summary")}


def test_a_full_file_becomes_its_preset() -> None:
    imported = import_env(FULL)
    assert values(imported) == {
        "model": {"name": "Qwen3-14B"},
        "served_name": "qwen3-14b",
        "engine": "cuda",
        "gpus": 2,
        "dtype": "float16",
        "context": 16384,
        "memory_utilization": 0.92,
        "max_sequences": 8,
        "prefix_caching": True,
        "eager": True,
        "sampling": {"temperature": 0.6},
        "flags": {"swap-space": 4},
        "env": {"VLLM_LOGGING_LEVEL": "INFO", "NCCL_P2P_DISABLE": "1"},
    }
    assert parse_preset(dump_preset(imported.preset), source="mine.yaml") == imported.preset


def test_what_was_left_out_is_named_with_its_line() -> None:
    notes = {(note.key, note.values.get("name", "")): note.values for note in import_env(FULL).notes}
    assert notes["unknown_key", "LOG_FILE"]["line"] == "17"
    assert ("secret_left_out", "HF_TOKEN") in notes
    assert ("secret_left_out", "API_KEY") in notes
    assert ("address_left_out", "PORT") in notes
    assert ("cards_left_out", "") in notes
    assert ("older_flag", "swap-space") in notes
    assert ("unknown_key", "EMPTY") not in notes


def test_no_secret_stays() -> None:
    imported = import_env(FULL)
    shown = dump_preset(imported.preset) + "".join(note.in_language("zh") for note in imported.notes)
    assert "geheim" not in shown
    assert "hf_a" not in shown


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("VLLM_MAX_MODEL_LEN=4096", "context", 4096),
        ("CONTEXT_LENGTH=32k", "context", 32000),
        ("max_model_len=4096", "context", 4096),
        ("TP=4", "gpus", 4),
        ("VLLM_TENSOR_PARALLEL_SIZE=2", "gpus", 2),
        ("VLLM_GPU_UTIL=0.5", "memory_utilization", 0.5),
        ("QUANTIZATION=awq", "quantization", "awq"),
        ("KV_CACHE_DTYPE=fp8", "kv_cache_dtype", "fp8"),
        ("ENABLE_PREFIX_CACHING=0", "prefix_caching", False),
        ("TRUST_REMOTE_CODE=yes", "flags", {"trust-remote-code": True}),
        ("MAX_NUM_BATCHED_TOKENS=512 # small", "max_batched_tokens", 512),
        ("SERVED_MODEL_NAME=a", "served_name", "a"),
        ("VLLM_ATTENTION_BACKEND=TRITON_ATTN", "attention_backend", "TRITON_ATTN"),
        ("LIMIT_MM_PER_PROMPT='{\"image\": 0}'", "flags", {"limit-mm-per-prompt": '{"image": 0}'}),
        ("OMP_NUM_THREADS=8", "env", {"OMP_NUM_THREADS": "8"}),
        ("ARGS=--max-num-seqs 4", "max_sequences", 4),
        ("VLLM_EXTRA_ARGS='-q gptq'", "quantization", "gptq"),
    ],
)
def test_a_key_means_its_flag(line: str, key: str, value: object) -> None:
    assert values(import_env(f"MODEL=a/b\n{line}\n"))[key] == value


def test_earlier_keys_are_filled_in_and_windows_files_read() -> None:
    text = "\ufeffBASE=/srv/models\r\nset MODEL_PATH=${BASE}/Qwen3-8B\r\nrem old\r\nMAX_MODEL_LEN=${LEN:-2048}\r\n"
    preset = import_env(text).preset
    assert (preset.model.name, preset.context) == ("Qwen3-8B", 2048)


def test_a_hub_name_and_a_folder_together_take_the_folder() -> None:
    preset = import_env("MODEL=Qwen/Qwen3-8B\nMODEL_PATH=/srv/Qwen3-8B\nMAX_MODEL_LEN=4096").preset
    assert preset.model.name == "Qwen3-8B"
    assert preset.model.huggingface is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "config.env: There is no model"),
        ("# nothing", "config.env: There is no model"),
        ("MODEL=a/b\nthis is no setting", "config.env, line 2: 'this is no setting' is not KEY=VALUE."),
        ("MODEL=a/b\nENFORCE_EAGER=maybe", "config.env, line 2: ENFORCE_EAGER: --enforce-eager takes true or false"),
        ("MODEL=a/b\nEXTRA_ARGS=max 4", "config.env, line 2: EXTRA_ARGS: max is not a flag"),
        ("MODEL=a/b\nEXTRA_ARGS='--x | tee'", "config.env, line 2: EXTRA_ARGS: "),
        ("MODEL=a/b\nNAME=$(hostname)", "config.env, line 2: NAME: Command substitution"),
        ("MODEL=a/b\nX='open", "config.env, line 2: X: This quote is never closed"),
        ("MODEL=a/b\nMAX_MODEL_LEN=many", "config.env: --max-model-len many"),
        ("MODEL=$NOTHING", "$NOTHING"),
        ("\x00\x01\x02", "config.env, line 1"),
    ],
)
def test_garbage_is_named_with_line_and_key(text: str, said: str) -> None:
    with pytest.raises(PresetError) as caught:
        import_env(text)
    assert said in str(caught.value)


def test_a_long_file_is_refused() -> None:
    with pytest.raises(PresetError, match="a page of text"):
        import_env("A=1\n" * 2000)


CONFIG = """\
# config.yaml
model: Qwen/Qwen3-8B
host: "127.0.0.1"
port: 6379
max-model-len: 8192
tensor_parallel_size: 2
no-enable-prefix-caching: true
trust-remote-code: true
served-model-name: [chat, other]
uvicorn-log-level: "info"
compilation-config: '{"cudagraph_mode":"PIECEWISE"}'
speculative-config:
  method: ngram
  num_speculative_tokens: 3
"""


def test_vllms_own_yaml_becomes_its_preset() -> None:
    imported = import_serve_config(CONFIG)
    assert values(imported) == {
        "model": {"name": "Qwen3-8B", "huggingface": {"repo": "Qwen/Qwen3-8B"}},
        "served_name": "chat",
        "engine": "cuda",
        "gpus": 2,
        "dtype": "auto",
        "context": 8192,
        "prefix_caching": False,
        "speculation": {"method": "ngram", "tokens": 3},
        "flags": {
            "trust-remote-code": True,
            "uvicorn-log-level": "info",
            "compilation-config": '{"cudagraph_mode":"PIECEWISE"}',
        },
    }
    assert [note.key for note in imported.notes] == ["address_left_out", "address_left_out", "names_left_out"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: [", "config.yaml is not valid YAML"),
        ("- a", "'key: value'"),
        ("model: a/b\nmodel: c/d", "config.yaml, line 2: model is there twice"),
        ("model: a/b\nserved-model-name:\n  - [x]", "config.yaml, line 2: served-model-name must be a list"),
        ("max-model-len: 4096", "config.yaml: There is no model"),
        ("model: a/b\nmax-model-len: many", "--max-model-len many"),
        ("model: a/b\nmax-model-len: true", "--max-model-len has no value"),
        ("model: a/b\nx: 2026-01-01", "config.yaml, line 2: x must be"),
        ("a: &a [1]\nb: *a", "not allowed"),
        ("model: a/b\nx: 2026-13-99", "config.yaml is not valid YAML"),
        ("model: a/b\n? [x]\n: y", "config.yaml is not valid YAML"),
        ("model: a/b\nx: {y: 2026-01-01}", "config.yaml, line 2: x holds something"),
    ],
)
def test_wrong_yaml_is_named_with_line_and_key(text: str, said: str) -> None:
    with pytest.raises(PresetError) as caught:
        import_serve_config(text)
    assert said in str(caught.value)


def test_the_kind_of_file_is_seen() -> None:
    assert import_settings(CONFIG, source="x.yaml").preset.context == 8192
    assert import_settings(FULL, source="x.env", engine=EngineKind.VOLTA).preset.engine is EngineKind.VOLTA
    with pytest.raises(PresetError, match="mine.txt, line 1"):
        import_settings("hello world", source="mine.txt")


@given(st.text(max_size=300))
def test_no_text_makes_it_crash(text: str) -> None:
    try:
        import_settings(text, source="x")
    except PresetError as err:
        assert err.message


KEYS = st.sampled_from(
    ["MODEL", "MODEL_NAME", "EXTRA_ARGS", "MAX_MODEL_LEN", "DTYPE", "X", "model", "served-model-name"]
)
TEXTS = st.sampled_from(
    ["a/b", "4096", "half", "--dtype half", "'", '"x"', "{}", "[1, [2]]", "true", "$A", "", "{a: {b: 1}}", "1e999"]
)


@given(st.lists(st.tuples(KEYS, st.sampled_from(["=", ": ", " "]), TEXTS), max_size=6))
def test_no_mixture_of_lines_makes_it_crash(lines: list[tuple[str, str, str]]) -> None:
    try:
        import_settings("\n".join("".join(line) for line in lines), source="x")
    except PresetError as err:
        assert err.message
