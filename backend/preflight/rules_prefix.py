"""What keeps equal beginnings from being computed once: a system prompt that changes, caching switched off."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from backend.failure.failure import Fix, FixKind
from backend.fit.layers import LayerKind
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import Situation

MOST_SHOWN = 80
CHARACTERS_A_TOKEN = 4  # of English; Chinese has fewer, so what is too long stays too long
MOST_CHARACTERS = 32_000  # of a prompt that are looked at; a chat takes no more
MOST_OPENINGS = 1000

_CHANGING_WORDS = (
    r"now|today|todays?[ _-]?date|tomorrow|yesterday|date|time|datetime|timestamp|unix[ _-]?time|clock|year|month|day|"
    r"weekday|day[ _-]?of[ _-]?week|hour|minute|second|(?:current|local|system|utc|iso|server)[ _-]?"
    r"(?:date|time|datetime|timestamp|day|year|month|weekday)(?:[ _-]?(?:utc|time|iso|string|str))?|date[ _-]?string|"
    r"uuid\d?|guid|random(?:[ _-]?\w{1,20})?|rand(?:int)?|nonce|salt|seed|"
    r"(?:request|session|message|chat|conversation|trace|run)[ _-]?(?:id|uuid|number|count)|counter"
)
_CALL = r"(?:\s*(?:\([^()]{0,60}\)|[|:.][^{}<>\[\]]{0,60}))?"
_OPENING = re.compile(r"[{$<\[%]")  # every placeholder begins so; the larger patterns are tried there only
_PLACEHOLDER = re.compile(
    rf"\{{\{{[-\s]*\$?(?:[A-Za-z_]\w{{0,30}}\.)?(?:{_CHANGING_WORDS}){_CALL}{_CALL}[-\s]*\}}\}}"  # {{now}}, {{ date | x }}
    rf"|\{{\{{[-\s]*strftime(?:_now)?\s*\("
    rf"|\$?\{{\s*(?:{_CHANGING_WORDS}){_CALL}\s*\}}"  # {date}, ${NOW}
    rf"|<\s*(?:{_CHANGING_WORDS})\s*>"  # <current_date>
    rf"|\[\s*(?:{_CHANGING_WORDS})\s*\]"  # [CURRENT DATE]
    rf"|\$\(\s*(?:date|uuidgen)\b[^()]{{0,40}}\)"  # $(date)
    rf"|%(?:{_CHANGING_WORDS})%"  # %DATE%
    r"|%[YmdHMS][-/:. ]%[YmdHMS]",  # %Y-%m-%d
    re.IGNORECASE,
)
_CALLS = ("datetime.now(", "datetime.utcnow(", "datetime.today(", "time.time(", "uuid.uuid4(", "date.now(", "strftime(")
_DIGIT = re.compile(r"\d")
_FIXED = (
    re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?"),
    re.compile(r"\d{2}:\d{2}:\d{2}\b"),
    re.compile(r"(?:19|20)\d{2}[-/.]\d{1,2}[-/.]\d{1,2}\b"),
    re.compile(r"(?:19|20)\d{2}\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日"),
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SAID = ("today is", "current date", "it is now", "今天是", "当前日期", "当前时间")
_SAID_DATE = re.compile(
    r"[^.。\n]{0,12}?(?:[a-z]{3,9},? )?[a-z]{3,9} \d{1,2}(?:st|nd|rd|th)?,? (?:19|20)\d{2}|[^。\n]{0,12}?\d"
)
_MOST_SAID = 16  # places that are looked at


def prompt_changes(situation: Situation) -> Iterator[Finding]:
    """The system prompt holds a placeholder that another program fills in anew: from there on nothing is equal."""
    prompt = situation.system_prompt[:MOST_CHARACTERS]
    changing = _changing_part(prompt)
    if changing is not None:
        start, found = changing
        values = {"found": found[:MOST_SHOWN], "percent": str(round(100 * start / len(prompt)))}
        yield Finding("prompt_changes", Severity.WARNING, values, field="system_prompt")
        return
    fixed = _fixed_part(prompt)
    if fixed is not None:
        yield Finding("prompt_has_a_date", Severity.HINT, {"found": fixed[:MOST_SHOWN]}, field="system_prompt")


@lru_cache(maxsize=8)  # a form is examined at each of its changes, with the same prompt
def _changing_part(prompt: str) -> tuple[int, str] | None:
    """Where the first placeholder stands, and how it is written."""
    openings = islice(_OPENING.finditer(prompt), MOST_OPENINGS)
    match = next((match for one in openings if (match := _PLACEHOLDER.match(prompt, one.start()))), None)
    lower = prompt.lower()
    calls = [(start, call) for call in _CALLS if (start := lower.find(call)) >= 0]
    found = [*calls, *([(match.start(), match[0])] if match else [])]
    return min(found, default=None)


@lru_cache(maxsize=8)
def _fixed_part(prompt: str) -> str | None:
    """A day, a time or an id that is written out."""
    if _DIGIT.search(prompt) is None:
        return None
    for pattern in _FIXED:
        found = pattern.search(prompt)
        if found is not None:
            return found[0]
    lower = prompt.lower()
    identifier = _UUID.search(lower) if lower.count("-") >= 4 else None
    if identifier is not None:
        return identifier[0]
    for said in _SAID:
        start = lower.find(said)
        for _ in range(_MOST_SAID):
            if start < 0:
                break
            match = _SAID_DATE.match(lower, start + len(said))
            if match is not None:
                return prompt[start : match.end()] if len(lower) == len(prompt) else match[0]
            start = lower.find(said, start + 1)
    return None


def template_changes(situation: Situation) -> Iterator[Finding]:
    """The model's own chat template writes the day into every prompt: equal within a day, not beyond it."""
    if situation.model.template_dates:
        yield Finding("template_changes", Severity.HINT, {"model": situation.model.name[:200]}, field="model")


