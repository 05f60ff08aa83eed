"""What a page may ask over its WebSocket: one short function an action, each acting for a viewer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from backend.panel import Panel
from backend.viewer import Viewer

Action = Callable[[Panel, Viewer, Mapping[str, Any]], Awaitable[None]]


async def start_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.start_preset(viewer, str(message.get("preset", "")))


async def stop_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.stop_engine(viewer, str(message.get("engine", "")))


async def remove_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.remove_engine(viewer, str(message.get("engine", "")))


async def choose_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    conversation = await panel.chats.conversation(viewer)
    chosen = str(message.get("engine") or "") or None
    await panel.chats.update_settings(viewer, replace(conversation.settings, engine_id=chosen))


async def clear_chat(panel: Panel, viewer: Viewer, _: Mapping[str, Any]) -> None:
    await panel.chats.clear(viewer)


ACTIONS: Mapping[str, Action] = {
    "engine.start": start_engine,
    "engine.stop": stop_engine,
    "engine.remove": remove_engine,
    "chat.engine": choose_engine,
    "chat.with": choose_engine,
    "chat.clear": clear_chat,
}
