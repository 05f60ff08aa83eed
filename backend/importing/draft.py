"""From flags and variables that somebody else wrote to a preset: what has a key of its own, what stays, what is left out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from backend.errors import PresetError
from backend.importing.flags import GivenFlag, Value, json_or_text
from backend.importing.intent import intent_of
from backend.importing.model import model_source, quantization_of
from backend.importing.shell import has_secret, redacted
from backend.importing.words import ImportNote
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import INTENT_FLAGS, PANEL_ENV, Preset, Words

ASSUMED_CONTEXT = 8192  # tokens, where none were given
ASSUMED_KV_CACHE_GIB = 1.0
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
_TOKENS_NO_SECRET = re.compile(r"TOKENIZER|(MAX|NUM|BATCHED)_.*TOKENS")  # of text, not of access

_ADDRESS_FLAGS = frozenset({"host", "port", "uds"})
_SECRET_FLAGS = frozenset({"api-key", "hf-token"})
_PANEL_FLAGS = frozenset({"ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-cert-reqs", "root-path", "help"})
_DOWNLOAD_FLAGS = frozenset({"download-dir"})
_ADDRESS_ENV = frozenset({"VLLM_PORT", "VLLM_HOST_IP", "HOST", "PORT"})
_CARDS_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
_PLACES_ENV = re.compile(
    r"(PATH|HOME|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|VIRTUAL_ENV|CONDA_\w+|\w*_PROXY)", re.IGNORECASE
)
_DOWNLOADS_ENV = re.compile(
    r"(HF|HUGGINGFACE|HUGGING_FACE|TRANSFORMERS|MODELSCOPE|VLLM_USE_MODELSCOPE|XDG_CACHE)(_\w+)?"
)


@dataclass(frozen=True)
class Import:
    """A preset made from somebody's command or file, and what a person should know about it."""

    preset: Preset
    notes: tuple[ImportNote, ...]


