"""The kept runs of an engine as an HTML fragment."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from backend.engine.record import RunSummary
from backend.failure.words import in_words
from ui.render_engine import render_state
from ui.strings import Language, text


def render_runs(engine_id: str, runs: Sequence[RunSummary], language: Language) -> str:
    """The kept runs, newest first: when, how long, how it ended, and its log."""
    if len(runs) < 2:
        return ""
    rows = [_run_row(engine_id, run, language) for run in reversed(runs[:-1])]
    return Markup('<details class="vp-fold"><summary>{} ({})</summary><ul class="vp-runs">{}</ul></details>').format(
        text("launch.runs", language), len(rows), Markup("").join(rows)
    )


def _run_row(engine_id: str, run: RunSummary, language: Language) -> Markup:
    began = datetime.fromtimestamp(run.started_at).strftime("%Y-%m-%d %H:%M:%S")
    outcome = render_state(run.outcome, language) if run.outcome else ""
    why = in_words(run.failure, language).what if run.failure else run.reason
    return Markup(
        '<li><span>{}</span><span class="vp-muted">{}</span>{}<a href="engines/{}/log?run={}" download>{}</a><div>{}</div></li>'
    ).format(
        text("launch.run", language, number=run.number),
        began,
        outcome,
        engine_id,
        run.number,
        text("launch.run_log", language),
        why,
    )
