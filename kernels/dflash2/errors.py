"""Every error dflash2 raises on purpose.

Dflash2Error
├── ToolMissing       a compiler, disassembler, header or library is not installed
├── CompileFailed     NVRTC refused a source
├── DriverFailed      the CUDA driver refused a call
├── ImageUnusable     no kernel image fits this card, driver or toolkit
├── ShapeUnsupported  no kernel variant serves this shape
├── CubinUnreadable   a cubin holds no such kernel, or is no cubin
└── SimulationFailed  the timing model could not follow a kernel to its end
"""

from __future__ import annotations


class Dflash2Error(Exception):
    """What happened, and a hint that says how to fix it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint


class ToolMissing(Dflash2Error):
    """A compiler, disassembler, header or library is not installed; the hint names the package."""


class CompileFailed(Dflash2Error):
    """NVRTC refused a source; the message holds its log."""


class DriverFailed(Dflash2Error):
    """The CUDA driver refused a call; the message names the call and the error."""


class ImageUnusable(Dflash2Error):
    """No kernel image fits this card, driver or toolkit."""


class ShapeUnsupported(Dflash2Error):
    """No kernel variant serves this shape."""


class CubinUnreadable(Dflash2Error):
    """A cubin holds no such kernel, or is no cubin."""


class SimulationFailed(Dflash2Error):
    """The timing model could not follow a kernel to its end."""
