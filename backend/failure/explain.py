"""Why an engine ended, decided from its log, its exit code and what was asked of it. Pure. Right or unknown.

The order: it could not be executed; the first error of a worker or engine core; the API server's last exception;
argparse's sentence; a line of a native library; how the processes died; that the start was given up; unknown.
"""

import re
import signal
from collections.abc import Mapping, Sequence

from backend.engine.patience import Overdue
from backend.engine.stage import Stage
from backend.failure.completion import completed
from backend.failure.failure import (
    LAST_LINES,
    LINE_CHARACTERS,
    UNKNOWN,
    VALUE_CHARACTERS,
    Failure,
    LaunchContext,
)
from backend.failure.fixes import fixes_for
from backend.failure.log_lines import Level, LogLine, Source, read_lines
from backend.failure.out_of_memory import phase_rule
from backend.failure.rule import Found, Place, Sign, find_in_chain, find_in_line
from backend.failure.signs_arguments import ARGUMENT_SIGNS
from backend.failure.signs_card import CARD_SIGNS, OUT_OF_MEMORY
from backend.failure.signs_model import MODEL_SIGNS
from backend.failure.tracebacks import Chain, find_chains

READ_LINES = 5000  # the newest of a log
NATIVE_LINES = 2000  # written past the logger, that are looked at
USAGE_ERROR = 2  # argparse's exit code
LAST_ERRORS = 500  # lines at the end among which errors are looked for when the cause is unknown
LAST_WORDS = 6  # lines among which argparse's sentence must be

SIGNS: tuple[Sign, ...] = (*ARGUMENT_SIGNS, *MODEL_SIGNS, *CARD_SIGNS)
_IN_EXCEPTIONS = tuple(sign for sign in SIGNS if sign.place is Place.EXCEPTION)
_NATIVE = tuple(sign for sign in SIGNS if sign.place is Place.NATIVE)
_USAGE = tuple(sign for sign in SIGNS if sign.place is Place.USAGE)

_ARGPARSE = re.compile(r"[\w./-]{1,300}(?: \w{1,20})?: error: ")
_BEGINS = "non-default args: "
_BEGINS_AFTER_AN_END = ("Automatically detected platform", "vLLM API server version")  # any process may say these
_SERVER_ENDED = "RuntimeError: Engine core initialization failed."
_ORDERLY = frozenset({0, -2, -15, 130, 143})  # ended in order, or as SIGINT and SIGTERM asked
_CORE_ENDED = re.compile(
    r"EngineCore encountered a fatal error|EngineDeadError|died unexpectedly|engine core exited unexpectedly"
)
_READY = "Application startup complete"
_ERROR_LINE = re.compile(r"(?:Error|Exception)\b|\b(?:error|fatal|failed|terminate called)\b", re.IGNORECASE)
_DIED = re.compile(
    r"(?:Worker proc \S{1,60} died unexpectedly(?: \(exit code: (?P<worker>-?\d{1,3}|None)\))?"
    r"|Engine core proc \S{1,60} died unexpectedly|engine core exited unexpectedly"
    r"|Failed core proc\(s\): \{[^}]{0,80}?: (?P<core>-?\d{1,3})\b"
    r"|died with exit code (?P<process>-?\d{1,3}))"
)
_DEATH_WORDS = ("unexpectedly", "Failed core proc", "died with exit code")
_CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE", "SIGTRAP", "SIGSYS"})


