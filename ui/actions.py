"""What a page may ask over its WebSocket: one short function an action, each acting for a viewer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from backend.errors import PanelError
from backend.panel import Panel
from backend.viewer import Viewer
from ui.render_chat import render_notice

Frames = list[dict[str, Any]]
Action = Callable[[Panel, Viewer, Mapping[str, Any]], Awaitable[Frames | None]]
"""Does what the message asks; what it returns goes to the asking tab alone."""


async def start_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.start_preset(viewer, str(message.get("preset", "")))


async def stop_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.stop_engine(viewer, str(message.get("engine", "")))


async def remove_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.remove_engine(viewer, str(message.get("engine", "")))


async def send_message(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    """Ask the question; the answer arrives by push. The page empties its box only when the question was taken."""
    try:
        await panel.chats.send(viewer, str(message.get("text", "")))
    except PanelError as err:
        return [{"type": "refused"}, {"type": "slot", "slot": "chat/notice", "html": render_notice(str(err))}]
    return [{"type": "sent"}, {"type": "slot", "slot": "chat/notice", "html": ""}]


async def stop_answer(panel: Panel, viewer: Viewer, _: Mapping[str, Any]) -> None:
    await panel.chats.stop(viewer)


async def choose_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    settings = await panel.chats.settings(viewer)
    chosen = str(message.get("engine") or "") or None
    await panel.chats.update_settings(viewer, replace(settings, engine_id=chosen))


async def clear_chat(panel: Panel, viewer: Viewer, _: Mapping[str, Any]) -> None:
    await panel.chats.clear(viewer)


ACTIONS: Mapping[str, Action] = {
    "engine.start": start_engine,
    "engine.stop": stop_engine,
    "engine.remove": remove_engine,
    "chat.send": send_message,
    "chat.stop": stop_answer,
    "chat.engine": choose_engine,
    "chat.with": choose_engine,
    "chat.clear": clear_chat,
}
