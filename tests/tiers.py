"""Runs the tests tier by tier, times each, and can record the result with hardware and date: python -m tests.tiers [TIER ...]."""

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
KERNEL_VENV = ROOT / ".venv-kernels"
KERNEL_REQUIREMENTS = ROOT / "kernels" / "requirements-test.txt"
ENGINE_TESTS = "tests/backend/engine"
PYTEST = (sys.executable, "-m", "pytest", "-q", "--durations=5")


@dataclass(frozen=True)
class Tier:
    """One group of checks; a tier fails when any of its commands does."""

    name: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """How a tier went."""

    name: str
    passed: bool
    seconds: float
    summary: str


def tiers() -> tuple[Tier, ...]:
    """All tiers in the order they run: the quickest to fail first."""
    kernel_python = str(KERNEL_VENV / "bin" / "python")
    return (
        Tier(
            "lint",
            (
                (sys.executable, "-m", "ruff", "check", "."),
                (sys.executable, "-m", "ruff", "format", "--check", "."),
                (sys.executable, "-m", "mypy"),
            ),
        ),
        Tier("unit", ((*PYTEST, "-n", "2", "-m", "not browser and not faults", "--ignore=tests/kernels", "tests"),)),
        # The process tests mostly wait, so three at a time; but those of engines look at /dev/shm as a whole: one by one.
        Tier(
            "faults",
            (
                (*PYTEST, "-m", "faults", ENGINE_TESTS),
                (*PYTEST, "-n", "3", "-m", "faults", "--ignore=tests/kernels", f"--ignore={ENGINE_TESTS}", "tests"),
            ),
        ),
        Tier("browser", ((*PYTEST, "-m", "browser", "--ignore=tests/kernels", "tests"),)),
        Tier("kernels", (_kernel_setup(), (kernel_python, "-m", "pytest", "-q", "--durations=5", "tests/kernels"))),
    )


def _kernel_setup() -> tuple[str, ...]:
    """The kernels' tests have packages of their own (torch, a disassembler), which must not meet the panel's."""
    script = (
        f'set -e; stamp="{KERNEL_VENV}/requirements.txt"; cmp -s "{KERNEL_REQUIREMENTS}" "$stamp" && exit 0; '
        f'rm -rf "{KERNEL_VENV}"; "{sys.executable}" -m venv "{KERNEL_VENV}"; '
        f'"{KERNEL_VENV}/bin/python" -m pip install -q -r "{KERNEL_REQUIREMENTS}"; cp "{KERNEL_REQUIREMENTS}" "$stamp"'
    )
    return ("sh", "-c", script)


def run(tier: Tier) -> Outcome:
    """Run a tier's commands in turn, echoing what they print, until one fails."""
    begun = time.monotonic()
    counts: list[str] = []
    passed = True
    for command in tier.commands:
        print(f"== {tier.name}: {' '.join(command[:4])} …", flush=True)
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if re.search(r"\d+ (passed|failed|error).* in ", line):
                counts.append(line.strip(" =\n"))
        if process.wait() != 0:
            passed = False
            break
    return Outcome(tier.name, passed, time.monotonic() - begun, "; ".join(counts))


def record(outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write a results file naming hardware, date, commit and counts."""
    folder.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    commit = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    rows = [f"| {o.name} | {'passed' if o.passed else 'FAILED'} | {o.seconds:.0f} | {o.summary} |" for o in outcomes]
    lines = [
        f"# make prove, {today}",
        "",
        f"Commit {commit}. {cpu_model()}, {os.cpu_count()} cores, {memory_gib():.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}. Rounds of each process test: {os.environ.get('VOLTA_ROUNDS', '3')}.",
        "",
        "| tier | result | seconds | counts |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    path = folder / f"prove-{today}.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def cpu_model() -> str:
    """The processor's name, as the kernel gives it."""
    match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else platform.machine()


def memory_gib() -> float:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tiers", nargs="*", help=f"of: {', '.join(tier.name for tier in tiers())}; all when none is named"
    )
    parser.add_argument("--record", type=Path, help="folder for a results file")
    arguments = parser.parse_args()
    known = {tier.name for tier in tiers()}
    if set(arguments.tiers) - known:
        parser.error(f"unknown tier: {', '.join(sorted(set(arguments.tiers) - known))}")
    outcomes = [run(tier) for tier in tiers() if not arguments.tiers or tier.name in arguments.tiers]
    print(
        "\n".join(
            f"{o.name:8} {'passed' if o.passed else 'FAILED'} in {o.seconds:.0f} s  {o.summary}" for o in outcomes
        )
    )
    if arguments.record:
        print(f"recorded in {record(outcomes, arguments.record)}")
    failed = [outcome for outcome in outcomes if not outcome.passed]
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
