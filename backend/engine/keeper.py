"""The keeper: a tiny process beside each engine that outlives the panel, drains the engine's output and tells its end.

    python -E -s -S -m backend.engine.keeper <run folder>        (in the folder that holds `backend`)

It starts the engine in a session and group of its own, and is the parent of whatever the engine orphans, so nothing of
a run escapes it. On the leader's exit it ends the rest of the run, removes its shared memory and temporary folder,
writes exit.json and exits. Told to end (SIGTERM) it ends the engine first; killed (SIGKILL), the kernel kills the
leader, and the panel, or the next one, ends the rest.

Standard library only, so that it stays small and never holds the panel's libraries in memory.
"""

import contextlib
import ctypes
import fcntl
import logging
import os
import select
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

from backend.engine.cleanup import run_cleanup
from backend.engine.log_segments import SegmentWriter
from backend.engine.process import Ending, ProcessIdentity, RunMark, find_members, identify, send_signal
from backend.engine.run_folder import RunExit, RunFolder, RunOrder, RunProcess, remove_temporary
from backend.engine.shared_memory import SharedMemoryWatch, sweep

PIPE_BYTES = 1024 * 1024
TICK_S = 1.0  # reap orphans, look for new shared memory
ENDING_TICK_S = 0.05
LEFTOVER_GRACE_S = 2.0  # for members that live on after the leader, until SIGKILL
LEADER_GRACE_S = 10.0  # when the keeper itself is told to end
STUCK_AFTER_S = 20.0  # members that outlive SIGKILL so long are reported, not waited for
LAST_DRAIN_BYTES = 64 * PIPE_BYTES

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

log = logging.getLogger("keeper")


