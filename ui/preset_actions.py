"""What a page may do with presets: view, copy, edit, import, export, delete."""

from collections.abc import Mapping
from typing import Any

from backend.launch.preset_file import dump_preset
from backend.panel import Panel
from backend.viewer import Viewer
from ui.action import CLOSE, Frames, dialog_frame, field, language_of_message
from ui.render_forms import render_import, render_import_check, render_preset_editor, render_preset_view


async def view(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    name = _name(message)
    words = await panel.launcher.text_of(viewer, name)
    return [dialog_frame(render_preset_view(name, words, language_of_message(message)))]


async def edit(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    return await _editor(panel, viewer, _name(message), message)


async def copy(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    """Copy, and open the copy to be changed: that is what a copy is made for."""
    made = await panel.launcher.copy(viewer, _name(message))
    return await _editor(panel, viewer, made.name, message)


async def _editor(panel: Panel, viewer: Viewer, name: str, message: Mapping[str, Any]) -> Frames:
    words = await panel.launcher.text_of(viewer, name)
    return [dialog_frame(render_preset_editor(name, words, language_of_message(message)))]


async def save(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    replacing = str(message.get("replacing", "")) or None
    await panel.launcher.save(viewer, field(message, "text") + "\n", replacing=replacing)
    return CLOSE


async def show_import(_: Panel, __: Viewer, message: Mapping[str, Any]) -> Frames:
    return [dialog_frame(render_import(language_of_message(message)))]


async def read_import(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    """Show what was understood, to be checked before it is kept."""
    language = language_of_message(message)
    understood = await panel.launcher.read_import(viewer, field(message, "text"))
    notes = [note.in_language(language) for note in understood.notes]
    return [dialog_frame(render_import_check(dump_preset(understood.preset), notes, language))]


async def export(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    name = _name(message)
    return [{"type": "save_file", "name": f"{name}.yaml", "text": await panel.launcher.text_of(viewer, name)}]


async def delete(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.launcher.delete(viewer, _name(message))


def _name(message: Mapping[str, Any]) -> str:
    return str(message.get("preset", ""))
