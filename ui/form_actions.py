"""What a page may do with the launch form: open it, consider what was typed, launch it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from pydantic import SecretStr

from backend.errors import LaunchError, PanelError
from backend.gpu.snapshot import GpuCard
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Preset
from backend.panel import Panel
from backend.preflight.finding import Severity
from backend.preview.previews import Preview, previews
from backend.proposal import Proposal
from backend.viewer import Viewer
from ui.action import CLOSE, Frames, dialog_frame, field, language_of_message
from ui.launch_form import FormError, read_form, shown_values
from ui.render_engine import render_snippet
from ui.render_findings import render_findings
from ui.render_fit import render_fit
from ui.render_launch_form import card_slots, render_form_buttons, render_launch_form
from ui.strings import Language, text

NOTHING_CHANGED = Adjustments()


async def open_form(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    language = language_of_message(message)
    await panel.launcher.refresh()
    preset = panel.launcher.shelf.by_name(str(message.get("preset", "")))
    html = render_launch_form(
        preset,
        shown_values(preset, NOTHING_CHANGED),
        language,
        views=panel.environments.views,
        offers=panel.environments.recipes(),
        cards=panel.gpus.view().cards,
        models=await asyncio.to_thread(panel.models.names),
    )
    proposal = await _proposal(panel, viewer, preset, NOTHING_CHANGED, None)
    return [dialog_frame(html, wide=True), _considered(proposal, 0, language, panel.gpus.view().cards)]


async def consider(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    """What the typed values come to. What cannot be read is said where findings stand, and nothing else changes."""
    language = language_of_message(message)
    number = message.get("number")
    turn = number if isinstance(number, int) else 0
    try:
        preset = panel.launcher.shelf.by_name(str(message.get("preset", "")))
        adjustments = read_form(preset, _fields(message))
        proposal = await _proposal(panel, viewer, preset, adjustments, _key(message))
    except PanelError as err:
        slots = {
            "form/findings": render_findings((), _refusal(err, language), language),
            "form/buttons": render_form_buttons(True, True, language),
        }
        return [{"type": "considered", "number": turn, "slots": slots}]
    return [_considered(proposal, turn, language, panel.gpus.view().cards)]


async def start(panel: Panel, viewer: Viewer, message: Mapping[str, Any]) -> Frames:
    preset = panel.launcher.shelf.by_name(str(message.get("preset", "")))
    try:
        adjustments = read_form(preset, _fields(message))
    except FormError as err:
        raise LaunchError(err.in_language(language_of_message(message))) from err
    await panel.launcher.start(viewer, preset.name, adjustments, api_key=_key(message))
    return CLOSE


async def _proposal(
    panel: Panel, viewer: Viewer, preset: Preset, adjustments: Adjustments, key: SecretStr | None
) -> Proposal:
    settings = await panel.chats.settings(viewer)
    port = adjustments.port or panel.fleet.claim_port(preset.name)
    return await panel.proposals.consider(
        preset.name, adjustments, port=port, api_key=key, system_prompt=settings.system_prompt
    )


def _refusal(err: PanelError, language: Language) -> str:
    return err.in_language(language) if isinstance(err, FormError) else str(err)


def _considered(proposal: Proposal, number: int, language: Language, cards: Sequence[GpuCard]) -> dict[str, Any]:
    is_host = proposal.preset.engine is EngineKind.CPU
    has_errors = any(finding.severity is Severity.ERROR for finding in proposal.findings)
    slots = {
        "form/fit": render_fit(proposal.fit, language, is_host=is_host),
        "form/findings": render_findings(
            proposal.findings, proposal.refusal, language, dropped=proposal.adjustments.dropped_flags
        ),
        **card_slots(cards, language),
        "form/buttons": render_form_buttons(proposal.spec is None, has_errors, language),
        "form/command": _command(previews(proposal.spec, image=proposal.image) if proposal.spec else (), language),
    }
    return {"type": "considered", "number": number, "slots": slots}


def _command(shown: Sequence[Preview], language: Language) -> str:
    if not shown:
        return ""
    folds = [
        Markup('<details class="vp-fold"{}><summary>{}</summary>{}</details>').format(
            Markup(" open") if number == 0 else "",
            text(preview.title, language),
            render_snippet(preview.text, language),
        )
        for number, preview in enumerate(shown)
    ]
    return Markup("<h2>{}</h2>{}").format(text("form.command", language), Markup("").join(folds))


def _fields(message: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = message.get("fields")
    return fields if isinstance(fields, Mapping) else {}


def _key(message: Mapping[str, Any]) -> SecretStr | None:
    key = field(message, "api_key")
    return SecretStr(key) if key else None
