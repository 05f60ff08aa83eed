"""What each finding is called, in both languages: what is the matter, and what to do. The one table of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from backend.preflight.finding import Finding
from backend.preflight.words_machine import MACHINE_WORDS
from backend.preflight.words_model import MODEL_WORDS
from backend.preflight.words_table import Words

__all__ = ["WORDS", "FindingWords", "Words", "in_words"]

CHINESE = "zh"
WORDS: Mapping[str, Words] = {**MODEL_WORDS, **MACHINE_WORDS}


@dataclass(frozen=True)
class FindingWords:
    """A finding said to a person, values filled in. The values came from files and programs: escape them."""

    what: str
    do: str  # "" where there is nothing to do


def in_words(finding: Finding, language: str) -> FindingWords:
    """The finding in a language: "en", or "zh". A rule that is not in the table is said by its name."""
    words = WORDS.get(finding.rule)
    if words is None:
        return FindingWords(finding.rule, "")
    what, do = (words.zh_what, words.zh_do) if language == CHINESE else (words.en_what, words.en_do)
    values = _in_language(finding.values, language)
    return FindingWords(_FORMATTER.vformat(what, (), values), _FORMATTER.vformat(do, (), values))


_KEYS: Mapping[str, tuple[str, str]] = {
    "limit": ("this container's or service's memory limit", "该容器或服务的内存上限"),
    "machine": ("this machine", "本机"),
    "lost": ("fell off the bus", "已从总线掉线"),
    "hung": ("does not answer", "没有响应"),
    "denied": ("may not be read", "无权读取"),
    "no_power": ("has no power: its cables are not plugged in", "没有供电：电源线未插好"),
    "needs_reset": ("needs a reset", "需要复位"),
    "unbound": ("was not taken by the NVIDIA driver", "未被 NVIDIA 驱动接管"),
    "failed": ("cannot be read", "无法读取"),
    "starting": ("has not answered yet", "尚未应答"),
    "one_kind_only": ("it mixes kinds of layers", "模型混用了不同类型的层"),
    "one_window_only": ("its layers have windows of different length", "各层的窗口长度不同"),
}
_KEYED = frozenset({"where", "state", "reason"})  # values that may be one of these keys


def _in_language(values: Mapping[str, str], language: str) -> Mapping[str, str]:
    number = 1 if language == CHINESE else 0
    return {
        name: _KEYS[value][number] if name in _KEYED and value in _KEYS else value for name, value in values.items()
    }


class _ValueFormatter(Formatter):
    """Fills in names only: a value that is missing is shown as "…"."""

    def get_field(self, field_name: str, args: object, kwargs: Mapping[str, object]) -> tuple[object, str]:
        return kwargs.get(field_name, "…"), field_name


_FORMATTER = _ValueFormatter()
