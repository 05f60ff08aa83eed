"""How setup calls pip: which index, which environment variables, and nothing of the user's pip settings lost."""

import re
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


@dataclass(frozen=True)
class PipAccess:
    """Where packages come from. Without URLs: from wherever pip is set up to look."""

    index_url: str | None = None
    extra_index_url: str | None = None

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

        The index goes by environment rather than by argv, as its URL may hold a password that `ps` would show.
        """
        kept = {name: value for name, value in environ.items() if name not in _DROPPED}
        kept |= {"PIP_USER": "0", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
        if self.index_url:
            kept["PIP_INDEX_URL"] = self.index_url
        return kept

    def _pip(self, python: Path, command: str) -> tuple[str, ...]:
        extra = (
            ("--extra-index-url", self.extra_index_url) if self.extra_index_url else ()
        )  # adds to those of pip's settings
        return (str(python), "-m", "pip", command, *_COMMON, *extra)


def without_credentials(text: str) -> str:
    """A command or a URL fit for a log: what stands between // and @ is hidden."""
    return re.sub(r"//[^/@\s]+@", "//***@", text)
