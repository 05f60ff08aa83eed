"""The look: a Gradio theme of our own, the style sheet, the page script and the favicon."""

from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).parent / "assets"
STYLE_SHEET = ASSETS / "panel.css"
FAVICON = ASSETS / "favicon.svg"
_SCRIPTS = ("socket.js", "logs.js", "render.js", "dialogs.js", "page.js")

# System fonts only: a lab machine has no internet, and a web font would be asked for in vain.
_FONTS = (
    "system-ui",
    "-apple-system",
    "Segoe UI",
    "PingFang SC",
    "Noto Sans SC",
    "Noto Sans CJK SC",
    "Microsoft YaHei",
    "sans-serif",
)
_MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Noto Sans Mono CJK SC", "monospace")

_ACCENT = gr.themes.Color(
    c50="#f0f0ff",
    c100="#e3e3ff",
    c200="#cbcbff",
    c300="#adacff",
    c400="#8f8cff",
    c500="#6c69fb",
    c600="#4b4bf0",
    c700="#3d3bcf",
    c800="#3230a6",
    c900="#2b2a82",
    c950="#1b1a52",
)


def page_theme() -> gr.themes.Base:
    """Slate surfaces, one accent, one-pixel borders, no shadows; the style sheet's variables do the rest."""
    return gr.themes.Base(
        primary_hue=_ACCENT,
        secondary_hue=_ACCENT,
        neutral_hue=gr.themes.colors.slate,
        radius_size=gr.themes.sizes.radius_md,
        text_size=gr.themes.sizes.text_sm,
        spacing_size=gr.themes.sizes.spacing_sm,
        font=_FONTS,
        font_mono=_MONO,
    ).set(
        body_background_fill="var(--vp-background)",
        body_background_fill_dark="var(--vp-background)",
        body_text_color="var(--vp-text)",
        body_text_color_dark="var(--vp-text)",
        body_text_color_subdued="var(--vp-muted)",
        body_text_color_subdued_dark="var(--vp-muted)",
        background_fill_primary="var(--vp-surface)",
        background_fill_primary_dark="var(--vp-surface)",
        background_fill_secondary="var(--vp-raised)",
        background_fill_secondary_dark="var(--vp-raised)",
        border_color_primary="var(--vp-border)",
        border_color_primary_dark="var(--vp-border)",
        block_background_fill="var(--vp-surface)",
        block_background_fill_dark="var(--vp-surface)",
        block_border_color="var(--vp-border)",
        block_border_color_dark="var(--vp-border)",
        block_shadow="none",
        block_shadow_dark="none",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_title_text_color="var(--vp-text)",
        block_title_text_color_dark="var(--vp-text)",
        block_info_text_color="var(--vp-muted)",
        block_info_text_color_dark="var(--vp-muted)",
        input_background_fill="var(--vp-surface)",
        input_background_fill_dark="var(--vp-surface)",
        input_border_color="var(--vp-border)",
        input_border_color_dark="var(--vp-border)",
        input_shadow="none",
        input_shadow_dark="none",
        input_shadow_focus="0 0 0 2px var(--vp-focus)",
        input_shadow_focus_dark="0 0 0 2px var(--vp-focus)",
        button_primary_background_fill="var(--vp-accent-fill)",
        button_primary_background_fill_dark="var(--vp-accent-fill)",
        button_primary_background_fill_hover="var(--vp-accent-hover)",
        button_primary_background_fill_hover_dark="var(--vp-accent-hover)",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
        button_primary_shadow="none",
        button_secondary_background_fill="var(--vp-surface)",
        button_secondary_background_fill_dark="var(--vp-surface)",
        button_secondary_background_fill_hover="var(--vp-raised)",
        button_secondary_background_fill_hover_dark="var(--vp-raised)",
        button_secondary_border_color="var(--vp-border)",
        button_secondary_border_color_dark="var(--vp-border)",
        button_secondary_text_color="var(--vp-text)",
        button_secondary_text_color_dark="var(--vp-text)",
        button_secondary_shadow="none",
    )


def page_head() -> str:
    """Our style sheet and script as head elements: inline, so that they need no path behind any prefix.

    Not by Gradio's css parameter: it adds a second, scoped copy of each rule, whose higher weight undoes rules that
    begin at the body.
    """
    code = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return f"<style>\n{STYLE_SHEET.read_text(encoding='utf-8')}\n</style>\n<script>\n{code}\n</script>"
