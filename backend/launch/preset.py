"""The preset: a named launch recipe as intent, and what may be asked for together."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from backend.errors import LaunchError
from backend.launch.adjustments import NO_SPECULATION, Adjustments
from backend.launch.engine_kind import EngineKind

Dtype = Literal["auto", "float32", "float16", "bfloat16"]
Quantization = Literal["none", "nvfp4", "fp8", "int8", "awq", "gptq"]
KvCacheDtype = Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]
Parallel = Literal["tensor", "pipeline"]
SpeculationMethod = Literal["mtp", "ngram", "eagle", "eagle3", "draft_model", "suffix"]
FlagWords = Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=64)]
Flag = bool | int | float | Annotated[str, Field(max_length=8192)] | FlagWords

DFLASH2 = "dflash2"  # as attention_backend: this project's kernels, which vLLM knows as CUSTOM
BFLOAT16_CAPABILITY = (8, 0)
FP8_KV_CAPABILITY = (8, 9)
CUDA_CAPABILITY = (7, 5)
DEFAULT_GUESSED_TOKENS = 2

INTENT_FLAGS: Mapping[str, str] = {
    "dtype": "dtype",
    "quantization": "quantization",
    "max-model-len": "context",
    "gpu-memory-utilization": "memory_utilization",
    "max-num-seqs": "max_sequences",
    "max-num-batched-tokens": "max_batched_tokens",
    "enable-prefix-caching": "prefix_caching",
    "enable-chunked-prefill": "chunked_prefill",
    "enforce-eager": "eager",
    "kv-cache-dtype": "kv_cache_dtype",
    "cpu-offload-gb": "cpu_offload_gib",
    "kv-offloading-size": "kv_offload_gib",
    "attention-backend": "attention_backend",
    "speculative-config": "speculation",
    "override-generation-config": "sampling",
    "tensor-parallel-size": "gpus",
    "pipeline-parallel-size": "parallel",
    "served-model-name": "served_name",
    "model": "model",
    "revision": "model.huggingface.revision",
}
"""Flags that a key of the preset stands for: written under `flags` they would be there twice."""

SPELLED_OUT: Mapping[str, tuple[str, object]] = {
    "quantization": ("quantization", "none"),
    "kv-cache-dtype": ("kv_cache_dtype", None),
    "speculative-config": ("speculation", None),
    "override-generation-config": ("sampling", None),
}
"""Flags that say more than our key for them: allowed under `flags` while the key, named here with its default, is left out."""

PANEL_FLAGS: Mapping[str, str] = {
    "host": "the panel picks the address",
    "port": "the panel picks a free port",
    "uds": "the panel talks to its engines over a port",
    "api-key": "a key in a command can be read by every user of the machine; the panel passes its own by environment",
    "config": "a preset is the whole configuration; import the file instead",
}
"""Flags that are the panel's, and why."""

INTENT_ENV: Mapping[str, str] = {
    "VLLM_CPU_KVCACHE_SPACE": "kv_cache_gib",
    "VLLM_ATTENTION_BACKEND": "attention_backend",
    "CUDA_VISIBLE_DEVICES": "gpus",
}
"""Environment variables that a key of the preset stands for."""

PANEL_ENV = frozenset({"VLLM_API_KEY", "VLLM_PORT", "VLLM_HOST_IP", "VLLM_NO_USAGE_STATS", "PYTHONUNBUFFERED"})


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Words(_Strict):
    """One text in the panel's languages."""

    en: Annotated[str, Field(min_length=1, max_length=2000, description="in English")]
    zh: Annotated[str, Field(min_length=1, max_length=2000, description="in Chinese")]

    def in_language(self, language: str) -> str:
        return self.zh if language == "zh" else self.en


class HubSource(_Strict):
    """Where a model lies on one hub."""

    repo: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$", description="owner/name")]
    revision: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9][\w./-]{0,95}$", description="branch, tag or commit of the repository")
    ] = "main"


