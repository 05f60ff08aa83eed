"""The launch form: one table of its fields, each with what it costs, and the values a person typed read back from it."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_args

from backend.errors import LaunchError
from backend.launch.adjustments import NO_SPECULATION, Adjustments, Flag
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Dtype, KvCacheDtype, Preset, Quantization
from ui.strings import Language, text

WITH_CARDS = frozenset({EngineKind.VOLTA, EngineKind.CUDA})
ANY_ENGINE = frozenset(EngineKind)
EVERYWHERE = "0.0.0.0"
MOST_CHARACTERS = 96


class FormError(LaunchError):
    """What a field refuses, in the words of either language."""

    def __init__(self, key: str, name: str, **values: object) -> None:
        self._key, self._name, self._values = key, name, values
        super().__init__(self.in_language(Language.EN))

    def in_language(self, language: Language) -> str:
        """The sentence, with the field called what the form calls it."""
        return text(self._key, language, field=text(f"field.{self._name}", language), **self._values)


class FieldKind(StrEnum):
    """How a field is drawn and read."""

    WHOLE = "whole"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"  # as in the preset, on, off
    TEXT = "text"
    SECRET = "secret"
    LINES = "lines"


@dataclass(frozen=True)
class FormField:
    """One field. Its words are field.<name> and field.<name>_cost."""

    name: str
    kind: FieldKind
    basic: bool = False  # shown to a lab member; the others to who asks for all
    engines: frozenset[EngineKind] = ANY_ENGINE
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    step: float | None = None


FIELDS = (
    FormField("model", FieldKind.TEXT, basic=True),
    FormField("context", FieldKind.WHOLE, basic=True, least=64, most=16_777_216, step=1),
    FormField("max_sequences", FieldKind.WHOLE, basic=True, least=1, most=8192, step=1),
    FormField("memory_utilization", FieldKind.NUMBER, basic=True, engines=WITH_CARDS, least=0.05, most=1, step=0.01),
    FormField("kv_cache_gib", FieldKind.NUMBER, basic=True, engines=frozenset({EngineKind.CPU}), least=0.01, most=4096),
    FormField("served_name", FieldKind.TEXT, basic=True),
    FormField("gpus", FieldKind.WHOLE, engines=WITH_CARDS, least=1, most=64, step=1),
    FormField("parallel", FieldKind.CHOICE, engines=WITH_CARDS, choices=("tensor", "pipeline")),
    FormField("quantization", FieldKind.CHOICE, choices=get_args(Quantization)),
    FormField("dtype", FieldKind.CHOICE, choices=get_args(Dtype)),
    FormField("kv_cache_dtype", FieldKind.CHOICE, choices=get_args(KvCacheDtype)),
    FormField("max_batched_tokens", FieldKind.WHOLE, least=16, most=1_048_576, step=1),
    FormField("prefix_caching", FieldKind.SWITCH),
    FormField("chunked_prefill", FieldKind.SWITCH),
    FormField("eager", FieldKind.SWITCH),
    FormField("cpu_offload_gib", FieldKind.NUMBER, engines=WITH_CARDS, least=0.1, most=4096, step=0.1),
    FormField("kv_offload_gib", FieldKind.NUMBER, engines=WITH_CARDS, least=0.1, most=4096, step=0.1),
    FormField("attention_backend", FieldKind.TEXT, engines=WITH_CARDS),
    FormField("speculation", FieldKind.CHOICE, choices=(NO_SPECULATION, "mtp", "ngram")),
    FormField("speculation_tokens", FieldKind.WHOLE, least=1, most=32, step=1),
    FormField("host", FieldKind.CHOICE, choices=(EVERYWHERE,)),
    FormField("port", FieldKind.WHOLE, least=1024, most=65_535, step=1),
    FormField("api_key", FieldKind.SECRET),
    FormField("flags", FieldKind.LINES),
    FormField("env", FieldKind.LINES),
)
"""In the order of the form. Environment and cards come before them: what there is to choose is known only then."""


def fields_for(preset: Preset) -> tuple[FormField, ...]:
    """The fields that mean something for this preset's kind of engine."""
    return tuple(field for field in FIELDS if preset.engine in field.engines)


def preset_value(preset: Preset, name: str) -> str:
    """What a field holds where nothing is changed, as text; "" where the preset leaves it to the engine."""
    if name == "model":
        return preset.model.name
    if name == "speculation":
        return preset.speculation.method if preset.speculation else NO_SPECULATION
    if name == "speculation_tokens":
        return str(preset.speculation.tokens) if preset.speculation else ""
    value = getattr(preset, name, None) if name not in ("flags", "env") else None
    if value is None or isinstance(value, bool):
        return {True: "on", False: "off", None: ""}[value]
    return str(value)


