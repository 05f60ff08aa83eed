"""What more than one rule asks of a situation: the cards that are meant, what the launch calculates in, and figures as text."""

from collections.abc import Iterator
from dataclasses import dataclass

from backend.fit.element import GIB
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import DFLASH2
from backend.launch.wishes import KV_BYTES_VERSION
from backend.preflight.finding import Severity
from backend.preflight.situation import Situation
from backend.reading import Missing, Reading

VOLTA = (7, 0)
TURING = (7, 5)
KV_STEP_GIB = 0.25
OWN_PLUGINS = "lora_"  # vLLM's own, in every environment: they fetch adapters


@dataclass(frozen=True)
class Target:
    """One generation of cards that the launch would run on."""

    name: str
    capability: tuple[int, int]
    is_seen: bool  # False: only the preset says so, no card could be asked

    @property
    def is_volta(self) -> bool:
        return VOLTA <= self.capability < TURING

    @property
    def capability_text(self) -> str:
        return f"{self.capability[0]}.{self.capability[1]}"

    @property
    def severity(self) -> Severity:
        """Of something that this card cannot do: what is only assumed is no error."""
        return Severity.ERROR if self.is_seen else Severity.WARNING


def targets(situation: Situation) -> tuple[Target, ...]:
    """Each generation among the chosen cards once; where no card is known, the one the preset is written for."""
    if situation.preset.engine is EngineKind.CPU:
        return ()
    seen = {card.capability: card.name for card in situation.cards if card.capability is not None}
    if seen:
        return tuple(Target(name, capability, True) for capability, name in sorted(seen.items()))
    card = situation.preset.card
    if card is not None:
        return (Target(card.name, card.version, False),)
    return (Target("V100", VOLTA, False),) if situation.preset.engine is EngineKind.VOLTA else ()


def volta_targets(situation: Situation) -> Iterator[Target]:
    """The Volta cards among them."""
    return (target for target in targets(situation) if target.is_volta)


def is_written_for_cpu(situation: Situation) -> bool:
    """Whether the launch needs no card."""
    return situation.preset.engine is EngineKind.CPU


def major_of(version: str | None) -> int | None:
    """The first number of a version: 580 of "580.95.05"; None where there is none."""
    head = (version or "").strip().partition(".")[0]
    return int(head) if head.isascii() and head.isdigit() and len(head) < 6 else None


def effective_kv_dtype(situation: Situation) -> str:
    """The KV cache's format as vLLM will decide: what is asked for, else what the checkpoint wants, else "auto"."""
    asked = situation.preset.flags.get("kv-cache-dtype") or situation.preset.kv_cache_dtype
    if asked not in (None, "auto"):
        return str(asked)
    facts = situation.model.facts
    return (facts.kv_cache_dtype if facts else None) or "auto"


def flag_of(situation: Situation, name: str) -> object:
    """A further flag of the preset, in either spelling; None where it is not set."""
    flags = situation.preset.flags
    return flags.get(name, flags.get(name.replace("-", "_")))


def kv_step_gib(situation: Situation) -> float:
    """In what steps the CPU engine takes the size of its KV cache: older versions in whole GiB only."""
    version = situation.tools.version
    return 1 if version is not None and version < KV_BYTES_VERSION else KV_STEP_GIB


def has_strange_plugins(situation: Situation) -> bool:
    """Whether a plugin that is neither vLLM's own nor ours may bring model classes or kernels."""
    return any(name != DFLASH2 and not name.startswith(OWN_PLUGINS) for name in situation.tools.plugins)


def known(reading: Reading[int]) -> int | None:
    """The value, None where it is missing."""
    return None if isinstance(reading, Missing) else reading


def gib(size: int) -> str:
    """Bytes as people read them: "5.98 GiB", "120 MiB"."""
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / 1024**2:.0f} MiB"