class ModelSource(_Strict):
    """Which model, and where it can be had."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="the model's name in the state folder, as the Models page shows it",
        ),
    ]
    huggingface: Annotated[HubSource | None, Field(description="the repository on Hugging Face")] = None
    modelscope: Annotated[HubSource | None, Field(description="the repository on ModelScope")] = None
    verified: Annotated[
        str | None,
        Field(
            pattern=r"^\d{4}-\d{2}-\d{2} .{1,200}$",
            description="day and way the repository ids were checked; leave it out where nobody did",
        ),
    ] = None


class Card(_Strict):
    """The graphics card a preset is written for."""

    name: Annotated[str, Field(min_length=1, max_length=80, description="as people call it, such as Tesla V100 32 GB")]
    memory_gib: Annotated[float, Field(gt=0, le=1024, description="memory of one card")]
    capability: Annotated[str, Field(pattern=r"^\d{1,2}\.\d$", description="CUDA compute capability, in quotes: '7.0'")]

    @property
    def version(self) -> tuple[int, int]:
        """The compute capability as numbers: (7, 0)."""
        major, minor = self.capability.split(".")
        return int(major), int(minor)


class Speculation(_Strict):
    """Guess some tokens ahead and let the model check them at once."""

    method: Annotated[SpeculationMethod, Field(description="who guesses; mtp: the model's own extra layers")]
    tokens: Annotated[int, Field(ge=1, le=32, description="tokens guessed at once")]
    model: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="the guessing model; for eagle, eagle3, draft_model"),
    ] = None
    lookup_max: Annotated[int | None, Field(ge=1, le=64, description="longest match that ngram looks for")] = None
    lookup_min: Annotated[int | None, Field(ge=1, le=64, description="shortest match that ngram looks for")] = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.method in ("eagle", "eagle3", "draft_model") and self.model is None:
            _refuse("model", f"{self.method} needs a model of its own that guesses")
        if self.method in ("mtp", "ngram", "suffix") and self.model is not None:
            _refuse("model", f"{self.method} needs no second model")
        for key in ("lookup_max", "lookup_min"):
            if self.method != "ngram" and getattr(self, key) is not None:
                _refuse(key, f"only ngram looks up earlier text, not {self.method}")
        if self.lookup_max is not None and self.lookup_min is not None and self.lookup_min > self.lookup_max:
            _refuse("lookup_min", "must not be above lookup_max")
        return self


class Sampling(_Strict):
    """What the server takes where a request says nothing; None: what the model's own generation_config says."""

    temperature: Annotated[float | None, Field(ge=0, le=2, description="0: always the likeliest token")] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, description="share of the probability that is drawn from")] = None
    top_k: Annotated[int | None, Field(ge=0, le=100_000, description="number of tokens drawn from; 0: all")] = None
    min_p: Annotated[float | None, Field(ge=0, le=1, description="least probability, relative to the likeliest")] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=2, description="1: none")] = None
    max_new_tokens: Annotated[int | None, Field(ge=1, description="tokens of an answer where a request says none")] = (
        None
    )


