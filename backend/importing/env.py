"""A `config.env` file of KEY=VALUE lines, or vLLM's own `--config` YAML, as a preset."""

import json
import re
from collections.abc import Mapping

import yaml

from backend.errors import PresetError
from backend.importing.command import add_arguments
from backend.importing.draft import Draft, Import, is_secret
from backend.importing.flags import GivenFlag, Value
from backend.importing.shell import fill, read_statements
from backend.launch.engine_kind import EngineKind
from backend.launch.flag_shapes import BOOLEAN_FLAGS, LIST_FLAGS, OLD_BOOLEAN_FLAGS
from backend.launch.preset import INTENT_FLAGS, PANEL_FLAGS, Words
from backend.launch.preset_file import compose
from backend.launch.removed_flags import is_removed

MAX_LINES = 1000
_ORIGIN_ENV = Words(
    en="Made from a file of settings. Look through it before the first start: it was written for another machine.",
    zh="由配置文件生成。该文件原本是为另一台机器写的，首次启动前请先检查一遍。",
)
_LINE = re.compile(r"(?:export\s+|set\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*[=:]\s*(.*)", re.IGNORECASE)
_ENV_LINE = re.compile(r"\s*(?:export\s+|set\s+)?[A-Za-z_]\w*\s*=", re.IGNORECASE)
_YAML_LINE = re.compile(r"[\"']?[A-Za-z][\w.-]*[\"']?\s*:(\s|$)")
_MODEL_KEYS = ("MODEL_PATH", "MODEL_DIR", "MODEL_ID", "HF_MODEL_ID", "MODEL_TAG", "MODEL", "MODEL_NAME", "MODEL_REPO")
_NAME_KEYS = frozenset({"SERVED_MODEL_NAME", "SERVED_NAME", "MODEL_ALIAS"})
_ARGUMENT_KEYS = frozenset(
    {"ARGS", "EXTRA_ARGS", "EXTRA_FLAGS", "EXTRA_OPTS", "EXTRA_ARGUMENTS", "SERVE_ARGS", "ADDITIONAL_ARGS"}
)
_FLAG_KEYS: Mapping[str, str] = {
    "CONTEXT": "max-model-len",
    "CONTEXT_LEN": "max-model-len",
    "CONTEXT_LENGTH": "max-model-len",
    "CTX_LEN": "max-model-len",
    "DATA_TYPE": "dtype",
    "GPU_MEM_UTIL": "gpu-memory-utilization",
    "GPU_MEMORY_UTIL": "gpu-memory-utilization",
    "GPU_UTIL": "gpu-memory-utilization",
    "MAX_BATCHED_TOKENS": "max-num-batched-tokens",
    "MAX_CONTEXT_LEN": "max-model-len",
    "MAX_MODEL_LENGTH": "max-model-len",
    "MAX_SEQS": "max-num-seqs",
    "MEM_UTIL": "gpu-memory-utilization",
    "MEMORY_UTILIZATION": "gpu-memory-utilization",
    "NUM_GPUS": "tensor-parallel-size",
    "PP": "pipeline-parallel-size",
    "PP_SIZE": "pipeline-parallel-size",
    "PREFIX_CACHING": "enable-prefix-caching",
    "QUANT": "quantization",
    "TENSOR_PARALLEL": "tensor-parallel-size",
    "TP": "tensor-parallel-size",
    "TP_SIZE": "tensor-parallel-size",
}
_ENGINE_ENV = re.compile(
    r"(VLLM|NCCL|CUDA|NVIDIA|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|FLASHINFER|OMP|MKL|GLOO|RAY|DFLASH2|HF|HUGGINGFACE"
    r"|HUGGING_FACE|TRANSFORMERS|MODELSCOPE|TOKENIZERS|SAFETENSORS|LD|PYTHON)_\w+"
)
_KNOWN_FLAGS = frozenset(
    """
    chat-template compilation-config cpu-offload-gb distributed-executor-backend generation-config hf-overrides
    limit-mm-per-prompt load-format max-log-len max-logprobs max-lora-rank max-loras mm-processor-kwargs
    reasoning-parser rope-parameters scheduling-policy seed tokenizer tokenizer-mode tool-call-parser block-size
    uvicorn-log-level data-parallel-size kv-cache-memory-bytes kv-transfer-config default-chat-template-kwargs
    chat-template-content-format hf-config-path config-format tokenizer-revision code-revision
    """.split()  # noqa: SIM905
)
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def import_settings(text: str, *, source: str, engine: EngineKind | None = None) -> Import:
    """The preset that a file of settings describes, whichever of the two kinds it is. `source` names it in messages.

    Raises:
        PresetError: as import_env and import_serve_config.
    """
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip("\ufeff \t").startswith(("#", "---"))
    ]
    is_yaml = bool(lines) and _YAML_LINE.match(lines[0].lstrip("\ufeff")) is not None and not _ENV_LINE.match(lines[0])
    return (import_serve_config if is_yaml else import_env)(text, source=source, engine=engine)


