"""The page: status bar, tabs, and the events that set language and first tab."""

from typing import Any

import gradio as gr

from backend.engine.status import RUNNING_STATES
from backend.panel import Panel
from ui import chat_page, environments_page, launch_page
from ui.handlers import bind
from ui.icons import icon
from ui.labels import Labels
from ui.strings import LANGUAGE_NAMES, Language, text
from ui.visitor import language_of, viewer_of

TITLE = "Volta Panel"

_BAR = """
<div class="vp vp-bar">
  <span class="vp-brand">{mark}<span>{title}</span></span>
  <div class="vp-live" data-slot="bar"></div>
  <div class="vp-tools">
    <button class="vp-tool" data-do="language" data-language="en" lang="en">{english}</button>
    <button class="vp-tool" data-do="language" data-language="zh" lang="zh">{chinese}</button>
    <button class="vp-tool" data-do="theme" aria-label="{theme}" title="{theme}">{theme_icon}</button>
  </div>
  <div class="vp-offline" role="alert">{offline}</div>
</div>
"""
_BAR_SCRIPT = "volta.bar(element, () => trigger('relabel'));"


def build(panel: Panel) -> gr.Blocks:
    """The whole page. Its settings that belong to mounting (theme, css, head) are app.py's."""
    labels = Labels()
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        bar = gr.HTML(_bar(), js_on_load=_BAR_SCRIPT, elem_id="vp-bar", apply_default_css=False)
        with gr.Tabs(elem_id="vp-tabs") as tabs:
            with gr.Tab(text("tab.chat", Language.EN), id="chat", elem_id="vp-tab-chat") as chat_tab:
                chat_settings = chat_page.build(panel, labels)
            with gr.Tab(text("tab.launch", Language.EN), id="launch", elem_id="vp-tab-launch") as launch_tab:
                launch_page.build()
            with gr.Tab(
                text("tab.environments", Language.EN), id="environments", elem_id="vp-tab-environments"
            ) as environments_tab:
                environments_page.build()
        labels.follow(chat_tab, label="tab.chat")
        labels.follow(launch_tab, label="tab.launch")
        labels.follow(environments_tab, label="tab.environments")
        quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        bar.relabel(bind(relabel, panel, labels), outputs=labels.components, **quiet)
        page.load(bind(first_look, panel, labels), outputs=[tabs, *chat_settings, *labels.components], **quiet)
    return page


def _bar() -> str:
    return _BAR.format(
        mark=icon("mark"),
        title=TITLE,
        english=LANGUAGE_NAMES[Language.EN],
        chinese=LANGUAGE_NAMES[Language.ZH],
        theme=" / ".join(text("bar.theme", language) for language in Language),
        theme_icon=icon("theme"),
        offline=" ".join(text("bar.reconnecting", language) for language in Language),
    )


def relabel(panel: Panel, labels: Labels, request: gr.Request) -> list[Any]:
    """The labels in the language the browser's cookie names."""
    return labels.updates(language_of(request.cookies, request.headers, default=panel.settings.language))


async def first_look(panel: Panel, labels: Labels, request: gr.Request) -> list[Any]:
    """Where a visitor lands: Chat, or Launch when nothing runs; with their language and their chat's settings."""
    viewer = viewer_of(request.cookies)
    runs = any(engine.status.state in RUNNING_STATES for engine in panel.fleet.engines.values())
    view = await panel.chats.conversation(viewer) if viewer else None
    settings = chat_page.settings_values(view.settings) if view else [gr.skip()] * 3
    has_messages = view is not None and bool(view.messages)
    return [gr.Tabs(selected="chat" if runs or has_messages else "launch"), *settings, *relabel(panel, labels, request)]
