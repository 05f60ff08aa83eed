"""What the actions of a page share: who may do one, what it is sent, and the frames it may answer with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backend.panel import Panel
from backend.viewer import Role, Viewer
from ui.strings import Language

MAX_FIELD_CHARACTERS = 256 * 1024

Frames = list[dict[str, Any]]
Act = Callable[[Panel, Viewer, Mapping[str, Any]], Awaitable[Frames | None]]
"""Does what the message asks; what it returns goes to the asking tab alone."""

CLOSE: Frames = [{"type": "dialog_close"}]


@dataclass(frozen=True)
class Action:
    """One thing a page may do, and the least role that may do it."""

    act: Act
    role: Role


def dialog_frame(html: str, *, wide: bool = False) -> dict[str, Any]:
    """Opens a dialog in the asking tab."""
    return {"type": "dialog", "html": html, "wide": wide}


def field(message: Mapping[str, Any], name: str) -> str:
    """What a form's field says, without spaces around it; "" where it has none."""
    fields = message.get("fields")
    value = fields.get(name, "") if isinstance(fields, Mapping) else ""
    return str(value)[:MAX_FIELD_CHARACTERS].strip()


def language_of_message(message: Mapping[str, Any]) -> Language:
    """The asking tab's language; ui.live puts it into every message."""
    return Language(message.get("language_now", Language.EN))