def import_env(text: str, *, source: str = "config.env", engine: EngineKind | None = None) -> Import:
    """The preset that a file of KEY=VALUE lines describes: MODEL, MAX_MODEL_LEN, VLLM_…, EXTRA_ARGS and the like.

    Raises:
        PresetError: names the line and the key.
    """
    draft = Draft(origin=_ORIGIN_ENV, engine=engine)
    models: dict[str, str] = {}
    for line, name, value in _pairs(text, source):
        try:
            _add_key(draft, models, line, name, value)
        except PresetError as err:
            raise PresetError(f"{source}, line {line}: {name}: {err.message}", hint=err.hint) from err
    given = [key for key in _MODEL_KEYS if key in models]
    if given:
        draft.model = models[given[0]]
        if "MODEL_NAME" in given[1:] and "served-model-name" not in draft.flags:
            draft.add_flag(GivenFlag("served-model-name", (models["MODEL_NAME"],), "MODEL_NAME"))
    return _finished(draft, source)


def import_serve_config(text: str, *, source: str = "config.yaml", engine: EngineKind | None = None) -> Import:
    """The preset that a YAML file for `vllm serve --config` describes.

    Raises:
        PresetError: names the line and the key.
    """
    draft = Draft(origin=_ORIGIN_ENV, engine=engine)
    document = compose(text, source=source)
    try:
        values: dict[object, object] = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as err:
        raise PresetError(f"{source} is not valid YAML: {' '.join(str(err).split())[:200]}.") from err
    lines = {str(key.value): key.start_mark.line + 1 for key, _ in document.value}
    for key, value in values.items():
        name = str(key).replace("_", "-")
        where = f"{source}, line {lines.get(str(key), 1)}: {key}"
        if name in ("model", "model-tag"):
            draft.model = str(value)
        elif value is not None:
            _check_flag(draft, name)
            draft.add_flag(_yaml_flag(name, value, where))
    return _finished(draft, source)


def _finished(draft: Draft, source: str) -> Import:
    try:
        return draft.finish()
    except PresetError as err:
        raise PresetError(f"{source}: {err.message}", hint=err.hint) from err


def _pairs(text: str, source: str) -> list[tuple[int, str, str]]:
    """(line, key, value) of every setting, quotes and comments off, earlier keys filled in."""
    lines = text.lstrip("\ufeff").splitlines()
    if len(lines) > MAX_LINES or len(text) > 64 * 1024:
        raise PresetError(f"{source} is longer than {MAX_LINES} lines or 64 KiB; a file of settings is a page of text.")
    pairs: list[tuple[int, str, str]] = []
    known: dict[str, str] = {}
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at].strip()
        at += 1
        while line.endswith("\\") and at < len(lines):
            line = line[:-1] + " " + lines[at].strip()
            at += 1
        if not line or line.startswith(("#", ";", "[")) or re.match(r"@?rem\b", line, re.IGNORECASE):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise PresetError(f"{source}, line {number}: {line[:80]!r} is not KEY=VALUE.")
        name = match[1].upper().replace("-", "_")
        known[name] = _value(match[2], known, where=f"{source}, line {number}: {match[1]}")
        pairs.append((number, name, known[name]))
    return pairs


