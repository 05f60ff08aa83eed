"""A log view with its tools: level, search, jump to the end, download."""

from markupsafe import Markup

from ui.icons import icon
from ui.strings import Language, text


def render_log(name: str, language: Language, *, download: str = "") -> Markup:
    """The view of one log, filled and filtered by the page's script. `download`: where all of it can be fetched."""
    levels = Markup("").join(
        Markup('<option value="{}">{}</option>').format(level, text(f"log.level_{level}", language))
        for level in ("info", "warning", "error")
    )
    link = Markup()
    if download:
        link = Markup('<a class="vp-button is-small" href="{}" download>{}</a>').format(
            download, text("log.download", language)
        )
    return Markup(
        '<div class="vp-row vp-log-tools"><select data-log-tool="level" data-of="{name}" aria-label="{level}">{levels}</select>'
        '<input type="search" data-log-tool="words" data-of="{name}" placeholder="{search}" aria-label="{search}">'
        '<span class="vp-row vp-push"><button class="vp-button is-small" data-log-end="{name}">{icon} {end}</button>{link}</span>'
        '</div><pre class="vp-log" tabindex="0" data-log="{name}"></pre>'
    ).format(
        name=name,
        level=text("log.level", language),
        levels=levels,
        search=text("log.search", language),
        icon=Markup(icon("end")),
        end=text("log.end", language),
        link=link,
    )
