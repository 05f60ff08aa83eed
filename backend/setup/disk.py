"""What folders take on disk, and where a folder that is not there yet would lie."""

import os
from pathlib import Path


def nearest_existing(folder: Path) -> Path:
    """The folder itself, or the closest parent that is there."""
    for place in (folder, *folder.parents):
        if place.exists():
            return place
    return Path("/")


def bytes_below(folder: Path) -> int:
    """What a folder takes on disk already; 0 where it is not there. Files that vanish meanwhile count as gone."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH116, PTH118
            except FileNotFoundError:
                continue
    return total
