"""Everything a page may ask over its WebSocket: one short function an action, each with the role it takes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backend.errors import LaunchError, PanelError
from backend.panel import Panel
from backend.viewer import Role, Viewer
from ui import environment_actions, form_actions, preset_actions
from ui.action import Action, Frames
from ui.render_chat import render_notice


async def start_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.launcher.start(viewer, str(message.get("preset", "")))


async def fix_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    number = str(message.get("fix", ""))
    if not number.isdecimal():
        raise LaunchError(f"Remedy {number[:20]!r} is not one that is offered.")
    await panel.launcher.fix(viewer, _engine(message), int(number))


async def restart_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.restart_engine(viewer, _engine(message))


async def stop_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.stop_engine(viewer, _engine(message))


async def remove_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.remove_engine(viewer, _engine(message))


async def care_for_engine(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> None:
    await panel.set_care(viewer, _engine(message), str(message.get("care", "")), bool(message.get("value")))


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
    chosen = str(message.get("value") or message.get("engine") or "") or None
    await panel.chats.update_settings(viewer, replace(settings, engine_id=chosen))


async def clear_chat(panel: Panel, viewer: Viewer, _: Mapping[str, Any]) -> None:
    await panel.chats.clear(viewer)


def _engine(message: Mapping[str, Any]) -> str:
    return str(message.get("engine", ""))


ACTIONS: Mapping[str, Action] = {
    "chat.send": Action(send_message, Role.MEMBER),
    "chat.stop": Action(stop_answer, Role.MEMBER),
    "chat.engine": Action(choose_engine, Role.MEMBER),
    "chat.with": Action(choose_engine, Role.MEMBER),
    "chat.clear": Action(clear_chat, Role.MEMBER),
    "engine.start": Action(start_engine, Role.OPERATOR),
    "launch.form": Action(form_actions.open_form, Role.OPERATOR),
    "launch.consider": Action(form_actions.consider, Role.OPERATOR),
    "launch.start": Action(form_actions.start, Role.OPERATOR),
    "engine.fix": Action(fix_engine, Role.OPERATOR),
    "engine.restart": Action(restart_engine, Role.OPERATOR),
    "engine.stop": Action(stop_engine, Role.OPERATOR),
    "engine.remove": Action(remove_engine, Role.OPERATOR),
    "engine.care": Action(care_for_engine, Role.OPERATOR),
    "preset.view": Action(preset_actions.view, Role.MEMBER),
    "preset.export": Action(preset_actions.export, Role.MEMBER),
    "preset.copy": Action(preset_actions.copy, Role.OPERATOR),
    "preset.edit": Action(preset_actions.edit, Role.OPERATOR),
    "preset.save": Action(preset_actions.save, Role.OPERATOR),
    "preset.import_form": Action(preset_actions.show_import, Role.OPERATOR),
    "preset.import": Action(preset_actions.read_import, Role.OPERATOR),
    "preset.delete": Action(preset_actions.delete, Role.OPERATOR),
    # whoever names a program for the panel to run can run any program: for the admin alone
    "env.form": Action(environment_actions.show_form, Role.ADMIN),
    "env.add": Action(environment_actions.add, Role.ADMIN),
    "env.install_form": Action(environment_actions.show_install_form, Role.ADMIN),
    "env.install": Action(environment_actions.install, Role.ADMIN),
    "env.resume": Action(environment_actions.resume, Role.ADMIN),
    "env.cancel": Action(environment_actions.cancel, Role.ADMIN),
    "env.probe": Action(environment_actions.probe, Role.ADMIN),
    "env.remove": Action(environment_actions.remove, Role.ADMIN),
}
