"""What a page may do about engine environments: add, look at, install, remove."""

from collections.abc import Mapping
from typing import Any

from backend.environment.environment import EnvironmentKind
from backend.errors import SetupError
from backend.panel import Panel
from backend.viewer import Viewer
from ui.action import CLOSE, Frames, dialog_frame, field, language_of_message
from ui.render_forms import render_environment_form, render_install_form


async def show_form(_: Panel, __: Viewer, message: Mapping[str, Any]) -> Frames:
    kind = _kind(message)
    return [dialog_frame(render_environment_form(kind, language_of_message(message)))]


async def add(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    title = field(message, "title")
    match _kind(message):
        case EnvironmentKind.PYTHON:
            await panel.environments.add_python(field(message, "path"), title)
        case EnvironmentKind.DOCKER:
            await panel.environments.add_docker(field(message, "image"), title)
        case EnvironmentKind.ADDRESS:
            await panel.environments.add_address(field(message, "address"), title, field(message, "key"))
    await panel.launcher.refresh()
    return CLOSE


async def show_install_form(panel: Panel, _: Viewer, message: Mapping[str, Any]) -> Frames:
    wanted = str(message.get("recipe", ""))
    offer = next((offer for offer in panel.environments.recipes() if offer.recipe.name == wanted), None)
    if offer is None:
        raise SetupError(f"There is no recipe named {wanted!r}.")
    return [dialog_frame(render_install_form(offer, language_of_message(message)))]


async def install(panel: Panel, _: Viewer, message: Mapping[str, Any]) -> Frames:
    await panel.environments.install(
        str(message.get("recipe", "")), index_url=field(message, "index"), extra_index_url=field(message, "extra")
    )
    return CLOSE


async def resume(panel: Panel, _: Viewer, message: Mapping[str, Any]) -> None:
    await panel.environments.resume(_id(message))


async def cancel(panel: Panel, _: Viewer, message: Mapping[str, Any]) -> None:
    await panel.environments.cancel(_id(message))


async def probe(panel: Panel, _: Viewer, message: Mapping[str, Any]) -> None:
    await panel.environments.probe(_id(message))
    await panel.launcher.refresh()


async def remove(panel: Panel, _: Viewer, message: Mapping[str, Any]) -> None:
    await panel.remove_environment(_id(message))


def _id(message: Mapping[str, Any]) -> str:
    return str(message.get("environment", ""))


def _kind(message: Mapping[str, Any]) -> EnvironmentKind:
    """Raises SetupError for a kind that cannot be added."""
    wanted = str(message.get("kind", ""))
    if wanted not in (EnvironmentKind.PYTHON, EnvironmentKind.DOCKER, EnvironmentKind.ADDRESS):
        raise SetupError(f"An environment of kind {wanted[:40]!r} cannot be added.")
    return EnvironmentKind(wanted)
