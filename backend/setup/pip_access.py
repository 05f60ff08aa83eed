"""How setup calls pip: which index, which environment variables, and nothing of the user's pip settings lost."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A PYTHONPATH of another project, or a `pip install --user` setting, would put packages where no environment should look.
_DROPPED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
)
_COMMON = ("--disable-pip-version-check", "--no-input")
_CONFIG_DEADLINE_S = 30.0
_EXTRA_INDEX = re.compile(r"^(:env:|install|global)\.extra-index-url='(.*)'$")
_PRECEDENCE = (":env:", "install", "global")  # a later one is not looked at where an earlier one is set


@dataclass(frozen=True)
class PipAccess:
    """Where packages come from. Without URLs: from wherever pip is set up to look."""

    index_url: str | None = None
    extra_index_url: str | None = None
    configured_extra: str = ""  # further indexes of pip's own settings, which the variable for ours would hide

    def install(self, python: Path, *arguments: str) -> tuple[str, ...]:
        """The argv of a `pip install` in the environment of this interpreter."""
        return (*self._pip(python, "install"), "--progress-bar", "off", "--compile", *arguments)

    def dry_run(self, python: Path, requirement: str) -> tuple[str, ...]:
        """The argv that makes pip choose a file for a requirement without installing it."""
        return (
            *self._pip(python, "install"),
            "--dry-run",
            "--no-deps",
            "--ignore-installed",
            "--progress-bar",
            "off",
            requirement,
        )

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment for pip: the user's own, PIP_* included, less what would misplace packages.

        The indexes go by environment rather than by argv, as a URL may hold a password that `ps` would show.
        """
        kept = {name: value for name, value in environ.items() if name not in _DROPPED}
        kept |= {"PIP_USER": "0", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
        if self.index_url:
            kept["PIP_INDEX_URL"] = self.index_url
        if self.extra_index_url:
            kept["PIP_EXTRA_INDEX_URL"] = f"{self.configured_extra} {self.extra_index_url}".strip()
        return kept

    def _pip(self, python: Path, command: str) -> tuple[str, ...]:
        return (str(python), "-m", "pip", command, *_COMMON)


def access_from(
    python: Path, environ: Mapping[str, str], index_url: str | None, extra_index_url: str | None
) -> PipAccess:
    """Access by these URLs besides what pip is set up for. Asks pip for its settings where there is a further index."""
    configured = _configured_extra(python, environ) if extra_index_url else ""
    return PipAccess(index_url, extra_index_url, configured)


def _configured_extra(python: Path, environ: Mapping[str, str]) -> str:
    """The further indexes pip would use by itself; "" where it cannot say, and then pip says so in the log as well."""
    try:
        answer = subprocess.run(
            (str(python), "-m", "pip", "config", "list"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(environ),
            timeout=_CONFIG_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return extra_index_in(answer.stdout)


def extra_index_in(config: str) -> str:
    """The value of extra-index-url that counts in the output of `pip config list`."""
    found = {match[1]: match[2] for match in map(_EXTRA_INDEX.match, config.splitlines()) if match}
    values = [found[name] for name in _PRECEDENCE if name in found]
    return " ".join(values[0].replace("\\n", " ").split()) if values else ""


def without_credentials(text: str) -> str:
    """A command or a URL fit for a log: what stands between // and @ is hidden."""
    return re.sub(r"//[^/@\s]+@", "//***@", text)