@dataclass
class Draft:
    """What was found so far. The readers fill it; `finish` makes the preset."""

    origin: Words  # where it came from, for the summary
    engine: EngineKind | None = None  # None: a CUDA engine, unless something in it says otherwise
    model: str | None = None
    flags: dict[str, GivenFlag] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    notes: list[ImportNote] = field(default_factory=list)

    def note(self, key: str, **values: str) -> None:
        """Remember a note; the same one once."""
        note = ImportNote(key, {name: redacted(value) for name, value in values.items()})
        if note not in self.notes:
            self.notes.append(note)

    def add_flag(self, flag: GivenFlag) -> None:
        """One flag; of several with this name the last one counts, as in vLLM."""
        if flag.name in self.flags and self.flags[flag.name].value != flag.value:
            shown = "…" if flag.name in _SECRET_FLAGS else flag.text
            self.note("last_one_counts", name=f"--{flag.name}", value=shown)
        self.flags[flag.name] = flag

    def add_env(self, name: str, value: str) -> None:
        """One environment variable for the engine."""
        self.env[name] = value

    def finish(self) -> Import:
        """The preset.

        Raises:
            PresetError: there is no model, or a value is not one the preset can hold; the flag is named.
        """
        env = self._sorted_env()
        kind = self._kind(env)
        values, flags = self._split_flags()
        self._apply_env(env, values)
        given = self.flags.get("model")
        model = (given.text if given else None) or self.model
        if not model:
            raise PresetError("There is no model in it.", hint="vllm serve needs the model's name or its folder.")
        modelscope = self.env.get("VLLM_USE_MODELSCOPE", "").lower() in ("1", "true")
        values["model"] = model_source(model, values.pop("revision", None), modelscope=modelscope, note=self.note)
        name = values["model"]["name"]
        values.setdefault("served_name", _served_name(name))
        given_quantization = values.pop("quantization", None)
        values["quantization"] = quantization_of(given_quantization, model, note=self.note)
        self._fit_to(kind, values)
        title = {"en": f"{name} (imported)", "zh": f"{name}（导入）"}
        values |= {"name": _slug(name), "title": title, "summary": self.origin.model_dump()}
        values |= {"engine": kind, "flags": flags, "env": env}
        return Import(_validated(values), tuple(self.notes))

    def _split_flags(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The preset's own keys, and the flags that stay flags."""
        values: dict[str, Any] = {}
        flags: dict[str, Any] = {}
        for name, flag in self.flags.items():
            if name == "model":
                continue
            if name in _SECRET_FLAGS or has_secret(flag.text):
                self.note("secret_left_out", name=f"--{name}")
            elif name in _ADDRESS_FLAGS:
                self.note("address_left_out", name=f"--{name}", value=flag.text)
            elif name == "config":
                self.note("config_left_out", value=flag.text)
            elif name in _PANEL_FLAGS:
                self.note("panel_decides", name=f"--{name}")
            elif name in _DOWNLOAD_FLAGS:
                self.note("downloads_left_out", name=f"--{name}")
            elif _VARIABLE.search(flag.text):
                raise _unset(f"--{name}", flag.text)
            elif name in INTENT_FLAGS:
                values |= intent_of(flag, note=self.note)
            else:
                flags[flag.name] = _flag_value(flag.value)
        self._count_cards(values)
        return values, flags

    def _count_cards(self, values: dict[str, Any]) -> None:
        tensor, pipeline = values.pop("tensor", 1), values.pop("pipeline", 1)
        values["gpus"] = tensor * pipeline
        if pipeline > 1 and tensor == 1:
            values["parallel"] = "pipeline"
        elif pipeline > 1:
            self.note("cards_multiplied", tensor=str(tensor), pipeline=str(pipeline), gpus=str(tensor * pipeline))

    def _sorted_env(self) -> dict[str, str]:
        """The variables that stay; why each of the others does not."""
        kept: dict[str, str] = {}
        for name, value in self.env.items():
            if is_secret(name, value):
                self.note("secret_left_out", name=name)
            elif name in _CARDS_ENV:
                if value and name != "CUDA_DEVICE_ORDER":
                    self.note("cards_left_out", value=f"{name}={value}")
            elif name in _ADDRESS_ENV:
                self.note("address_left_out", name=name, value=value)
            elif name in PANEL_ENV or name.startswith("VOLTA_PANEL_") or _PLACES_ENV.fullmatch(name):
                self.note("panel_decides", name=name)
            elif _DOWNLOADS_ENV.fullmatch(name):
                self.note("downloads_left_out", name=name)
            elif _VARIABLE.search(value):
                raise _unset(name, value)
            else:
                kept[name] = value
        return kept

    def _apply_env(self, env: dict[str, str], values: dict[str, Any]) -> None:
        """Variables that a key of the preset stands for."""
        backend = env.pop("VLLM_ATTENTION_BACKEND", None)
        if backend and "attention_backend" not in values:
            values |= intent_of(GivenFlag("attention-backend", backend, "VLLM_ATTENTION_BACKEND"), note=self.note)
        space = env.pop("VLLM_CPU_KVCACHE_SPACE", None)
        if space:
            values["kv_cache_gib"] = json_or_text(space)

    def _kind(self, env: Mapping[str, str]) -> EngineKind:
        if self.engine is not None:
            return self.engine
        device = self.flags.pop("device", None)
        if "VLLM_CPU_KVCACHE_SPACE" in env or (device is not None and device.text == "cpu"):
            return EngineKind.CPU
        backend = self.flags.get("attention-backend")
        if backend is not None and backend.text.upper() in ("CUSTOM", "DFLASH2"):
            return EngineKind.VOLTA
        return EngineKind.CUDA

    def _fit_to(self, kind: EngineKind, values: dict[str, Any]) -> None:
        """What this kind of engine needs, and without what it cannot have."""
        values.setdefault("dtype", "float16" if kind is EngineKind.VOLTA else "auto")
        if "context" not in values:
            values["context"] = ASSUMED_CONTEXT
            self.note("context_assumed", value=str(ASSUMED_CONTEXT))
        if kind is not EngineKind.CPU:
            values.pop("kv_cache_gib", None)
            return
        values["gpus"] = 0
        for key in ("memory_utilization", "cpu_offload_gib", "kv_offload_gib", "attention_backend"):
            if values.pop(key, None) is not None:
                self.note("not_on_a_cpu", name=key)
        if not values.get("kv_cache_gib"):
            values["kv_cache_gib"] = ASSUMED_KV_CACHE_GIB
            self.note("kv_cache_assumed", value=f"{ASSUMED_KV_CACHE_GIB:g}")


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a key, a token or a password, by its name or by the look of its value."""
    by_name = _SECRET.search(name) is not None and _TOKENS_NO_SECRET.search(name.upper()) is None
    return by_name or has_secret(value)


def _unset(name: str, value: str) -> PresetError:
    variable = _VARIABLE.search(value)
    shown = variable.group() if variable else value
    return PresetError(f"{name} holds {shown}, which the text does not set.", hint="Write its value instead.")


def _flag_value(value: Value) -> Any:
    """As a preset writes it: a number where it is one, so that the file reads naturally."""
    if isinstance(value, tuple):
        return value if len(value) > 1 else value[0]
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", value) and str(json_or_text(value)) == value:
        return json_or_text(value)
    return value


def _served_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._/-]", "-", name).lstrip("._/-")[:96] or "model"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:54].rstrip("-.") or "imported"


def _validated(values: dict[str, Any]) -> Preset:
    try:
        return Preset.model_validate(values)
    except ValidationError as err:
        problem = err.errors(include_url=False)[0]
        key = str(problem.get("ctx", {}).get("key") or ".".join(str(part) for part in problem["loc"]))
        flag = next((f" (--{flag})" for flag, own in INTENT_FLAGS.items() if own == key.split(".")[0]), "")
        raise PresetError(f"This cannot become a preset: {key}{flag}: {problem['msg']}.") from err