def prefix_caching_off(situation: Situation) -> Iterator[Finding]:
    """Every turn of a chat computes all earlier ones again."""
    if situation.preset.prefix_caching is not False:
        return
    severity = Severity.WARNING if situation.system_prompt else Severity.HINT
    fixes = (Fix(FixKind.PREFIX_CACHING, "true"),)
    yield Finding("prefix_caching_off", severity, {}, fixes, "prefix_caching")


def states_cached_coarsely(situation: Situation) -> Iterator[Finding]:
    """A model with recurrent layers caches whole large blocks only, and vLLM leaves that off unless asked."""
    facts = situation.model.facts
    if facts is None or not facts.count(LayerKind.RECURRENT) or situation.preset.prefix_caching is not None:
        return
    fixes = (Fix(FixKind.PREFIX_CACHING, "true"),)
    yield Finding("states_not_cached", Severity.HINT, {}, fixes, "prefix_caching")


def prompt_too_long(situation: Situation) -> Iterator[Finding]:
    """The system prompt leaves little of the context for the chat."""
    tokens = len(situation.system_prompt) // CHARACTERS_A_TOKEN
    if tokens * 2 <= situation.preset.context:
        return
    values = {"tokens": str(tokens), "context": str(situation.preset.context)}
    yield Finding("prompt_too_long", Severity.WARNING, values, field="system_prompt")


def cache_evicted(situation: Situation) -> Iterator[Finding]:
    """So little room that one full chat pushes everything else out."""
    estimate = situation.estimate
    if estimate is None or estimate.full_requests is None or situation.preset.prefix_caching is False:
        return
    if 1 <= estimate.full_requests < 1.5 and (situation.preset.max_sequences or estimate.sequences) > 1:
        values = {"requests": f"{estimate.full_requests:.1f}"}
        yield Finding("cache_evicted", Severity.HINT, values, field="context")


RULES = (
    prompt_changes,
    template_changes,
    prefix_caching_off,
    states_cached_coarsely,
    prompt_too_long,
    cache_evicted,
)
