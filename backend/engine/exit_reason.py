"""Why a run ended, as one sentence for a person: the exit code put into words, and the log's own telling line."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from backend.engine.run_folder import RunExit

QUOTE_CHARACTERS = 400

_GENERIC = re.compile(
    r"Engine core initialization failed|See root cause above|EngineDeadError|WorkerProc init|Executor failed"
)
_CORE_ERROR = re.compile(
    r"\((?:\w*Worker|EngineCore)[^)]*\).*\bERROR\b[^\]]*\] ((?:[\w.]+\.)?\w*(?:Error|Exception)\b.*)"
)
_PLAIN_ERROR = re.compile(r"^\s*(?:\([^)]*\)\s*)?((?:[\w.]+\.)?\w*(?:Error|Exception)\b:.*)")
_OTHER_ERROR = re.compile(r"(error: .*|Value error, .*|\[Errno \d+\].*|[Oo]ut of memory.*)")
_HARMLESS = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b|\w+Warning:")  # a warning may mention an error that did not happen
_CORE_DIED = re.compile(r"(engine core exited unexpectedly|[Ww]orker (?:proc )?\S+ died unexpectedly)")


@dataclass(frozen=True)
class ExitReason:
    """What happened, and what to do about it where that is known."""

    reason: str
    hint: str = ""


def explain_exit(ended: RunExit, lines: Sequence[str], *, was_ready: bool) -> ExitReason:
    """The sentence for a run that ended by itself. `lines` are the newest of its log, oldest first."""
    if ended.error:
        return ExitReason(f"The engine could not be executed: {ended.error}.")
    returncode = ended.returncode
    when = "" if was_ready else " before it was ready"
    quote = telling_line(lines)
    tail = f": {quote}" if quote else "."
    if returncode is None:
        return ExitReason(
            f"The engine ended{when} together with its keeper process, which was killed.",
            "Something outside the panel killed it; look for the out-of-memory killer in the kernel log (dmesg).",
        )
    number = -returncode if returncode < 0 else returncode - 128
    name = _signal_name(number)
    if name and returncode < 0:
        return ExitReason(f"The engine was killed by {name}{when}{tail}", _signal_hint(number))
    if name and returncode > 128:
        return ExitReason(f"The engine exited with code {returncode} ({name}){when}{tail}", _signal_hint(number))
    if _CORE_DIED.search(quote):
        return ExitReason(f"The engine exited with code {returncode}{when}{tail}", _signal_hint(signal.SIGKILL))
    hint = "" if quote else "The log may tell why."
    return ExitReason(f"The engine exited with code {returncode}{when}{tail}", hint)


def explain_stuck(pids: Sequence[int]) -> ExitReason:
    """The sentence for processes that outlive SIGKILL."""
    listed = ", ".join(str(pid) for pid in pids)
    return ExitReason(
        f"Processes of the engine cannot be ended (pid {listed}).",
        "A process that survives SIGKILL hangs in a driver: as a rule only a reboot frees its memory.",
    )


def telling_line(lines: Sequence[str]) -> str:
    """The line that tells the root cause, "" when none does.

    vLLM's last words are generic ("Engine core initialization failed"): the first error of a worker or engine core is
    the cause; without one, the last line that is an error at all.
    """
    candidates = [line for line in lines if not _GENERIC.search(line) and not _HARMLESS.search(line)]
    for line in candidates:
        match = _CORE_ERROR.search(line)
        if match:
            return _shorten(match.group(1))
    for line in reversed(candidates):
        match = _PLAIN_ERROR.search(line) or _OTHER_ERROR.search(line)
        if match:
            return _shorten(match.group(1))
    return next((match.group(1) for match in map(_CORE_DIED.search, lines) if match), "")


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= QUOTE_CHARACTERS else text[: QUOTE_CHARACTERS - 1] + "…"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _signal_hint(number: int) -> str:
    if number == signal.SIGKILL:
        return "If nobody killed it, the machine ran out of memory: look for the out-of-memory killer in dmesg."
    if number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE):
        return "It crashed in compiled code; the end of its log may name the library."
    return ""
