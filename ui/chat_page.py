"""The Chat tab: the conversation (pushed), the composer and the chat's settings (Gradio)."""

from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr

from backend.chat.chats import ChatSettings
from backend.errors import ChatError, PanelError
from backend.panel import Panel
from backend.viewer import Viewer
from ui.handlers import bind
from ui.labels import Labels
from ui.render_chat import render_notice
from ui.strings import Language, text
from ui.visitor import viewer_of

MAX_TOKENS_LIMIT = 32_768


def build(panel: Panel, labels: Labels) -> list[Any]:
    """Make the tab's components and wire them. Returns the settings components, for the page's load event."""
    english = partial(text, language=Language.EN)
    with gr.Column(elem_id="vp-chat-column"):
        gr.HTML(
            '<div class="vp" data-slot="chat/head" style="min-height:34px"></div>',
            js_on_load="volta.attach(element)",
            apply_default_css=False,
            elem_id="vp-chat-top",
        )
        gr.HTML(
            '<div class="vp vp-chat" data-chat tabindex="0" role="log"></div>',
            js_on_load="volta.attach(element)",
            apply_default_css=False,
            elem_id="vp-chat-log",
        )
        gr.HTML(
            '<div class="vp" data-slot="chat/notice"></div>',
            js_on_load="volta.attach(element)",
            apply_default_css=False,
            elem_id="vp-notice",
        )
        with gr.Row(elem_id="vp-composer"):  # the page script sends and stops over the WebSocket: 4 ms sooner
            message = gr.Textbox(
                placeholder=english("chat.placeholder"),
                label=english("chat.message"),
                show_label=False,
                container=False,
                lines=1,
                max_lines=8,
                elem_id="vp-message",
                interactive=True,  # no Gradio event reads it, and it would be disabled
                autofocus=True,
                scale=1,
            )
            send = gr.Button(english("chat.send"), variant="primary", elem_id="vp-send", scale=0)
            stop = gr.Button(english("chat.stop"), variant="stop", elem_id="vp-stop", scale=0)
        with gr.Accordion(english("chat.settings"), open=False, elem_id="vp-chat-settings") as accordion:
            system_prompt = gr.Textbox(
                label=english("chat.system_prompt"),
                info=english("chat.system_prompt_info"),
                lines=2,
                max_lines=8,
                elem_id="vp-system-prompt",
            )
            with gr.Row():
                temperature = gr.Slider(
                    0,
                    2,
                    step=0.05,
                    value=0.7,
                    label=english("chat.temperature"),
                    info=english("chat.temperature_info"),
                    elem_id="vp-temperature",
                )
                max_tokens = gr.Slider(
                    1,
                    MAX_TOKENS_LIMIT,
                    step=1,
                    value=512,
                    label=english("chat.max_tokens"),
                    info=english("chat.max_tokens_info"),
                    elem_id="vp-max-tokens",
                )
            refusal = gr.HTML("", elem_id="vp-refusal", apply_default_css=False)
    labels.follow(message, placeholder="chat.placeholder", label="chat.message")
    labels.follow(send, value="chat.send")
    labels.follow(stop, value="chat.stop")
    labels.follow(accordion, label="chat.settings")
    labels.follow(system_prompt, label="chat.system_prompt", info="chat.system_prompt_info")
    labels.follow(temperature, label="chat.temperature", info="chat.temperature_info")
    labels.follow(max_tokens, label="chat.max_tokens", info="chat.max_tokens_info")
    settings = [system_prompt, temperature, max_tokens]
    for changed in (system_prompt.blur, temperature.change, max_tokens.change):
        changed(
            bind(save_settings, panel),
            inputs=settings,
            outputs=[refusal],
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
    return settings


async def save_settings(
    panel: Panel, system_prompt: str, temperature: float, max_tokens: float, request: gr.Request
) -> str:
    """Keep what a person set for this conversation; returns the notice to show, "" when all is well."""
    try:
        viewer = _viewer(request)
        present = await panel.chats.settings(viewer)
        wanted = replace(present, system_prompt=system_prompt, temperature=temperature, max_tokens=int(max_tokens))
        if wanted != present:
            await panel.chats.update_settings(viewer, wanted)
    except PanelError as err:
        return render_notice(str(err))
    return ""


def settings_values(settings: ChatSettings) -> list[Any]:
    """The values of the settings components."""
    return [settings.system_prompt, settings.temperature, settings.max_tokens]


def _viewer(request: gr.Request) -> Viewer:
    viewer = viewer_of(request.cookies)
    if viewer is None:
        raise ChatError("This browser sent no cookie.", hint="Allow cookies for this address and reload the page.")
    return viewer
