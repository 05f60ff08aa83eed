"""Where compiled things live that are made at run time: never inside the package."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_ENV = "DFLASH2_CACHE"


def cache_folder() -> Path:
    """The folder in DFLASH2_CACHE, else dflash2 under XDG_CACHE_HOME or ~/.cache. It may not exist yet."""
    chosen = os.environ.get(CACHE_ENV)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dflash2"
