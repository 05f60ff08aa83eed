"""Adds one step to the wheel build: sm_70 cubins and compute_70 PTX. Everything else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))  # a build front end does not put the project on the path

from dflash2.build import build_images


class BuildWithImages(build_py):
    """build_py, then the images beside the package (an editable install keeps using the sources through NVRTC)."""

    def run(self) -> None:
        """Copy the package, then compile every kernel into it."""
        super().run()
        if not self.editable_mode:
            build_images(Path(self.build_lib) / "dflash2" / "images", report=self.announce)


setup(cmdclass={"build_py": BuildWithImages})
