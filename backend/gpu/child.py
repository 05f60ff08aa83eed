"""One reader process: started, listened to with a deadline, and ended without ever waiting for it unbounded."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.reading import Missing, MissingReason, Reading

READER = Path(__file__).with_name("reader.py")
MAX_LINE_BYTES = 64 * 1024
REAP_EVERY_S = 0.02
STATUS_WAIT_S = 0.5  # between the end of a reader's output and its exit status
# All that the reader, the dynamic loader and the helper that NVML may start need. No secret of the panel goes along.
KEPT_VARIABLES = ("PATH", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DriverFound:
    """The library answers."""

    driver_version: str
    library_version: str
    count: int


@dataclass(frozen=True)
class CardFound:
    """The card answers; who it is."""

    uuid: str
    bus_id: str
    index: int
    name: str


@dataclass(frozen=True)
class CardSample:
    """One reading of every sensor, by the names of GpuSnapshot."""

    taken_at: float
    readings: Mapping[str, Reading[Any]]


@dataclass(frozen=True)
class ReaderFailed:
    """The reader gives up, and ends. `stage` is init, handle or read; `code` is NVML's."""

    stage: str
    code: int
    detail: str
    library_version: str = ""


@dataclass(frozen=True)
class ReaderEnded:
    """The reader ended without a word: negative is the signal that ended it."""

    returncode: int | None


ReaderMessage = DriverFound | CardFound | CardSample | ReaderFailed | ReaderEnded


def kept_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a reader gets of the panel's environment."""
    return {name: environment[name] for name in KEPT_VARIABLES if name in environment}


class ReaderChild:
    """Owns one process running reader.py, in a session of its own."""

    def __init__(self, arguments: Sequence[str], *, environment: Mapping[str, str]) -> None:
        self._arguments = tuple(arguments)
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: asyncio.StreamReader | None = None
        self._transport: asyncio.ReadTransport | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Spawn it. Raises OSError when it cannot be."""
        process = self._spawn()
        self._process = process
        lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), process.stdout
        )
        self._lines = lines

    def _spawn(self) -> subprocess.Popen[bytes]:
        # Popen and not asyncio's: a watcher thread of asyncio would sit in waitpid for a child that never ends.
        return subprocess.Popen(
            (sys.executable, "-I", str(READER), *self._arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=dict(self._environment),
            start_new_session=True,
        )

    async def message(self, *, within_s: float) -> ReaderMessage:
        """Its next message. Raises TimeoutError when none comes in time."""
        if self._lines is None:
            raise RuntimeError("message() before start()")
        async with asyncio.timeout(within_s):
            while True:
                try:
                    line = await self._lines.readline()
                except ValueError:  # longer than MAX_LINE_BYTES; the stream has dropped it
                    continue
                if not line.endswith(b"\n"):
                    return ReaderEnded(await self._final_status())
                message = parse_message(line)
                if message is not None:
                    return message

    async def end(self, *, within_s: float) -> bool:
        """Ask it to end, then kill its group; True when it is gone, False when it is left behind."""
        process = self._process
        if process is None:
            return True
        if self._transport is not None:
            self._transport.close()
        if process.stdin is not None:
            process.stdin.close()  # a reader that is not stuck ends at once
        if await self._gone_within(within_s):
            return True
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError) as error:  # gone; or only a setuid helper of NVML is left
            _log.info("reader %d could not be killed: %s", process.pid, error)
        return await self._gone_within(within_s)

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended. Reaps it, never waits."""
        return self._process is None or self._process.poll() is not None

    @property
    def returncode(self) -> int | None:
        """Its exit status once it is gone; negative is the signal that ended it."""
        return None if self._process is None else self._process.poll()

    def kernel_state(self) -> str:
        """The letter of its state in /proc ("D": inside the driver, deaf to signals), "" when it cannot be read."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return ""
        return fields.rpartition(")")[2].split()[0]

    async def _final_status(self) -> int | None:
        """After the end of its output: the status, when it comes with it."""
        await self._gone_within(STATUS_WAIT_S)
        return self.returncode

    async def _gone_within(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self.is_gone:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(REAP_EVERY_S)
        return True


def parse_message(line: bytes) -> ReaderMessage | None:
    """A line as a message; None for anything else, which is logged."""
    try:
        fields = json.loads(line)
        match fields.pop("kind"):
            case "sample":
                readings = {name: _reading(value) for name, value in fields["readings"].items()}
                return CardSample(taken_at=fields["taken_at"], readings=readings)
            case "card":
                return CardFound(**fields)
            case "probe":
                return DriverFound(**fields)
            case "failed":
                return ReaderFailed(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        _log.warning("a GPU reader said %.200r: %s", line, error)
    return None


def _reading(value: Any) -> Reading[Any]:
    if isinstance(value, dict):
        return Missing(MissingReason(value["missing"]), value["detail"])
    if isinstance(value, list):  # [pid, bytes] each
        return {int(pid): int(count) for pid, count in value}
    return value
