"""`python -m proof all --results FILE` runs every check; `python -m proof smallest` is for compute-sanitizer."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from dflash2.driver import Driver

from .cases import random_cases, smallest_cases
from .checks import CHECKS, CheckResult, check_absolute
from .timing import time_all


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 when a check failed."""
    parser = argparse.ArgumentParser(prog="proof", description=__doc__)
    parser.add_argument("what", choices=["all", "random", "smallest", "timing", *CHECKS])
    parser.add_argument("--cases", type=int, default=1000, help="how many random cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="write a JSON record here")
    chosen = parser.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    results = [_run(name, chosen) for name in _names(chosen.what)]
    timings = [{**asdict(ratio), "speedup": ratio.speedup} for ratio in time_all()] if _is_timed(chosen.what) else []
    for timing in timings:
        print(timing, flush=True)
    if chosen.results:
        chosen.results.write_text(json.dumps(_record(arguments, results, timings), indent=1) + "\n")
    return int(any(result.failures for result in results))


def _names(what: str) -> list[str]:
    return ["random", *CHECKS] if what == "all" else [] if what == "timing" else [what]


def _is_timed(what: str) -> bool:
    return what in ("all", "timing")


def _run(name: str, chosen: argparse.Namespace) -> CheckResult:
    started = time.monotonic()
    if name == "random":
        result = check_absolute("random shapes", random_cases(chosen.cases, chosen.seed), chosen.seed)
    elif name == "smallest":
        result = check_absolute("smallest shapes", smallest_cases(), chosen.seed)
        CHECKS["kv_write"](chosen.seed)
    else:
        result = CHECKS[name](chosen.seed)
    verdict = f"{len(result.failures)} FAILED" if result.failures else "ok"
    print(f"{result.check}: {result.cases} cases, {verdict}; {result.measure}: worst {result.worst:.3g} "
          f"({result.worst_case}), limit {result.limit:g}; {time.monotonic() - started:.0f} s", flush=True)  # fmt: skip
    for failure in result.failures[:10]:
        print("  ", failure, flush=True)
    return result


def _record(arguments: list[str], results: list[CheckResult], timings: list[dict[str, Any]]) -> dict[str, Any]:
    device = Driver().devices()[0]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m proof " + " ".join(arguments),
        "card": device.name,
        "compute_capability": "{}.{}".format(*device.capability),
        "driver_cuda": "{}.{}".format(*Driver().cuda_version()),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "note": "compute_70 PTX compiled by the driver; m8n8k4 is emulated on this card, so attention is not timed",
        "checks": [asdict(result) for result in results],
        "timed_here": timings,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
