"""The Launch tab: presets on the left, engines on the right, both pushed."""

import gradio as gr

_PAGE = """
<div class="vp vp-page vp-launch">
  <section><div data-slot="presets/head"></div><div data-list="presets"></div></section>
  <section><div data-slot="engines/empty"></div><div data-list="engines"></div></section>
</div>
"""


def build() -> None:
    """Make the tab's one component; its buttons are actions of the WebSocket."""
    gr.HTML(_PAGE, js_on_load="volta.attach(element)", apply_default_css=False, elem_id="vp-launch")