class Preset(_Strict):
    """A recipe as intent: which model, on which kind of engine, with how much context. The launcher spells it.

    An optional key that is left out leaves the decision to the engine, except where its description says otherwise.
    """

    name: Annotated[
        str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$", description="unique; the file is called like it, with .yaml")
    ]
    title: Annotated[Words, Field(description="one line, for the list of presets")]
    summary: Annotated[Words, Field(description="what it is good for, what it needs, what to expect")]
    model: Annotated[ModelSource, Field(description="which model, and where it can be had")]
    served_name: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,95}$", description="what clients call the model")
    ]
    engine: Annotated[
        EngineKind,
        Field(strict=False, description="cpu; volta: a vLLM whose torch has code for the V100; cuda: any CUDA build"),
    ]
    card: Annotated[Card | None, Field(description="the card it is written for; none for cpu")] = None
    gpus: Annotated[int, Field(ge=0, le=64, description="number of cards; 0 for cpu")] = 0
    parallel: Annotated[
        Parallel,
        Field(description="how several cards share: tensor splits each layer, pipeline gives each card some layers"),
    ] = "tensor"
    dtype: Annotated[Dtype, Field(description="what is calculated in; float16 on cards before Ampere")]
    quantization: Annotated[
        Quantization, Field(description="the format of the checkpoint's weights; none: as large as dtype says")
    ] = "none"
    context: Annotated[int, Field(ge=64, le=16_777_216, description="tokens, prompt and answer together")]
    kv_cache_gib: Annotated[
        float | None, Field(gt=0, le=4096, description="cpu only, and needed there: memory for the KV cache")
    ] = None
    memory_utilization: Annotated[
        float | None, Field(gt=0, le=1, description="share of each card's memory the engine may take, 0 to 1")
    ] = None
    max_sequences: Annotated[int | None, Field(ge=1, le=8192, description="requests worked on at once")] = None
    max_batched_tokens: Annotated[
        int | None,
        Field(ge=16, le=1_048_576, description="tokens in one step; less needs less memory for long prompts"),
    ] = None
    prefix_caching: Annotated[bool | None, Field(description="keep the KV cache of equal beginnings")] = None
    chunked_prefill: Annotated[
        bool | None, Field(description="long prompts in pieces, between other requests' tokens")
    ] = None
    eager: Annotated[
        bool | None, Field(description="true: no compilation and no CUDA graphs; starts sooner, runs slower")
    ] = None
    kv_cache_dtype: Annotated[
        KvCacheDtype | None, Field(description="format of the KV cache; the fp8 ones need capability 8.9")
    ] = None
    cpu_offload_gib: Annotated[
        float | None,
        Field(gt=0, le=4096, description="GiB of weights a card keeps in main memory; each step waits for them"),
    ] = None
    kv_offload_gib: Annotated[
        float | None,
        Field(gt=0, le=4096, description="GiB of main memory that takes KV cache the cards have no room for"),
    ] = None
    attention_backend: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$",
            description="dflash2: this project's kernels for the V100, where the environment has them; else vLLM's name",
        ),
    ] = None
    speculation: Annotated[Speculation | None, Field(description="tokens guessed ahead")] = None
    sampling: Annotated[Sampling | None, Field(description="defaults for requests that say nothing")] = None
    flags: Annotated[
        Mapping[str, Flag],
        Field(description="further flags of the engine, without their dashes; false is the --no- form"),
    ] = {}
    env: Annotated[Mapping[str, str], Field(description="further environment variables, as texts")] = {}
    expected_ready_s: Annotated[
        float | None, Field(gt=0, le=86_400, description="seconds to ready, a hint until a run has measured it")
    ] = None
    ready_timeout_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=86_400,
            description="seconds after which a start is given up; left out: by model size and disk speed",
        ),
    ] = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.engine is EngineKind.CPU:
            self._check_cpu()
        else:
            self._check_cards()
        self._check_flags()
        self._check_env()
        return self

    def _check_cpu(self) -> None:
        for key in ("card", "memory_utilization", "cpu_offload_gib", "kv_offload_gib", "attention_backend"):
            if getattr(self, key) is not None:
                _refuse(key, "is for engines on a graphics card, not for engine: cpu")
        if self.gpus:
            _refuse("gpus", "must be 0 for engine: cpu")
        if self.kv_cache_gib is None:
            _refuse("kv_cache_gib", "is needed for engine: cpu, which takes 92 % of the memory without it")

    def _check_cards(self) -> None:
        if self.gpus < 1:
            _refuse("gpus", f"must be 1 or more for engine: {self.engine}")
        if self.kv_cache_gib is not None:
            _refuse("kv_cache_gib", "is for engine: cpu; on a card the KV cache gets what memory_utilization leaves")
        if self.attention_backend == DFLASH2 and self.engine is not EngineKind.VOLTA:
            _refuse("attention_backend", "dflash2 is for engine: volta")
        if self.card is None:
            return
        capability, card = self.card.version, f"{self.card.name} (compute capability {self.card.capability})"
        if self.engine is EngineKind.CUDA and capability < CUDA_CAPABILITY:
            _refuse("engine", f"{card} needs engine: volta")
        if self.dtype == "bfloat16" and capability < BFLOAT16_CAPABILITY:
            _refuse("dtype", f"bfloat16 needs compute capability 8.0, {card} has less; use float16")
        if self.kv_cache_dtype == "bfloat16" and capability < BFLOAT16_CAPABILITY:
            _refuse("kv_cache_dtype", f"bfloat16 needs compute capability 8.0, {card} has less; use auto")
        if (self.kv_cache_dtype or "").startswith("fp8") and capability < FP8_KV_CAPABILITY:
            _refuse("kv_cache_dtype", f"an fp8 KV cache needs compute capability 8.9, {card} has less; use auto")

    def _check_flags(self) -> None:
        for flag in self.flags:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}", flag):
                _refuse(f"flags.{flag}", "is not the name of a flag; write it without dashes in front")
            name = _plain(flag)
            if name in SPELLED_OUT:
                key, default = SPELLED_OUT[name]
                if getattr(self, key) != default:
                    _refuse(f"flags.{flag}", f"is there twice: {key} is set as well")
            elif name in INTENT_FLAGS:
                _refuse(f"flags.{flag}", f"has a key of its own: {INTENT_FLAGS[name]}")
            if name in PANEL_FLAGS:
                _refuse(f"flags.{flag}", f"cannot be set here: {PANEL_FLAGS[name]}")

    def _check_env(self) -> None:
        for name in self.env:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,95}", name):
                _refuse(f"env.{name}", "is not the name of an environment variable")
            if name in INTENT_ENV:
                _refuse(f"env.{name}", f"has a key of its own: {INTENT_ENV[name]}")
            if name in PANEL_ENV or name.startswith("VOLTA_PANEL_"):
                _refuse(f"env.{name}", "is set by the panel itself")

    def adjusted(self, adjustments: Adjustments) -> "Preset":
        """This preset with what a person changed for one launch.

        Raises:
            LaunchError: a changed value is out of bounds or does not fit the rest.
        """
        dropped = {_plain(flag) for flag in adjustments.dropped_flags}
        changes: dict[str, Any] = adjustments.changes()
        for flag in dropped & INTENT_FLAGS.keys():
            key = INTENT_FLAGS[flag]
            if key in Preset.model_fields and not Preset.model_fields[key].is_required():
                changes[key] = Preset.model_fields[key].default
        kept = {name: value for name, value in self.flags.items() if _plain(name) not in dropped}
        changes["flags"] = {**kept, **adjustments.flags}
        changes["env"] = {**self.env, **adjustments.env}
        if adjustments.model is not None and adjustments.model != self.model.name:
            changes["model"] = _named_model(adjustments.model)
        if adjustments.speculation is not None or adjustments.speculation_tokens is not None:
            changes["speculation"] = self._other_speculation(adjustments)
        values = {name: getattr(self, name) for name in Preset.model_fields}
        try:
            return Preset.model_validate({**values, **changes})
        except ValidationError as err:
            problem = err.errors(include_url=False, include_input=False)[0]
            key = str(problem.get("ctx", {}).get("key") or ".".join(str(part) for part in problem["loc"]))
            raise LaunchError(f"{self.title.en} cannot be changed so: {key}: {problem['msg']}.") from err

    def _other_speculation(self, adjustments: Adjustments) -> dict[str, Any] | None:
        """Another method forgets what only the preset's own had: its second model, its lookup."""
        if adjustments.speculation == NO_SPECULATION:
            return None
        own = self.speculation
        method = adjustments.speculation or (own.method if own else "mtp")
        tokens = adjustments.speculation_tokens or (own.tokens if own else DEFAULT_GUESSED_TOKENS)
        if own is not None and own.method == method:
            return {**own.model_dump(), "tokens": tokens}
        return {"method": method, "tokens": tokens}


def _named_model(name: str) -> dict[str, Any]:
    """A model as a person names it: owner/name is a repository, whose folder would be called like its last part."""
    owner, is_repository, last = name.partition("/")
    return {"name": last, "huggingface": {"repo": name}} if owner and is_repository and last else {"name": name}


def _plain(flag: str) -> str:
    """A flag's name without dashes in front, in the one spelling that both --no_x and --no-x have in common: x."""
    return flag.lstrip("-").replace("_", "-").removeprefix("no-")


def _refuse(key: str, why: str) -> NoReturn:
    """Report a mistake that only shows when keys are seen together; `key` is the one to look at."""
    raise PydanticCustomError("together", "{why}", {"key": key, "why": why})
