"""One installation as a child process of the panel: what it says, and its end with all of its processes."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from backend.environment.views import InstallProgress, InstallState
from backend.setup.progress_lines import MAX_LINE_BYTES, Done, Failed, ProgressEvent, Queued, Said, parse_progress
from backend.setup.step import StepProgress
from backend.setup.tether import tethered

log = logging.getLogger(__name__)

CANCEL_GRACE_S = 7.0  # for SIGTERM; pip gets 5 of them from the installer
REAP_EVERY_S = 0.05
COMPLAINT_LINES = 20
_PASSED_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CC", "CXX"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "VOLTA_INDEX_URL", "VOLTA_TORCH_INDEX_URL"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    }
)
_PASSED_PREFIXES = ("PIP_", "CUDA_", "NVIDIA_", "PYENV_")


def installer_environ(base: Mapping[str, str], *, index_url: str, extra_index_url: str) -> dict[str, str]:
    """What an installer gets of the panel's environment, and the indexes, which may hold a password."""
    kept = {name: value for name, value in base.items() if name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)}
    if index_url:
        kept["VOLTA_INDEX_URL"] = index_url
    if extra_index_url:
        kept["VOLTA_TORCH_INDEX_URL"] = extra_index_url
    return kept


class InstallChild:
    """Owns one `python -m backend.setup.install`, tied to this process: it ends with the panel."""

    def __init__(
        self,
        recipe: str,
        identifier: str,
        *,
        environments: Path,
        repository: Path,
        environ: Mapping[str, str],
        on_change: Callable[[], None],
    ) -> None:
        self._argv = (
            *(sys.executable, "-m", "backend.setup.install"),
            *("--environments", str(environments), "--recipe", recipe, "--id", identifier),
        )
        self._repository = repository
        self._environ = environ
        self._on_change = on_change
        self._progress = InstallProgress(InstallState.RUNNING, recipe)
        self._begun = 0.0  # monotonic
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._group = 0  # of the step that runs
        self._failure: Failed | None = None
        self._is_done = False
        self._complaints: deque[str] = deque(maxlen=COMPLAINT_LINES)

    @property
    def progress(self) -> InstallProgress:
        """How far it is."""
        return replace(self._progress, elapsed_s=time.monotonic() - self._begun)

    @property
    def failure(self) -> Failed | None:
        """Why it stopped; None while it runs, after its success and after a cancel."""
        return self._failure

    @property
    def is_done(self) -> bool:
        """Whether it said that the environment is READY."""
        return self._is_done

    def start(self) -> None:
        """Spawn it. On the loop's own thread, which the tether is tied to. Raises OSError."""
        self._begun = time.monotonic()
        self._progress = replace(self._progress, started_at=time.time())
        self._process = subprocess.Popen(
            tethered(self._argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._repository,
            env=dict(self._environ),
            start_new_session=True,
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def ended(self) -> None:
        """Returns when it is gone, its output read."""
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def cancel(self) -> None:
        """End it with its pip: asked first, killed after 7 s. Returns when nothing of it runs."""
        process = self._process
        if process is None:
            return
        self._progress = replace(self._progress, state=InstallState.CANCELLING)
        self._on_change()
        self._signal(process.pid, signal.SIGTERM)
        if not await self._gone_within(process, CANCEL_GRACE_S):
            self._signal(process.pid, signal.SIGKILL)
            if self._group:
                self._signal(self._group, signal.SIGKILL)
            await self._gone_within(process, CANCEL_GRACE_S)
        await self.ended()

    async def _read(self, process: "subprocess.Popen[bytes]") -> None:
        lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), process.stdout
        )
        try:
            while line := await self._line(lines):
                self._take(line)
                self._on_change()
        finally:
            transport.close()
        await self._gone_within(process, CANCEL_GRACE_S)
        if self._failure is None and not self._is_done and self._progress.state is not InstallState.CANCELLING:
            self._failure = self._silent_end(process)
        self._on_change()

    async def _line(self, lines: asyncio.StreamReader) -> bytes:
        while True:
            try:
                return await lines.readline()
            except ValueError:  # longer than the limit; the stream has dropped it
                log.warning("an installer wrote a line of more than %d bytes", MAX_LINE_BYTES)

    def _take(self, line: bytes) -> None:
        event: ProgressEvent | None = parse_progress(line)
        cancelling = self._progress.state is InstallState.CANCELLING
        match event:
            case StepProgress():
                self._group = event.group
                self._progress = replace(
                    self._progress,
                    state=self._progress.state if cancelling else InstallState.RUNNING,
                    step=event.number,
                    steps=event.total,
                    title=event.title,
                    doing=event.doing,
                    fetched_bytes=event.fetched_bytes,
                    step_elapsed_s=event.elapsed_s,
                )
            case Queued() if not cancelling:
                self._progress = replace(self._progress, state=InstallState.QUEUED)
            case Said():
                self._progress = replace(self._progress, doing=event.text)
            case Done():
                self._is_done = True
            case Failed():
                self._failure = event
            case None:
                self._complaints.append(line.decode("utf-8", errors="replace").rstrip()[:300])

    def _silent_end(self, process: "subprocess.Popen[bytes]") -> Failed:
        said = f": {self._complaints[-1]}" if self._complaints else "."
        log.warning("an installer ended with %s, saying %s", process.returncode, list(self._complaints))
        return Failed(f"The installer ended with exit code {process.returncode}{said}", "Go on with it to try again.")

    @staticmethod
    def _signal(group: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # gone already
            os.killpg(group, number)

    @staticmethod
    async def _gone_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while process.poll() is None:
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(REAP_EVERY_S)
        return True
