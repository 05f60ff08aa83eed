"""What setup is about to download and where the disk space goes: shown, and checked, before anything is fetched."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backend.errors import SetupError
from backend.setup.console import size
from backend.setup.disk import bytes_below, nearest_existing
from backend.setup.recipe import Footprint

BEGUN_BYTES = 50_000_000  # pip and the skeleton of an environment take 27 MB
MARGIN = 1.05  # a full disk is more than an inconvenience on a shared machine


@dataclass(frozen=True)
class PlanRow:
    """One thing that is missing."""

    what: str
    footprint: Footprint
    folder: Path
    is_begun: bool = False  # part of it is there: the footprint is the most that it can still take


@dataclass(frozen=True)
class DownloadPlan:
    """Everything that is missing. Empty: there is nothing to do."""

    rows: tuple[PlanRow, ...]

    @property
    def total(self) -> Footprint:
        return Footprint(
            download_bytes=sum(row.footprint.download_bytes for row in self.rows),
            disk_bytes=sum(row.footprint.disk_bytes for row in self.rows),
        )

    def table(self) -> list[str]:
        """The plan as aligned lines, with the free space of every disk that it touches."""
        cells = [("", "download", "on disk", "where")]
        cells += [
            _cells(row.what, row.footprint, str(row.folder), "at most" if row.is_begun else "about")
            for row in self.rows
        ]
        cells.append(
            _cells("together", self.total, "", "at most" if any(row.is_begun for row in self.rows) else "about")
        )
        widths = [max(len(line[column]) for line in cells) for column in range(3)]
        lines = [f"  {a:<{widths[0]}}   {b:>{widths[1]}}   {c:>{widths[2]}}   {d}".rstrip() for a, b, c, d in cells]
        return [*lines, *(disk.line() for disk in self.disks())]

    def disks(self) -> tuple["DiskNeed", ...]:
        """The need of each file system, largest first."""
        needs: dict[int, DiskNeed] = {}
        for row in sorted(self.rows, key=lambda one: one.footprint.disk_bytes, reverse=True):
            place = nearest_existing(row.folder)
            device = place.stat().st_dev
            before = needs.get(device) or DiskNeed(
                folder=row.folder, need_bytes=0, free_bytes=shutil.disk_usage(place).free
            )
            working_bytes = row.footprint.disk_bytes + row.footprint.download_bytes
            needs[device] = DiskNeed(before.folder, before.need_bytes + working_bytes, before.free_bytes)
        return tuple(needs.values())

    def check_space(self) -> None:
        """Raises SetupError, with the shortfall, where a disk cannot take its part."""
        for disk in self.disks():
            if disk.short_bytes > 0:
                raise SetupError(
                    f"Not enough disk space for {disk.folder}: about {size(disk.need_bytes)} are needed while installing, "
                    f"{size(disk.free_bytes)} are free, {size(disk.short_bytes)} are missing.",
                    hint="Free some, or put the engine on another disk with --home FOLDER (or VOLTA_HOME). "
                    "PIP_NO_CACHE_DIR=1 does without pip's cache.",
                )


@dataclass(frozen=True)
class DiskNeed:
    """What one file system has to take at the height of it: downloads lie beside what is unpacked from them."""

    folder: Path
    need_bytes: int
    free_bytes: int

    @property
    def short_bytes(self) -> int:
        """How much is missing; 0 where it suffices."""
        return max(0, int(self.need_bytes * MARGIN) - self.free_bytes)

    def line(self) -> str:
        """For the table: the free space, and how much of it the installation needs while it runs."""
        return f"  free: {size(self.free_bytes)} on the disk of {self.folder} (while installing it takes {size(self.need_bytes)})"


def row_for(what: str, footprint: Footprint, folder: Path, *, begun: Path | None) -> PlanRow:
    """What is still needed of it. `begun` holds what is there; an empty virtual environment is no part worth mentioning."""
    present = 0 if begun is None else bytes_below(begun)
    if present < BEGUN_BYTES:
        return PlanRow(what, footprint, folder)
    left = Footprint(footprint.download_bytes, max(0, footprint.disk_bytes - present))
    return PlanRow(f"{what}, what is missing or changed", left, folder, is_begun=True)


def cache_row(rows: tuple[PlanRow, ...], environ: Mapping[str, str]) -> tuple[PlanRow, ...]:
    """pip keeps a copy of what it downloads, so that a second environment or a repair need not download again."""
    kept = sum(row.footprint.download_bytes for row in rows)
    if not kept or environ.get("PIP_NO_CACHE_DIR", "").lower() not in ("", "0", "false", "no", "off"):
        return ()
    return (PlanRow("pip's cache of the downloads", Footprint(0, kept), pip_cache_folder(environ)),)


def pip_cache_folder(environ: Mapping[str, str]) -> Path:
    """Where pip keeps its downloads, by the variables it heeds."""
    if environ.get("PIP_CACHE_DIR"):
        return Path(environ["PIP_CACHE_DIR"])
    cache_home = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/") / ".cache")
    return Path(cache_home) / "pip"


def _cells(what: str, footprint: Footprint, where: str, prefix: str) -> tuple[str, str, str, str]:
    download = f"{prefix} {size(footprint.download_bytes)}" if footprint.download_bytes else "-"
    return what, download, f"{prefix} {size(footprint.disk_bytes)}", where
