"""What speaks against a launch, as a list: the worst first, each with what to do and buttons that change the form."""

from collections.abc import Sequence

from markupsafe import Markup

from backend.failure.failure import Fix, FixKind
from backend.preflight.finding import Finding, Severity
from backend.preflight.words import in_words
from ui.icons import icon
from ui.strings import Language, text

# the form's field that a fix changes; what has none is left to the person
FIELD_OF = {
    FixKind.CONTEXT: "context",
    FixKind.MEMORY_UTILIZATION: "memory_utilization",
    FixKind.MAX_SEQUENCES: "max_sequences",
    FixKind.BATCHED_TOKENS: "max_batched_tokens",
    FixKind.KV_CACHE_GIB: "kv_cache_gib",
    FixKind.DTYPE: "dtype",
    FixKind.GPUS: "gpus",
    FixKind.QUANTIZATION: "quantization",
    FixKind.PORT: "port",
    FixKind.EAGER: "eager",
    FixKind.PARALLEL: "parallel",
    FixKind.KV_CACHE_DTYPE: "kv_cache_dtype",
    FixKind.CPU_OFFLOAD_GIB: "cpu_offload_gib",
    FixKind.KV_OFFLOAD_GIB: "kv_offload_gib",
    FixKind.PREFIX_CACHING: "prefix_caching",
    FixKind.HOST: "host",
    FixKind.CARDS: "cards",
    FixKind.ENVIRONMENT: "environment",
    FixKind.DROP_FLAG: "dropped",
}
_TYPED = {FixKind.EAGER: "on", FixKind.PREFIX_CACHING: "on", FixKind.HOST: ""}  # what the field itself says
_COLOURS = {Severity.ERROR: "failed", Severity.WARNING: "starting", Severity.HINT: "stopped"}


def render_findings(
    findings: Sequence[Finding], refusal: str, language: Language, *, dropped: Sequence[str] = ()
) -> str:
    """The list, or that there is nothing; what planning itself refuses comes first. `dropped`: flags left out already."""
    items = [_refusal(refusal, language)] if refusal else []
    items += [_finding(finding, language, dropped) for finding in findings]
    if not items:
        items = [Markup('<p class="vp-muted">{}</p>').format(text("form.no_findings", language))]
    return Markup("<h2>{}</h2>{}").format(text("form.findings", language), Markup("").join(items))


def _refusal(words: str, language: Language) -> Markup:
    return Markup('<div class="vp-finding is-failed" data-finding="refused"><p>{} <b>{}</b> {}</p></div>').format(
        Markup(icon("warning")), text("form.refused", language), words
    )


def _finding(finding: Finding, language: Language, dropped: Sequence[str]) -> Markup:
    words = in_words(finding, language)
    buttons = [_button(fix, language, dropped) for fix in finding.fixes if fix.kind in FIELD_OF]
    return Markup(
        '<div class="vp-finding is-{colour}" data-finding="{rule}" data-severity="{severity}"><p>{icon} <b>{word}</b> {what}</p>'
        "{do}{buttons}</div>"
    ).format(
        colour=_COLOURS[finding.severity],
        rule=finding.rule,
        severity=finding.severity.value,
        icon=Markup(icon("warning")),
        word=text(f"form.severity_{finding.severity.value}", language),
        what=words.what,
        do=Markup('<p class="vp-muted">{}</p>').format(words.do) if words.do else "",
        buttons=Markup('<div class="vp-row vp-actions">{}</div>').format(Markup("").join(buttons)) if buttons else "",
    )


def _button(fix: Fix, language: Language, dropped: Sequence[str]) -> Markup:
    """Changes a field of the form, which is then considered anew."""
    value = _TYPED.get(fix.kind, fix.value)
    if fix.kind is FixKind.DROP_FLAG:
        value = ",".join((*dropped, fix.value))
    return Markup(
        '<button type="button" class="vp-button is-small" data-do="form.set" data-field="{}" data-value="{}">{}</button>'
    ).format(FIELD_OF[fix.kind], value, text(f"set.{fix.kind.value}", language, value=fix.value))
