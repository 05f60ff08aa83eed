"""From intent to the words of one vLLM: every flag is tried against that version's own flags and choices."""

from collections.abc import Mapping
from dataclasses import dataclass

from backend.launch.engine_tools import EngineTools
from backend.launch.notes import Note
from backend.launch.preset import Flag, Preset
from backend.launch.removed_flags import is_removed, translate_removed
from backend.launch.spelling_error import SpellingError
from backend.launch.wishes import Wishes, wishes_of

REQUEST_METRICS_FLAG = "enable-per-request-metrics"
CACHED_TOKENS_FLAG = "enable-prompt-tokens-details"
_MAX_CHOICES = 24  # of a hint


@dataclass(frozen=True)
class Spelled:
    """A preset in one vLLM's words."""

    options: tuple[str, ...]  # argv words; model, name and address are not among them
    env: Mapping[str, str]
    notes: tuple[Note, ...]  # what was translated or left out
    reports_request_metrics: bool


def spell(
    preset: Preset,
    tools: EngineTools,
    *,
    declared_quantization: str | None = None,
    draft: str | None = None,
    dropped: tuple[str, ...] = (),
) -> Spelled:
    """The preset in this vLLM's words. Pure.

    `dropped` names flags to leave out, with or without dashes, whoever would have added them.

    Raises:
        SpellingError: it cannot be said in this version; names the flag, why, and what to use instead.
    """
    wishes = wishes_of(preset, tools, declared=declared_quantization, draft=draft)
    removed: dict[str, Flag] = {}  # translated after the others, because some ask what is set already
    for written, value in preset.flags.items():
        flag, value = _positive(written.replace("_", "-"), value, tools)
        if flag == "quantization":
            continue  # wishes_of() has seen to it
        if _is_known(flag, tools):
            wishes.options[flag] = value
        else:
            removed[flag] = value
    for flag in removed:
        if not is_removed(flag):
            note = Note("unknown_flag", {"version": tools.title, "flag": flag})
            raise SpellingError(note, flag=flag, nearest=tools.nearest(flag))
    translate_removed(removed, wishes=wishes, tools=tools, cards=preset.gpus)
    metrics = tools.is_probed and tools.has(REQUEST_METRICS_FLAG)
    if metrics:
        wishes.options.setdefault(REQUEST_METRICS_FLAG, True)
    if tools.is_probed and tools.has(CACHED_TOKENS_FLAG):
        wishes.options.setdefault(CACHED_TOKENS_FLAG, True)
    _drop(wishes, dropped)
    flags = wishes.rendered()
    _check_choices(flags, tools)
    return Spelled(
        options=tuple(word for flag, value in flags.items() for word in _words(flag, value, tools)),
        env=dict(wishes.env),
        notes=tuple(wishes.notes),
        reports_request_metrics=metrics and flags.get(REQUEST_METRICS_FLAG) is True,
    )


def _positive(flag: str, value: Flag, tools: EngineTools) -> tuple[str, Flag]:
    """`no-x: true` is `x: false`, so that both spellings meet the same checks."""
    plain = flag.removeprefix("no-")
    if plain != flag and isinstance(value, bool) and (tools.has(plain) or is_removed(plain)):
        return plain, not value
    return flag, value


def _is_known(flag: str, tools: EngineTools) -> bool:
    """`x.key` sets one key of the JSON flag x. Not probed: a flag that every supported version lost is not known."""
    name = flag.split(".", 1)[0]
    return tools.has(name) if tools.is_probed else not is_removed(name)


def _drop(wishes: Wishes, dropped: tuple[str, ...]) -> None:
    for flag in (name.lstrip("-").removeprefix("no-") for name in dropped):
        found = [part.pop(flag, None) is not None for part in (wishes.options, wishes.objects)]
        if any(found):
            wishes.notes.append(Note("left_out", {"flag": flag}))


def _check_choices(flags: Mapping[str, Flag], tools: EngineTools) -> None:
    for flag, value in flags.items():
        if isinstance(value, bool):
            continue
        for word in value if isinstance(value, tuple) else (_text(value),):
            if not tools.allows(flag, word):
                choices = ", ".join(tools.choices[f"--{flag}"][:_MAX_CHOICES])
                note = Note("not_a_choice", {"version": tools.title, "flag": flag, "value": word})
                raise SpellingError(note, flag=flag, choices=choices)


def _words(flag: str, value: Flag, tools: EngineTools) -> tuple[str, ...]:
    """One flag as argv words: true is the bare flag, false its --no- form, or nothing where there is none to switch off."""
    if value is True:
        return (f"--{flag}",)
    if value is False:
        return (f"--no-{flag}",) if tools.has(f"no-{flag}") else ()
    if isinstance(value, tuple):
        return (f"--{flag}", *value)
    return _valued(flag, _text(value))


def _valued(flag: str, text: str) -> tuple[str, ...]:
    """A value that begins with a dash would be read as a flag of its own."""
    return (f"--{flag}={text}",) if text.startswith("-") else (f"--{flag}", text)


def _text(value: bool | int | float | str) -> str:
    """A number without a needless .0: some flags take whole numbers only."""
    return f"{int(value)}" if isinstance(value, float) and value.is_integer() else str(value)