def shown_values(preset: Preset, adjustments: Adjustments) -> dict[str, str]:
    """What the form shows when it opens: the preset's values, and over them what was changed before."""
    values = {field.name: preset_value(preset.adjusted(adjustments), field.name) for field in FIELDS}
    values["flags"] = "\n".join(_flag_line(name, value) for name, value in adjustments.flags.items())
    values["env"] = "\n".join(f"{name}={value}" for name, value in adjustments.env.items())
    values["host"] = adjustments.host or ""
    values["port"] = str(adjustments.port or "")
    return values


def read_form(preset: Preset, fields: Mapping[str, Any]) -> Adjustments:
    """What the typed values change about the preset. A flag that a finding's button dropped stands in a hidden field.

    Raises:
        LaunchError: names the field, the value and what is wrong with it.
    """
    changed: dict[str, Any] = {}
    for field in fields_for(preset):
        typed = str(fields.get(field.name, "")).strip()
        if (
            field.name in ("flags", "env", "host", "port", "api_key")
            or typed == preset_value(preset, field.name)
            or not typed
        ):
            continue
        changed[field.name] = _READERS[field.kind](field, typed)
    cards = tuple(
        sorted(name.removeprefix("card/") for name, on in fields.items() if name.startswith("card/") and on is True)
    )
    if cards and "gpus" not in changed and len(cards) != preset.gpus:
        changed["gpus"] = len(cards)
    host = str(fields.get("host", "")).strip()
    if host and host != EVERYWHERE:
        raise FormError("form.not_choice", "host", value=repr(host[:40]), choices=EVERYWHERE)
    return Adjustments(
        **changed,
        flags=read_flags(str(fields.get("flags", ""))),
        env=read_env(str(fields.get("env", ""))),
        environment=str(fields.get("environment", "")).strip() or None,
        cards=cards,
        host=host or None,
        port=_port(str(fields.get("port", "")).strip()),
        dropped_flags=tuple(flag for flag in str(fields.get("dropped", "")).split(",") if flag.strip()),
    )


def read_flags(typed: str) -> dict[str, Flag]:
    """Flags as a person types them, one a line: --seed 1, --enable-x, --no-y.

    Raises:
        LaunchError: names the line.
    """
    flags: dict[str, Flag] = {}
    for number, line in enumerate(typed.splitlines(), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as err:
            raise FormError("form.flag_quotes", "flags", line=number, value=repr(line.strip()[:80])) from err
        if not words:
            continue
        name, has_value, value = words[0].partition("=")
        if not name.startswith("--") or len(name) < 3:
            raise FormError("form.flag_line", "flags", line=number, value=repr(line.strip()[:80]))
        rest = ((value,) if has_value else ()) + tuple(words[1:])
        if not rest:
            flags[name[2:].removeprefix("no-")] = not name.startswith("--no-")
        else:
            flags[name[2:]] = rest[0] if len(rest) == 1 else rest
    return flags


def read_env(typed: str) -> dict[str, str]:
    """Variables as a person types them, one NAME=value a line.

    Raises:
        LaunchError: names the line, not the value: it may be a secret.
    """
    env = {}
    for number, line in enumerate(typed.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, has_value, value = line.partition("=")
        if not has_value or not name.strip():
            raise FormError("form.env_line", "env", line=number)
        env[name.strip()] = value.strip()
    return env


def _flag_line(name: str, value: Flag) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    words = value if isinstance(value, tuple) else (str(value),)
    return shlex.join((f"--{name}", *words))


def _whole(field: FormField, typed: str) -> int:
    try:
        value = int(typed)
    except ValueError as err:
        raise FormError("form.not_whole", field.name, value=repr(typed[:40])) from err
    return int(_bounded(field, value))


def _decimal(field: FormField, typed: str) -> float:
    try:
        value = float(typed)
    except ValueError as err:
        raise FormError("form.not_number", field.name, value=repr(typed[:40])) from err
    return _bounded(field, value)


def _bounded(field: FormField, value: float) -> float:
    least, most = field.least, field.most
    if (least is not None and not value >= least) or (most is not None and not value <= most):
        raise FormError("form.out_of_range", field.name, value=f"{value:.9g}", least=f"{least:.9g}", most=f"{most:.9g}")
    return value


def _choice(field: FormField, typed: str) -> str:
    if typed not in field.choices:
        raise FormError("form.not_choice", field.name, value=repr(typed[:40]), choices=", ".join(field.choices))
    return typed


def _switch(field: FormField, typed: str) -> bool:
    return _choice(FormField(field.name, field.kind, choices=("on", "off")), typed) == "on"


def _text(field: FormField, typed: str) -> str:
    if len(typed) > MOST_CHARACTERS:
        raise FormError("form.too_long", field.name, most=MOST_CHARACTERS)
    return typed


def _port(typed: str) -> int | None:
    return _whole(next(field for field in FIELDS if field.name == "port"), typed) if typed else None


_READERS: Mapping[FieldKind, Callable[[FormField, str], Any]] = {
    FieldKind.WHOLE: _whole,
    FieldKind.NUMBER: _decimal,
    FieldKind.CHOICE: _choice,
    FieldKind.SWITCH: _switch,
    FieldKind.TEXT: _text,
}
