"""What a person changes about a preset for one launch, and what a failure's button changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from backend.errors import LaunchError
from backend.failure.failure import Fix, FixKind

NO_SPECULATION = "off"
Flag = bool | int | float | str | tuple[str, ...]

_NOT_KEYS = frozenset(
    (
        "model",
        "environment",
        "cards",
        "host",
        "port",
        "dropped_flags",
        "flags",
        "env",
        "speculation",
        "speculation_tokens",
    )
)
_FIELDS = {
    FixKind.CONTEXT: ("context", int),
    FixKind.MEMORY_UTILIZATION: ("memory_utilization", float),
    FixKind.MAX_SEQUENCES: ("max_sequences", int),
    FixKind.BATCHED_TOKENS: ("max_batched_tokens", int),
    FixKind.KV_CACHE_GIB: ("kv_cache_gib", float),
    FixKind.DTYPE: ("dtype", str),
    FixKind.GPUS: ("gpus", int),
    FixKind.QUANTIZATION: ("quantization", str),
    FixKind.ENVIRONMENT: ("environment", str),
    FixKind.PARALLEL: ("parallel", str),
    FixKind.KV_CACHE_DTYPE: ("kv_cache_dtype", str),
    FixKind.CPU_OFFLOAD_GIB: ("cpu_offload_gib", float),
    FixKind.KV_OFFLOAD_GIB: ("kv_offload_gib", float),
    FixKind.HOST: ("host", str),
}


@dataclass(frozen=True)
class Adjustments:
    """Changes for one launch; None is the preset's own value. Bounds are checked where they meet the preset."""

    context: int | None = None  # tokens
    model: str | None = None  # one on this machine by its name, or owner/name on the hub
    memory_utilization: float | None = None  # share of each card's memory
    max_sequences: int | None = None
    max_batched_tokens: int | None = None
    kv_cache_gib: float | None = None  # CPU engines
    dtype: str | None = None
    quantization: str | None = None
    gpus: int | None = None
    parallel: str | None = None  # "tensor" or "pipeline"
    eager: bool | None = None
    prefix_caching: bool | None = None
    chunked_prefill: bool | None = None
    kv_cache_dtype: str | None = None
    cpu_offload_gib: float | None = None
    kv_offload_gib: float | None = None
    attention_backend: str | None = None
    served_name: str | None = None
    speculation: str | None = None  # NO_SPECULATION, or a method that needs no second model
    speculation_tokens: int | None = None
    flags: Mapping[str, Flag] = field(default_factory=dict)  # further flags, beside the preset's own
    env: Mapping[str, str] = field(default_factory=dict)
    environment: str | None = None  # id of an engine environment, or the recipe that makes one
    cards: tuple[str, ...] = ()  # UUIDs; empty: the panel picks them
    host: str | None = None  # None: this machine only
    port: int | None = None  # None: one the panel picks
    dropped_flags: tuple[str, ...] = ()  # flags of the preset to leave out, without their dashes

    def with_fix(self, fix: Fix) -> "Adjustments":
        """These changes and what the fix changes.

        A fix without a number (PORT: another free one, RETRY: the same again) changes what is picked anew at each
        launch, so it only takes back what a person had pinned.

        Raises:
            LaunchError: the fix's value is not one of its kind.
        """
        if fix.kind is FixKind.PORT:
            return replace(self, port=int(_number(fix, int)) if fix.value else None)
        if fix.kind is FixKind.DROP_FLAG:
            flag = fix.value.lstrip("-").split("=", 1)[0]
            if not flag:
                raise LaunchError("This fix names no flag to leave out.")
            return self if flag in self.dropped_flags else replace(self, dropped_flags=(*self.dropped_flags, flag))
        if fix.kind is FixKind.RETRY:
            return self
        if fix.kind is FixKind.EAGER:
            return replace(self, eager=fix.value != "false")
        if fix.kind is FixKind.PREFIX_CACHING:
            return replace(self, prefix_caching=fix.value != "false")
        if fix.kind is FixKind.CARDS:
            return replace(self, cards=tuple(uuid for uuid in fix.value.split(",") if uuid))
        name, kind = _FIELDS[fix.kind]
        if not fix.value:
            raise LaunchError(f"This fix names no new value for {name}.")
        changed: dict[str, Any] = {name: fix.value if kind is str else _number(fix, kind)}
        return replace(self, **changed)

    def changes(self) -> dict[str, Any]:
        """The preset's keys that simply get another value, by name. Not those that are merged or are no key of it."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NOT_KEYS}
        return {name: value for name, value in values.items() if value is not None}


def _number(fix: Fix, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(fix.value)
    except ValueError as err:
        raise LaunchError(f"{fix.value!r} is not a number for {fix.kind}.") from err
