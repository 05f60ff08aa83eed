"""The packages of one virtual environment, looked at from outside: which are whole, and which were cut short."""

import csv
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

MAX_NAMED = 5  # damaged packages named in a message


@dataclass(frozen=True)
class SitePackages:
    """One site-packages folder."""

    folder: Path

    def fingerprint(self) -> str:
        """Changes when a package is added, removed, updated or half removed. Costs one listing, no Python start."""
        names = sorted(path.name for path in self.folder.iterdir() if path.name != "__pycache__")
        return hashlib.sha256("\n".join(names).encode()).hexdigest()

    def cut_short(self) -> tuple[Path, ...]:
        """Metadata of packages whose installation or removal was interrupted.

        pip writes INSTALLER after all other files of a package, and names it in RECORD last of all; before it removes
        a package it renames it to a name that starts with "~".
        """
        unfinished = [info for info in self._infos() if not _is_finished(info)]
        return tuple(sorted([*unfinished, *self.folder.glob("~*")]))

    def damaged(self) -> tuple[Path, ...]:
        """Metadata of packages with a file missing or of another size than recorded. Reads every RECORD (about 1 s for 60 000 files)."""
        return tuple(info for info in self._infos() if _is_finished(info) and not self._is_whole(info))

    def forget(self, infos: tuple[Path, ...]) -> None:
        """Remove the metadata, so that pip installs these packages anew over what is left of them."""
        for info in infos:
            if info.parent != self.folder:
                raise ValueError(f"{info} does not lie in {self.folder}")
            if info.is_dir() and not info.is_symlink():
                shutil.rmtree(info)
            else:
                info.unlink()

    def _infos(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.dist-info") if not path.name.startswith("~"))

    def _is_whole(self, info: Path) -> bool:
        with (info / "RECORD").open(encoding="utf-8", newline="") as file:
            return all(self._is_as_recorded(row) for row in csv.reader(file) if row)

    def _is_as_recorded(self, row: list[str]) -> bool:
        name, size = row[0], row[-1]
        if name.endswith(".pyc"):
            return True  # Python rewrites them as it likes
        try:
            actual = (self.folder / name).stat().st_size
        except OSError:
            return False
        return not size or int(size) == actual


def site_packages_of(venv: Path) -> SitePackages | None:
    """The site-packages folder of a virtual environment; None where it has none, or several."""
    folders = list(venv.glob("lib/python3.*/site-packages"))
    return SitePackages(folders[0]) if len(folders) == 1 else None


def forget_cut_short(venv: Path) -> tuple[str, ...]:
    """Let pip see packages that were cut short as not installed; their names, for the log."""
    packages = site_packages_of(venv)
    if packages is None:
        return ()
    infos = packages.cut_short()
    packages.forget(infos)
    return tuple(info.name for info in infos)


def named(infos: tuple[Path, ...]) -> str:
    """Some packages by name, and how many more there are."""
    names = [info.name.removesuffix(".dist-info") for info in infos]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _is_finished(info: Path) -> bool:
    try:
        record = (info / "RECORD").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return (info / "INSTALLER").is_file() and f"{info.name}/INSTALLER" in record
