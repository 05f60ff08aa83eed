"""Setup's first step, for whatever Python 3 a machine has: find one that is new enough, or say how to get it.

    python3 backend/setup/bootstrap.py run|prepare|status [options] [-- options of app.py]

Standard library only, and only syntax of Python 3.6: Ubuntu 20.04 and 22.04, where many V100 machines are, come with 3.8 and 3.10.
"""

# Newer syntax would fail on the very versions that this file is there to explain.
# ruff: noqa: UP006, UP035, UP045

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, NoReturn, Optional, Tuple

OLDEST = (3, 11)
NEWEST = (3, 14)  # the CPU engine has packages up to here
TRIED_NAMES = ("python3.13", "python3.12", "python3.11", "python3.14", "python3")
ANSWER_TIMEOUT_S = 20
REEXEC_MARK = "VOLTA_BOOTSTRAP"

# Prints the version, and whether a virtual environment can be made: Debian and Ubuntu split that off.
QUESTION = """
import sys
try:
    import ensurepip, venv
    has_venv = 1
except ImportError:
    has_venv = 0
print("%d %d %d" % (sys.version_info[0], sys.version_info[1], has_venv))
"""


class FoundPython(NamedTuple):
    """A Python on this machine that answered."""

    path: str
    version: Tuple[int, int]
    has_venv: bool

    def is_suitable(self) -> bool:
        return OLDEST <= self.version <= NEWEST and self.has_venv


def main(argv: List[str]) -> int:
    """The exit code, where this process does not become the next one."""
    if not sys.platform.startswith("linux"):
        return refuse(f"Volta Panel runs on Linux; this is {sys.platform}. On Windows, use WSL 2.")
    repository = Path(__file__).resolve().parent.parent.parent
    current = FoundPython(sys.executable, (sys.version_info[0], sys.version_info[1]), can_make_environments())
    if not current.is_suitable():
        return switch_to_another(current, argv, repository)
    os.environ.pop(REEXEC_MARK, None)
    os.chdir(str(repository))
    sys.path.insert(0, str(repository))
    from backend.setup.bootstrap_panel import prepare_and_go_on  # syntax of 3.11 from here on

    return prepare_and_go_on(argv, repository)


def switch_to_another(current: FoundPython, argv: List[str], repository: Path) -> int:
    """Run this file again with the best other Python; else say what is missing."""
    others = [found for found in map(ask, candidates(repository)) if found is not None]
    suitable = [found for found in others if found.is_suitable()]
    if not suitable or os.environ.get(REEXEC_MARK):
        return refuse(advice(current, others))
    say(f"This is Python {dotted(current.version)}; going on with {suitable[0].path} ({dotted(suitable[0].version)}).")
    return become(suitable[0].path, argv)


def become(python: str, argv: List[str]) -> NoReturn:
    """This very file again, as the same process, on another Python."""
    environ = dict(os.environ)
    environ[REEXEC_MARK] = "1"  # once: two Pythons must not hand over to each other for ever
    os.execve(python, [python, str(Path(__file__).resolve()), *argv], environ)


def candidates(repository: Path) -> List[str]:
    """Interpreters worth asking, best first: the panel's own, then those on PATH by name, then the user's own tools' places."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += [str(Path.home() / ".local" / "bin"), "/usr/local/bin", "/usr/bin"]
    paths = [str(repository / ".venv" / "bin" / "python")]
    paths += [f"{folder}/{name}" for name in TRIED_NAMES for folder in folders]
    present = [path for path in paths if os.access(path, os.X_OK)]
    return sorted(set(present), key=present.index)


def ask(path: str) -> Optional[FoundPython]:
    """What an interpreter says of itself; None for one that does not start (a version manager's empty shim)."""
    try:
        answer = subprocess.run(
            [path, "-c", QUESTION],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_TIMEOUT_S,
        )
        major, minor, has_venv = answer.stdout.decode("ascii", "replace").split()
        return FoundPython(path, (int(major), int(minor)), has_venv == "1")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def can_make_environments() -> bool:
    """Whether this very interpreter can make a virtual environment with pip in it."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return False
    return True


def advice(current: FoundPython, others: List[FoundPython]) -> str:
    """What is missing and how to get it, for someone who may not be an administrator."""
    without_venv = [found for found in [current, *others] if OLDEST <= found.version <= NEWEST and not found.has_venv]
    if without_venv:
        found = without_venv[0]
        return (
            f"{found.path} is Python {dotted(found.version)}, which is new enough, but it cannot make virtual environments.\n"
            f"On Debian and Ubuntu that is a package of its own:  sudo apt install python{dotted(found.version)}-venv\n"
            "Then run this again."
        )
    lines = ["Volta Panel needs Python 3.11, 3.12, 3.13 or 3.14. Found on this machine:"]
    lines += [f"  {found.path}  is Python {dotted(found.version)}" for found in _without_twins([current, *others])]
    lines += [
        "Ways to get a newer one beside it (none replaces the system's own):",
        "  apt     Debian 12 or newer, Ubuntu 24.04 or newer:  sudo apt install python3 python3-venv",
        "          Ubuntu 20.04 and 22.04: add the 'deadsnakes' archive, then  sudo apt install python3.12 python3.12-venv",
        "  conda   without an administrator:  conda create -n volta python=3.12 && conda activate volta",
        "  uv      without an administrator:  uv python install 3.12   (it puts python3.12 into ~/.local/bin)",
        "Then run this again.",
    ]
    return "\n".join(lines)


def _without_twins(found: List[FoundPython]) -> List[FoundPython]:
    """One entry a real file: python3 is often a link to python3.8."""
    seen: Dict[Path, FoundPython] = {}
    for one in found:
        seen.setdefault(Path(one.path).resolve(), one)
    return list(seen.values())


def dotted(version: Tuple[int, int]) -> str:
    """A version as people write it: 3.11."""
    return f"{version[0]}.{version[1]}"


def say(text: str) -> None:
    """One message for the person; this file logs nothing."""
    sys.stderr.write(text + "\n")


def refuse(text: str) -> int:
    """Say why setup cannot go on; the exit code for it."""
    say(text)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