def explain(
    lines: Sequence[str],
    *,
    returncode: int | None,
    phase: Stage | None,
    context: LaunchContext,
    error: str = "",
    out_of_memory_kills: int | None = None,
    overdue: Overdue | None = None,
) -> Failure:
    """Why a run ended that was not asked to.

    `lines`: the newest of its log, oldest first. `returncode`: negative for a signal, None when not known. `phase`: how
    far the start had come, READY or None after it. `error`: why it could not be executed. `out_of_memory_kills`: by how
    much the kernel's counter of killed processes grew during the run. `overdue`: why the panel gave it up.
    """
    started = None if phase is Stage.READY else phase
    if error:
        return _failure("not_executable", {"error": error}, "", started, context)
    log = _last_start(read_lines(lines[-READ_LINES:]))
    ready_at = next((line.index for line in reversed(log) if _READY in line.text and line.level is not Level.RAW), None)
    was_ready = phase is Stage.READY or ready_at is not None
    chains = [chain for chain in find_chains(log) if not chain.is_survived and chain.index > (ready_at or -1)]

    is_orderly = (returncode == 0 or (was_ready and returncode in _ORDERLY)) and not _core_ended(log)
    found = None if is_orderly else _from_core(chains)
    if overdue is None and not (is_orderly and returncode == 0):  # who ends with 0 has not failed to start
        found = _beside_core(found, log, chains, returncode, after=ready_at)
    if found is not None:
        rule = found[0].sign.rule
        if rule == OUT_OF_MEMORY:
            rule = phase_rule(found[1], log, phase=started, was_ready=was_ready) if found[1] else "oom_unknown_phase"
        return _failure(rule, found[0].values, found[0].line, started, context)
    if overdue is not None:
        return _failure("start_overdue", _overdue_values(overdue), overdue.last_line, started, context)
    death = _from_death(log, chains, returncode, out_of_memory_kills)
    if death is not None:
        rule, values, line = death
        return _failure(rule, values, line, started, context)
    return Failure(UNKNOWN, phase=started, last_lines=_last_lines(log))


Decision = tuple[Found, Chain | None]


def _last_start(log: Sequence[LogLine]) -> Sequence[LogLine]:
    """The lines since vLLM last began: a log that goes on from an earlier run would tell that one's cause."""
    begin, has_ended = 0, False
    for number, line in enumerate(log):
        if line.level is Level.RAW:
            has_ended = has_ended or line.text.startswith(_SERVER_ENDED)
        elif line.level is Level.HARMLESS and (
            _BEGINS in line.text or (has_ended and any(words in line.text for words in _BEGINS_AFTER_AN_END))
        ):
            begin, has_ended = number, False
    return log[begin:]


def _core_ended(log: Sequence[LogLine]) -> bool:
    """Whether the log says so. A worker may log the error of one call and go on."""
    return any(
        _CORE_ENDED.search(line.text[:LINE_CHARACTERS])
        for line in log
        if line.level is not Level.RAW or "Error" in line.text
    )


def _from_core(chains: Sequence[Chain]) -> Decision | None:
    """What the first failing worker or engine core said. An error it does not know stays unknown: others follow from it."""
    spoken = [chain for chain in chains if chain.source is Source.CORE and not chain.is_generic]
    spoken = [chain for chain in spoken if chain.is_fatal] or spoken
    consequence: Decision | None = None
    for chain in spoken:
        found = find_in_chain(chain, _IN_EXCEPTIONS)
        if found is not None and not found.sign.is_consequence:
            return found, chain
        if found is not None:
            consequence = consequence or (found, chain)
        elif not _is_echo(chain):
            return None
    return consequence


def _beside_core(
    found: Decision | None,
    log: Sequence[LogLine],
    chains: Sequence[Chain],
    returncode: int | None,
    *,
    after: int | None,
) -> Decision | None:
    """What the API server, argparse and native libraries tell, where workers and engine core left it open."""
    ended_by_signal = _signal_name(returncode) is not None  # Python's own end after an exception is exit code 1
    core_is_sure = found[1] is not None and found[1].is_fatal if found else _core_spoke(chains)
    if not ended_by_signal and not core_is_sure:
        server = _from_server(chains)
        if found and server and found[0].sign.rule != server[0].sign.rule:
            return None  # the core may have lived on after its error, so that either can be the cause
        found = found or server
    if found is None and returncode in (USAGE_ERROR, None):
        found = _from_usage(log)
    if found is None or found[0].sign.is_consequence:
        found = _from_native_lines(log, after=after) or found
    return found


def _core_spoke(chains: Sequence[Chain]) -> bool:
    return any(chain.source is Source.CORE and not chain.is_generic and chain.is_fatal for chain in chains)


def _from_server(chains: Sequence[Chain]) -> Decision | None:
    """The exception that ended the API server: the last one written past the logger."""
    raw = [chain for chain in chains if chain.source is not Source.CORE and chain.level is Level.RAW]
    if not raw or raw[-1].is_generic:
        return None
    found = find_in_chain(raw[-1], _IN_EXCEPTIONS)
    return (found, raw[-1]) if found else None


