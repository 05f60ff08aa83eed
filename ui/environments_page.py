"""The Environments tab: what can run engines on the left, what can be installed or added on the right, both pushed."""

import gradio as gr

_PAGE = """
<div class="vp vp-page vp-environments">
  <section><div data-slot="environments/empty"></div><div data-list="environments"></div></section>
  <section data-slot="recipes"></section>
</div>
"""


def build() -> None:
    """Make the tab's one component; its buttons are actions of the WebSocket."""
    gr.HTML(_PAGE, js_on_load="volta.attach(element)", apply_default_css=False, elem_id="vp-environments")
