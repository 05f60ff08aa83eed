"""Numbers as people read them: never more digits than are true, always with a unit, blank where unknown."""

from markupsafe import Markup

from backend.setup.console import size

GIB = 1024**3


def with_unit(number: str, unit: str) -> Markup:
    """A number and its small, muted unit."""
    return Markup('{}<span class="vp-unit"> {}</span>').format(number, unit)


def duration(seconds: float) -> Markup:
    """78 ms, 1.24 s, 12.3 s: three digits."""
    if seconds < 0.0995:
        return with_unit(_three_digits(seconds * 1000), "ms")
    if seconds < 0.9995:
        return with_unit(f"{seconds * 1000:.0f}", "ms")
    return with_unit(_three_digits(seconds), "s")


def rate(per_second: float) -> Markup:
    """41.3 tok/s."""
    return with_unit(_three_digits(per_second), "tok/s")


def gib(size_bytes: float) -> Markup:
    """12.4 GiB."""
    return with_unit(f"{size_bytes / GIB:.1f}", "GiB")


def tokens(count: int) -> str:
    """2,048: whole tokens, in groups of three."""
    return f"{count:,}"


def percent(part: float, whole: float) -> int:
    """A whole percentage between 0 and 100."""
    return max(0, min(100, round(100 * part / whole))) if whole > 0 else 0


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def disk_size(count: float) -> str:
    """350 MB, 2.6 GB: what files take, in the units that mirrors and shops use."""
    return size(count)