class Keeper:
    """Keeps one run. run() returns when it has ended and is written down."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._log = SegmentWriter(folder.log)
        self._shared = SharedMemoryWatch()
        self._output = -1  # our end of the engine's stdout and stderr
        self._wake = -1  # readable after a signal
        self._leader: ProcessIdentity | None = None
        self._returncode: int | None = None
        self._end_asked = False
        self._kill_leader_at: float | None = None

    def run(self) -> None:
        """Start the engine of the run folder's order and keep it until its end."""
        order = self._folder.read_order()
        started_at = time.time()
        self._log.open()
        self._shared.begin()
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._listen_to_signals()
        error = self._start(order, started_at)
        if error:
            self._log.write(f"[volta] {error}\n".encode())
            self._finish(order, RunExit(returncode=None, ended_at=time.time(), error=error), started_at)
            return
        mark = RunMark(self._must_have_leader(), order.marker, os.getpid())
        self._keep(mark)
        self._finish(order, self._end_rest(mark), started_at)

    def _listen_to_signals(self) -> None:
        """Every signal writes a byte to the wake pipe, so that the poll returns at once (a pidfd needs Linux 5.3)."""
        self._wake, wake_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # ignored by default, and then wakes nobody
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask_end)

    def _ask_end(self, number: int, frame: FrameType | None) -> None:
        self._end_asked = True

    def _must_have_leader(self) -> ProcessIdentity:
        if self._leader is None:
            raise RuntimeError("the leader ended before it was identified")
        return self._leader

    def _start(self, order: RunOrder, started_at: float) -> str:
        """Fork the leader, write process.json, let it execute. Returns what went wrong, "" when nothing did."""
        self._output, output_end = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user over the pipe limit keeps the small default
            fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._output, False)
        gate_in, gate_out = os.pipe2(os.O_CLOEXEC)
        fault_in, fault_out = os.pipe2(os.O_CLOEXEC)
        keeper = os.getpid()
        leader = os.fork()
        if leader == 0:
            os.close(gate_out)
            _become_engine(order, keeper=keeper, gate=gate_in, output=output_end, fault=fault_out)
        for descriptor in (output_end, gate_in, fault_out):
            os.close(descriptor)
        self._leader = identify(leader)
        own = identify(keeper)
        if self._leader is None or own is None:
            return "The engine's process could not be identified in /proc."
        process = RunProcess(own, self._leader, order.marker, order.temporary, started_at)
        self._folder.write_process(process)
        os.write(gate_out, b"g")
        os.close(gate_out)
        with os.fdopen(fault_in, "rb") as pipe:
            return pipe.read(4096).decode(errors="replace")

    def _keep(self, mark: RunMark) -> None:
        """Until the leader has exited: drain its output, reap orphans, watch shared memory."""
        poller = select.poll()
        poller.register(self._output, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        next_tick = time.monotonic()
        while self._returncode is None:
            events = poller.poll(max(0.0, next_tick - time.monotonic()) * 1000)
            ready = {descriptor for descriptor, _ in events}
            if self._output in ready and not self._drain_some():
                poller.unregister(self._output)  # every writer has closed it
            if self._wake in ready:
                os.read(self._wake, PIPE_BYTES)
                self._reap(mark)
            if time.monotonic() >= next_tick or (self._end_asked and self._wake in ready):
                next_tick = time.monotonic() + TICK_S
                self._tick(mark)

    def _tick(self, mark: RunMark) -> None:
        self._reap(mark)
        if self._shared.look(lambda: [member.pid for member in find_members(mark)]):
            with contextlib.suppress(OSError):  # a full disk: we sweep from memory, only a killed keeper would miss it
                self._folder.write_shared(self._shared.ours, self._shared.others)
        if not self._end_asked:
            return
        if self._kill_leader_at is None:
            log.warning("told to end: ending the engine")
            self._kill_leader_at = time.monotonic() + LEADER_GRACE_S
            send_signal(mark.leader, signal.SIGTERM)
        elif time.monotonic() >= self._kill_leader_at:
            send_signal(mark.leader, signal.SIGKILL)

    def _drain_some(self) -> int:
        """Move what is in the pipe to the log; returns the byte count, 0 at the end, -1 when it is empty for now."""
        try:
            data = os.read(self._output, PIPE_BYTES)
        except BlockingIOError:
            return -1
        self._log.write(data)
        return len(data)

    def _reap(self, mark: RunMark) -> None:
        """Take the exit status of every dead child: the leader's is kept, those of adopted orphans are not."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == mark.leader.pid:
                self._returncode = os.waitstatus_to_exitcode(status)

    def _end_rest(self, mark: RunMark) -> RunExit:
        """End what lives on after the leader, draining meanwhile so that no member blocks on its output."""
        ended_at = time.time()
        began = time.monotonic()
        ending = Ending(lambda: find_members(mark))
        first = living = ending.step(kill=False)
        while living and time.monotonic() < began + STUCK_AFTER_S:
            self._drain_all()
            time.sleep(ENDING_TICK_S)
            self._reap(mark)
            living = ending.step(kill=time.monotonic() >= began + LEFTOVER_GRACE_S)
        self._drain_all()
        return RunExit(
            returncode=self._returncode,
            ended_at=ended_at,
            leftovers=len(first),
            killed=ending.killed,
            stuck=tuple(sorted(member.pid for member in living)),
        )

    def _drain_all(self) -> None:
        drained = 0
        while drained < LAST_DRAIN_BYTES:
            count = self._drain_some()
            if count <= 0:
                return
            drained += count

    def _finish(self, order: RunOrder, ended: RunExit, started_at: float) -> None:
        swept = sweep(self._shared.ours, self._shared.others, since=started_at - 1.0)
        remove_temporary(order.temporary)
        fault = run_cleanup(order.cleanup, order.env)
        self._log.close()
        self._folder.write_exit(replace(ended, swept=swept, cleanup_fault=fault))


def prctl(option: int, value: int) -> None:
    """prctl(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _become_engine(order: RunOrder, *, keeper: int, gate: int, output: int, fault: int) -> None:
    """In the forked child: set up, wait until process.json is written, execute. Never returns."""
    try:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper or os.read(gate, 1) != b"g":
            os._exit(127)  # the keeper died before it could vouch for us
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(order.cwd)
        os.execve(order.argv[0], order.argv, dict(order.env))
    except OSError as err:
        os.write(fault, f"{err.strerror or err}: {err.filename or order.argv[0]}".encode())
    finally:
        os._exit(127)


def main() -> None:
    """Keep the run of the folder named on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    folder = RunFolder(Path(sys.argv[1]).resolve())
    os.chdir("/")  # hold no folder a person may want to remove
    try:
        Keeper(folder).run()
    except Exception:
        log.exception("the keeper failed; its engine ends with it")
        raise


if __name__ == "__main__":
    main()
