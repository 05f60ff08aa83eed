"""The panel's own virtual environment, <repository>/.venv: whole, or made whole again."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.environment.environment import write_json
from backend.errors import SetupError
from backend.setup.console import Console
from backend.setup.pip_access import PipAccess
from backend.setup.recipe import Footprint
from backend.setup.setup_lock import LOCK_FILE, setup_lock
from backend.setup.site_packages import forget_cut_short, site_packages_of
from backend.setup.step import SCRATCH_FOLDER, Step, StepRunner

PANEL_FOOTPRINT = Footprint(download_bytes=85_000_000, disk_bytes=420_000_000)  # measured on 1 December 2026
DEV_FOOTPRINT = Footprint(download_bytes=90_000_000, disk_bytes=290_000_000)
STAMP_FILE = "volta-setup.json"
LOG_FILE = "install.log"
_MARK = "pyvenv.cfg"
_SKELETON = (
    "bin",
    "include",
    "lib",
    "lib64",
    SCRATCH_FOLDER,
)  # all there is of an environment that was interrupted at its very start
_KEPT_FILES = (LOCK_FILE, LOG_FILE)  # in use while the environment around them is made anew
CHECK_TIMEOUT_S = 60.0
VENV_DEADLINE_S = 300.0
INSTALL_DEADLINE_S = 3600.0

# Compiled modules of different packages: the ones that fail when the interpreter below them was exchanged.
IMPORT_CHECK = "import sys, psutil, pydantic_core, yaml; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True)
class PanelEnvironment:
    """The panel's environment of one checkout."""

    repository: Path
    base_python: Path  # what it is made from
    with_dev: bool = False
    import_check: str = IMPORT_CHECK

    @property
    def venv(self) -> Path:
        return self.repository / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def requirements(self) -> Path:
        return self.repository / ("requirements/dev.txt" if self.with_dev else "requirements.txt")

    def footprint(self) -> Footprint:
        """What it takes when nothing is there yet."""
        if not self.with_dev:
            return PANEL_FOOTPRINT
        return Footprint(
            PANEL_FOOTPRINT.download_bytes + DEV_FOOTPRINT.download_bytes,
            PANEL_FOOTPRINT.disk_bytes + DEV_FOOTPRINT.disk_bytes,
        )

    def is_whole(self) -> bool:
        """Whether it was installed from today's requirements, nothing was removed since, and its interpreter starts. About 0.1 s."""
        stamp = self._stamp()
        packages = site_packages_of(self.venv)
        if packages is None or stamp.get("fingerprint") != packages.fingerprint():
            return False
        installed = stamp.get("requirements")
        wanted = self._requirements_key()
        return isinstance(installed, dict) and wanted.items() <= installed.items() and self._imports()

    def is_damaged(self) -> bool:
        """Whether an installed file is missing or of another size than recorded. Looks at every file."""
        packages = site_packages_of(self.venv)
        return packages is None or bool(packages.damaged() or packages.cut_short())

    def create(self, runner: StepRunner) -> None:
        """Make the empty environment where there is none that starts. Downloads nothing: pip comes with Python."""
        if not self._has_pip():
            self._recreate(runner)

    def install(self, runner: StepRunner, access: PipAccess) -> None:
        """Install what is missing or was cut short, check it, and remember that it is whole.

        An environment whose packages are all there and still cannot be imported is made anew, once.

        Raises:
            SetupError: pip failed, or what it installed cannot be imported.
        """
        (self.venv / STAMP_FILE).unlink(missing_ok=True)
        forget_cut_short(self.venv)
        self._forget_damaged()
        self._pip_install(runner, access)
        if not self._imports():
            self._recreate(runner)
            self._pip_install(runner, access)
        if not self._imports():
            raise SetupError(f"The packages in {self.venv} cannot be imported.", hint=f"See {runner.log_path}.")
        self._write_stamp()

    def _recreate(self, runner: StepRunner) -> None:
        self._empty()
        argv = (str(self.base_python), "-m", "venv", str(self.venv))
        runner.run(Step("create the panel's environment", argv, VENV_DEADLINE_S), number=1, total=2)

    def _pip_install(self, runner: StepRunner, access: PipAccess) -> None:
        argv = access.install(self.python, "--requirement", str(self.requirements))
        runner.run(Step("install the panel's packages", argv, INSTALL_DEADLINE_S), number=2, total=2)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Only one setup works on it at a time."""
        return setup_lock(self.venv)

    def runner(self, console: Console, environ: Mapping[str, str]) -> StepRunner:
        return StepRunner(self.venv / LOG_FILE, console, environ)

    def _forget_damaged(self) -> None:
        packages = site_packages_of(self.venv)
        if packages is not None:
            packages.forget(packages.damaged())

    def _empty(self) -> None:
        """Clear away a broken environment, and nothing that is not one. What marks it as one goes last."""
        present = sorted(self.venv.iterdir(), key=lambda path: path.name == _MARK)
        strangers = [path.name for path in present if path.name not in (*_KEPT_FILES, *_SKELETON)]
        if strangers and not (self.venv / _MARK).exists():
            raise SetupError(
                f"{self.venv} is not a virtual environment: it holds {strangers[0]}.",
                hint="Move it out of the way, then run this again.",
            )
        for path in present:
            if path.name in _KEPT_FILES:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _has_pip(self) -> bool:
        return site_packages_of(self.venv) is not None and self._succeeds("-m", "pip", "--version")

    def _imports(self) -> bool:
        return self._succeeds("-c", self.import_check)

    def _succeeds(self, *arguments: str) -> bool:
        try:
            done = subprocess.run(
                (str(self.python), "-P", *arguments),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_TIMEOUT_S,
                check=False,
                env=PipAccess().environ(os.environ),
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _requirements_key(self) -> dict[str, str]:
        files = [self.repository / "requirements.txt"]
        if self.with_dev:
            files.append(self.repository / "requirements/dev.txt")
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def _stamp(self) -> dict[str, object]:
        try:
            stamp = json.loads((self.venv / STAMP_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _write_stamp(self) -> None:
        packages = site_packages_of(self.venv)
        if packages is None:
            raise SetupError(f"{self.venv} has no packages.", hint=f"Remove {self.venv} and run this again.")
        write_json(
            self.venv / STAMP_FILE,
            {"requirements": self._requirements_key(), "fingerprint": packages.fingerprint()},
        )
