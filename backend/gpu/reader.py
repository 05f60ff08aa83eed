"""Reads one NVIDIA card once a second and prints JSON lines: the child process of gpu_child, run as a script.

A call into the driver of a dying card can block for ever where no signal helps, so it happens here and not in the
panel. Nothing of the panel is imported: a child must stay small, and `python -I` gives it only the standard library
and nvidia-ml-py.

    python -I reader.py probe                       is there a driver that answers, and how many cards
    python -I reader.py watch 0000:3b:00.0 1.0      one card by bus id (or index:0), a line every 1.0 s

Lines: {"kind": "probe" | "card" | "sample" | "failed", ...}. After "failed" the child ends; a new one must be started,
because handles of a lost card or an unloaded driver never become good again. It also ends when its stdin closes.
"""

import ctypes
import json
import os
import select
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import pynvml

LIBRARY = "libnvidia-ml.so.1"
LIBRARY_NOT_FOUND = 12
MEMORY_TEMPERATURE_FIELD = 82
MILLIWATTS = 1000.0

# NVML return codes, by what they say of one reading; every other code is "error".
MISSING_REASONS = {3: "unsupported", 13: "unsupported", 15: "lost", 4: "denied", 10: "timeout"}
# Codes after which no reading of this process can succeed: uninitialized, driver unloaded, lost, reset required.
FATAL_CODES = frozenset({1, 9, 15, 16})

Line = dict[str, Any]


class ReaderStopped(Exception):
    """A stage failed for good; `line` tells the parent."""

    def __init__(self, stage: str, code: int, *, detail: str) -> None:
        super().__init__(detail)
        self.line: Line = {"kind": "failed", "stage": stage, "code": code, "detail": detail}


def initialize() -> None:
    """Load the library and start NVML."""
    try:
        ctypes.CDLL(LIBRARY)  # nvidia-ml-py hides the loader's own words
    except OSError as error:
        raise ReaderStopped("init", LIBRARY_NOT_FOUND, detail=str(error)) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        stopped = ReaderStopped("init", error.value, detail=str(error))
        stopped.line["library_version"] = library_version()
        raise stopped from error


def library_version() -> str:
    """The driver version the library belongs to ("580.95.05"), or "" when it does not say."""
    try:
        version = str(pynvml.nvmlSystemGetNVMLVersion())
    except pynvml.NVMLError:
        return ""
    return version.partition(".")[2]  # "13.580.95.05": CUDA's major number comes first


def probe() -> Line:
    """One line on the driver as a whole. Opens no card, so that a bad card cannot stop it."""
    initialize()
    try:
        return {
            "kind": "probe",
            "driver_version": pynvml.nvmlSystemGetDriverVersion(),
            "library_version": library_version(),
            "count": pynvml.nvmlDeviceGetCount(),
        }
    except pynvml.NVMLError as error:
        raise ReaderStopped("init", error.value, detail=str(error)) from error


def open_card(target: str) -> Any:
    """The handle of the card. By bus id NVML opens that card alone; by index it may open others."""
    try:
        if target.startswith("index:"):
            return pynvml.nvmlDeviceGetHandleByIndex(int(target.removeprefix("index:")))
        return pynvml.nvmlDeviceGetHandleByPciBusId(target)
    except pynvml.NVMLError as error:
        raise ReaderStopped("handle", error.value, detail=str(error)) from error


def identify(handle: Any) -> Line:
    """Who the card is."""
    try:
        pci = pynvml.nvmlDeviceGetPciInfo(handle)
        return {
            "kind": "card",
            "uuid": pynvml.nvmlDeviceGetUUID(handle),
            "bus_id": f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0",
            "index": pynvml.nvmlDeviceGetIndex(handle),
            "name": pynvml.nvmlDeviceGetName(handle),
        }
    except pynvml.NVMLError as error:
        raise ReaderStopped("handle", error.value, detail=str(error)) from error


def _memory_bytes(handle: Any) -> tuple[int, int]:
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotSupported):
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)  # drivers before 510
    return memory.used, memory.total


def _core_temperature_c(handle: Any) -> tuple[int]:
    return (pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),)


def _memory_temperature_c(handle: Any) -> tuple[int]:
    field = pynvml.nvmlDeviceGetFieldValues(handle, [MEMORY_TEMPERATURE_FIELD])[0]
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    return (field.value.uiVal,)


def _utilization_percent(handle: Any) -> tuple[int]:
    return (pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,)


def _power_w(handle: Any) -> tuple[float]:
    return (pynvml.nvmlDeviceGetPowerUsage(handle) / MILLIWATTS,)


def _power_limit_w(handle: Any) -> tuple[float]:
    return (pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / MILLIWATTS,)


def _process_memory_bytes(handle: Any) -> tuple[list[list[int]]]:
    """What each process holds of the card, as [pid, bytes]. Pids are the host's: a container may not know them."""
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    if any(process.usedGpuMemory is None for process in processes):  # as under WSL
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return ([[process.pid, process.usedGpuMemory] for process in processes],)


SENSORS: tuple[tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]], ...] = (
    (("memory_used_bytes", "memory_total_bytes"), _memory_bytes),
    (("core_temperature_c",), _core_temperature_c),
    (("memory_temperature_c",), _memory_temperature_c),
    (("utilization_percent",), _utilization_percent),
    (("power_w",), _power_w),
    (("power_limit_w",), _power_limit_w),
    (("process_memory_bytes",), _process_memory_bytes),
)


def sample(handle: Any) -> Line:
    """One line with every reading, each a number or why it is missing. Raises ReaderStopped when the card is gone."""
    readings: dict[str, Any] = {}
    failure: pynvml.NVMLError | None = None
    any_value = False
    for names, read in SENSORS:
        try:
            readings.update(zip(names, read(handle), strict=True))
            any_value = True
        except pynvml.NVMLError as error:
            if error.value in FATAL_CODES:
                raise ReaderStopped("read", error.value, detail=str(error)) from error
            failure = error
            reason = MISSING_REASONS.get(error.value, "error")
            readings.update(dict.fromkeys(names, {"missing": reason, "detail": str(error)}))
    if failure is not None and not any_value:
        raise ReaderStopped("read", failure.value, detail=str(failure))
    return {"kind": "sample", "taken_at": time.time(), "readings": readings}


def watch(target: str, interval_s: float, *, out: TextIO) -> None:
    """Write the card's identity, then a sample every `interval_s`, until stdin closes."""
    initialize()
    handle = open_card(target)
    _write(out, identify(handle))
    due = time.monotonic()
    while True:
        _write(out, sample(handle))
        due = max(due + interval_s, time.monotonic())
        if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            return  # nothing is ever sent: readable means that the panel closed it, or died


def _write(out: TextIO, line: Line) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def main(arguments: list[str]) -> int:
    """Exit status 0 when told to end, 1 after a "failed" line."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the library prints must not mix with our lines
    try:
        match arguments:
            case ["probe"]:
                _write(out, probe())
            case ["watch", target, interval_s]:
                watch(target, float(interval_s), out=out)
            case _:
                raise SystemExit(f"usage: reader.py probe | watch TARGET INTERVAL_S, not {arguments}")
    except ReaderStopped as stopped:
        _write(out, stopped.line)
        return 1
    return 0


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except (BrokenPipeError, KeyboardInterrupt):
        status = 0  # the panel is gone
    os._exit(status)  # NVML's own exit handlers may call into a driver that no longer answers
