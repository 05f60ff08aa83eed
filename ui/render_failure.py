"""A failure as one card: what happened, the likely cause, what to do with its buttons, and the line that tells it."""

from markupsafe import Markup

from backend.failure.failure import Failure, Fix, FixKind
from backend.failure.words import in_words
from ui.strings import Language, text


def render_failure(failure: Failure, engine_id: str, language: Language) -> Markup:
    """The card of an engine that failed. Words that came from a log are escaped like everything else."""
    words = in_words(failure, language)
    parts = [Markup('<p class="vp-what">{}</p>').format(words.what)]
    if words.cause:
        parts.append(_labelled(text("failure.why", language), words.cause))
    if words.do:
        parts.append(_labelled(text("failure.do_this", language), words.do))
    buttons = [_fix_button(fix, number, engine_id, language) for number, fix in enumerate(failure.fixes)]
    if buttons:
        parts.append(Markup('<div class="vp-row vp-actions">{}</div>').format(Markup("").join(buttons)))
    parts.append(_evidence(failure, language))
    return Markup('<div class="vp-reason" data-rule="{}">{}</div>').format(failure.rule, Markup("").join(parts))


def _labelled(label: str, words: str) -> Markup:
    return Markup("<p><b>{}</b> {}</p>").format(label, words)


def _fix_button(fix: Fix, number: int, engine_id: str, language: Language) -> Markup:
    tab = Markup(' data-tab="environments"') if fix.kind is FixKind.ENVIRONMENT else ""
    return Markup(
        '<button class="vp-button is-small{}" data-do="engine.fix" data-engine="{}" data-fix="{}"{}>{}</button>'
    ).format(" is-primary" if number == 0 else "", engine_id, number, tab, fix_words(fix, language))


def fix_words(fix: Fix, language: Language) -> str:
    """What a button says: the one thing that changes."""
    return text(f"fix.{fix.kind.value}", language, value=fix.value)


def _evidence(failure: Failure, language: Language) -> Markup:
    if failure.line:
        return Markup('<p class="vp-muted vp-source">{}</p><pre class="vp-evidence">{}</pre>').format(
            text("failure.line", language), failure.line
        )
    if failure.last_lines:
        return Markup('<p class="vp-muted vp-source">{}</p><pre class="vp-evidence">{}</pre>').format(
            text("failure.last_lines", language), "\n".join(failure.last_lines)
        )
    return Markup()
