"""The fit bar: weights, KV cache, overhead, others and what stays free against the card's edge, and the sum in words."""

from markupsafe import Markup

from backend.fit.estimate import FitEstimate, SegmentKind, Verdict
from backend.fit.host_overheads import StartComparison
from backend.proposal import Fit
from ui.icons import icon
from ui.numbers import GIB, tokens
from ui.strings import Language, template, text

_COLOURS = {Verdict.FITS: "ready", Verdict.FEWER_AT_ONCE: "starting"}


def render_fit(fit: Fit, language: Language, *, is_host: bool) -> str:
    """The bar with its verdict, its sum, and the inverse; or why there is none. `is_host`: it is main memory."""
    head = Markup("<h2>{}</h2>").format(text("fit.title", language))
    found = fit.estimate
    if found is None:
        return head + Markup('<p class="vp-muted" title="{}">{}</p>').format(fit.gap, _gap(fit, language))
    colour = _COLOURS.get(found.verdict, "failed")
    lines = [
        Markup('<p class="vp-state is-{}" data-verdict="{}">{} {}</p>').format(
            colour,
            found.verdict.value,
            Markup(icon("ready" if colour == "ready" else "warning")),
            text(f"verdict.{found.verdict.value}", language),
        ),
        _bar(found, language),
        Markup('<p class="vp-muted">{}</p>').format(_sum(found, language, is_host=is_host)),
    ]
    if found.kv_tokens is not None:
        lines.append(
            Markup('<p data-kv-tokens="{}">{}</p>').format(
                found.kv_tokens, text("fit.tokens", language, tokens=tokens(found.kv_tokens))
            )
        )
    if fit.longest_context is not None and fit.most_sequences is not None:
        words = text("fit.inverse", language, context=tokens(fit.longest_context), sequences=tokens(fit.most_sequences))
        lines.append(Markup("<p>{}</p>").format(words))
    if fit.assumed_card:
        lines.append(Markup('<p class="vp-muted">{}</p>').format(text("fit.no_card", language, card=fit.assumed_card)))
    return head + Markup("").join(lines)


def _gap(fit: Fit, language: Language) -> str:
    if fit.model_gap is not None:
        return text(f"fit.gap_{fit.model_gap.value}", language)
    return text("fit.unknown", language, reason=fit.gap)


def _bar(found: FitEstimate, language: Language) -> Markup:
    """Segments as shares of the whole; where they go beyond the card, its edge is drawn inside the bar."""
    whole = max(found.total_bytes, found.sum_bytes, 1)
    parts = [
        Markup('<i class="is-{}" style="width:{:.2f}%" title="{} {}">{}</i>').format(
            segment.kind.value,
            100 * segment.bytes / whole,
            text(f"fit.{segment.kind.value}", language),
            _gib(segment.bytes),
            f"{segment.bytes / GIB:.1f}" if segment.bytes > 0.07 * whole else "",
        )
        for segment in found.segments
        if segment.bytes > 0
    ]
    edge = Markup('<b style="left:{:.2f}%"></b>').format(100 * found.total_bytes / whole)
    return Markup('<div class="vp-fitbar" role="img" aria-label="{}">{}{}</div>').format(
        text(f"verdict.{found.verdict.value}", language), Markup("").join(parts), edge
    )


def _sum(found: FitEstimate, language: Language, *, is_host: bool) -> Markup:
    """The sum in words; each part with the colour it has in the bar."""
    parts = Markup(" + ").join(
        Markup('<span class="vp-part"><i class="is-{}"></i>{} {}</span>').format(
            segment.kind.value, text(f"fit.{segment.kind.value}", language), f"{segment.bytes / GIB:.2f}"
        )
        for segment in found.segments
        if segment.kind is not SegmentKind.FREE and segment.bytes > 0
    )
    key = "fit.sum_host" if is_host else "fit.sum"
    words = Markup(template(key, language)).format(
        parts=parts, sum=f"{found.sum_bytes / GIB:.2f}", total=f"{found.total_bytes / GIB:.2f}"
    )
    if found.learned_bytes:
        words += Markup(" ({})").format(text("fit.learned", language, size=_gib(found.learned_bytes)))
    return words


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"


def render_comparison(comparison: StartComparison, language: Language) -> str:
    """How a start compared with its prediction, in one sentence; "" where the log did not tell."""
    predicted, logged = comparison.predicted_tokens, comparison.logged_tokens
    if predicted is None or logged is None:
        return ""
    share = f"{100 * (logged - predicted) / predicted:+.1f} %" if predicted else "?"
    return Markup('<p class="vp-facts">{}</p>').format(
        text("fit.compared", language, predicted=tokens(predicted), logged=tokens(logged), difference=share)
    )