def _value(text: str, known: Mapping[str, str], *, where: str) -> str:
    if text[:1] not in ("'", '"') and "$" not in text and "`" not in text:
        return re.sub(r"(^|\s)#.*", "", text).strip()  # people leave spaces, colons and slashes unquoted
    try:
        statements = read_statements(text)
    except PresetError as err:
        raise PresetError(f"{where}: {err.message.removeprefix('Line 1: ')}", hint=err.hint) from err
    return " ".join(fill(word, known) for statement in statements for word in statement.words)


def _add_key(draft: Draft, models: dict[str, str], line: int, name: str, value: str) -> None:
    bare = name.removeprefix("VLLM_")
    flag = _FLAG_KEYS.get(bare, bare.lower().replace("_", "-"))
    if not value:
        return
    if bare in _MODEL_KEYS:
        models[bare] = value
    elif bare in _ARGUMENT_KEYS:
        words = [fill(word, {}) for statement in read_statements(value) for word in statement.words]
        if words and not words[0].startswith("-"):
            raise PresetError(f"{words[0][:80]} is not a flag.")
        add_arguments(draft, words)
    elif bare in _NAME_KEYS:
        draft.add_flag(GivenFlag("served-model-name", tuple(value.replace(",", " ").split()), name))
    elif bare in ("HOST", "PORT", "HOST_IP"):
        draft.note("address_left_out", name=name, value=value)
    elif flag == "api-key" or (is_secret(name, value) and flag not in INTENT_FLAGS):
        draft.note("secret_left_out", name=name)
    elif _is_flag(flag):
        _check_flag(draft, flag)
        given = _switch(flag, value) if flag in BOOLEAN_FLAGS | OLD_BOOLEAN_FLAGS else value
        draft.add_flag(GivenFlag(flag, tuple(value.split()) if flag in LIST_FLAGS else given, name))
    elif _ENGINE_ENV.fullmatch(name):
        draft.add_env(name, value)
    else:
        draft.note("unknown_key", line=str(line), name=name)


def _is_flag(flag: str) -> bool:
    known = (INTENT_FLAGS, BOOLEAN_FLAGS, OLD_BOOLEAN_FLAGS, LIST_FLAGS, PANEL_FLAGS, _KNOWN_FLAGS)
    return any(flag in names for names in known) or is_removed(flag)


def _check_flag(draft: Draft, flag: str) -> None:
    if is_removed(flag):
        draft.note("older_flag", name=flag)


def _switch(flag: str, value: str) -> bool:
    if value.lower() in _TRUE + _FALSE:
        return value.lower() in _TRUE
    raise PresetError(f"--{flag} takes true or false, not {value[:80]!r}.")


def _yaml_flag(name: str, value: object, where: str) -> GivenFlag:
    given: Value
    if isinstance(value, bool):
        return GivenFlag(name.removeprefix("no-"), value is not name.startswith("no-"), name)
    if isinstance(value, dict):
        try:
            given = json.dumps(value)
        except (TypeError, RecursionError) as err:
            raise PresetError(f"{where} holds something that is no text, number, list or key.") from err
    elif isinstance(value, list):
        if not all(isinstance(item, str | int | float) for item in value):
            raise PresetError(f"{where} must be a list of texts or numbers.")
        given = tuple(str(item) for item in value) or ("",)
    elif isinstance(value, str | int | float):
        given = (str(value),) if name in LIST_FLAGS else str(value)
    else:
        raise PresetError(f"{where} must be a text, a number, true or false, a list or keys of its own.")
    return GivenFlag(name, given, name)