def _from_usage(log: Sequence[LogLine]) -> Decision | None:
    spoken = [line for line in log if line.text.strip()][-LAST_WORDS:]
    for line in reversed(spoken):
        match = _ARGPARSE.match(line.text) if line.level is Level.RAW else None
        if match:
            found = find_in_line(line.text[match.end() :], _USAGE)
            return (found, None) if found else None
    return None


def _from_native_lines(log: Sequence[LogLine], *, after: int | None) -> Decision | None:
    """The only cause that lines written past Python tell; None when they tell several."""
    spoken = [line for line in log if line.level is not Level.HARMLESS and line.index > (after or -1)][-NATIVE_LINES:]
    found = [found for line in spoken if (found := find_in_line(line.text, _NATIVE))]
    return (found[0], None) if len({each.sign.rule for each in found}) == 1 else None


def _from_death(
    log: Sequence[LogLine], chains: Sequence[Chain], returncode: int | None, kills: int | None
) -> tuple[str, Mapping[str, str], str] | None:
    """What the way it ended tells: a signal to the engine itself, or to a worker that the log names."""
    name = _signal_name(returncode)
    line = ""
    if name is None:
        if any(not chain.is_generic and not _is_echo(chain) for chain in chains):
            return None
        death = _named_death(log) or ((None, "") if kills and chains else None)
        if death is None:
            return None
        code, line = death
        name = _signal_name(code)
    if kills and name in (None, "SIGKILL"):
        return "host_memory", {}, line
    if name is None:
        return None
    return ("crashed" if name in _CRASHES else "killed"), {"signal": name}, line


def _named_death(log: Sequence[LogLine]) -> tuple[int | None, str] | None:
    """The exit code of the first process that the log says died, None where it does not say which; and that line."""
    told = [line for line in log if any(word in line.text for word in _DEATH_WORDS)]  # vLLM only warns of some
    deaths = [(match, line) for line in told if (match := _DIED.search(line.text))]
    for match, line in deaths:
        code = next((code for code in match.groups() if code and code != "None"), None)
        if code is not None and int(code) < 0:
            return int(code), line.text
    return (None, deaths[0][1].text) if deaths else None


def _is_echo(chain: Chain) -> bool:
    """Whether the exception is what a living process says when another one is gone."""
    last = chain.exceptions[-1]
    return last.name in ("EOFError", "BrokenPipeError", "ConnectionResetError", "EngineDeadError") or any(
        word in last.line
        for word in ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "RPC call to ")
    )


def _signal_name(returncode: int | None) -> str | None:
    """The signal that an exit code stands for: as Python writes it, or as a shell or a container does."""
    if returncode is None or not (returncode < 0 or 128 < returncode < 160):
        return None
    try:
        return signal.Signals(-returncode if returncode < 0 else returncode - 128).name
    except ValueError:
        return None


def _last_lines(log: Sequence[LogLine]) -> tuple[str, ...]:
    """The last lines that speak of an error, else the last ones at all. Source code of a traceback is neither."""
    spoken = [line for line in log if line.text.strip()]
    errors: list[LogLine] = []
    for line in reversed(spoken[-LAST_ERRORS:]):
        if len(errors) == LAST_LINES:
            break
        if line.level is not Level.HARMLESS and not line.text.startswith((" ", "\t")):
            errors += [line] if _ERROR_LINE.search(line.text[:LINE_CHARACTERS]) else []
    return tuple(_cut(line.text, LINE_CHARACTERS) for line in (errors[::-1] or spoken[-LAST_LINES:]))


def _failure(rule: str, values: Mapping[str, str], line: str, phase: Stage | None, context: LaunchContext) -> Failure:
    complete = completed(rule, values, context)
    return Failure(
        rule,
        {name: _cut(value, VALUE_CHARACTERS) for name, value in complete.items()},
        _cut(line, LINE_CHARACTERS),
        phase,
        fixes=fixes_for(rule, complete, context),
    )


def _overdue_values(overdue: Overdue) -> dict[str, str]:
    return {
        "kind": overdue.kind.value,
        "seconds": f"{overdue.waited_s:.0f}",
        "quiet": f"{overdue.quiet_s:.0f}",
        "limit": f"{overdue.limit_s:.0f}",
    }


def _cut(text: str, length: int) -> str:
    text = text.strip()
    return text if len(text) <= length else text[: length - 1] + "…"
