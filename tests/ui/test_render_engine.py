"""Engine cards: every state has its word and shape, reasons are shown and escaped."""

from dataclasses import dataclass, replace

import pytest

from backend.engine.care import Care
from backend.engine.status import (
    EngineState,
    EngineStatus,
    GaveUp,
    Notice,
    NoticeKey,
    Stage,
    StageProgress,
    StopPhase,
)
from backend.failure.failure import Failure, Fix, FixKind
from backend.launch.adjustments import Adjustments
from backend.launch.plan import LaunchSpec
from backend.reading import Missing, MissingReason
from ui.render_engine import render_care, render_engine_frame, render_engine_head, render_engine_now
from ui.strings import Language

EVIL = "<img src=x onerror=alert(1)>"
STARTING = EngineStatus(
    state=EngineState.STARTING,
    since=100.0,
    run=3,
    started_at=100.0,
    expected_ready_s=25.0,
    progress=StageProgress(Stage.WEIGHTS, 37),
)


@dataclass(frozen=True)
class ShownEngine:
    """As much of an engine as its card shows."""

    status: EngineStatus
    spec: LaunchSpec | None = None
    engine_id: str = "e1"


def head(
    status: EngineStatus,
    *,
    line: str = "",
    now: float = 110.0,
    language: Language = Language.EN,
    spec: LaunchSpec | None = None,
) -> str:
    engine = ShownEngine(status, spec)
    return render_engine_head(engine, "Title", language) + render_engine_now(engine, line, language, now=now)


def test_what_moves_is_apart_from_the_buttons() -> None:
    # replaced ten times a second, a button would lose the clicks that fall between press and release
    later = replace(STARTING, progress=StageProgress(Stage.WARM_UP))
    heads = {render_engine_head(ShownEngine(status), "T", Language.EN) for status in (STARTING, later)}
    assert len(heads) == 1
    assert "<button" not in render_engine_now(ShownEngine(STARTING), "line", Language.EN, now=110.0)


@pytest.mark.parametrize("state", list(EngineState))
@pytest.mark.parametrize("language", list(Language))
def test_every_state_has_a_word_and_an_icon(state: EngineState, language: Language) -> None:
    html = head(EngineStatus(state=state, since=1.0), language=language)
    assert f'data-state="{state.value}"' in html
    assert "<svg" in html


def test_stages_before_the_present_one_are_done() -> None:
    html = head(STARTING)
    assert 'class="is-done" data-stage="imports"' in html
    assert 'class="is-now" data-stage="weights">Weights 37 %' in html
    assert 'class="" data-stage="kv_cache"' in html


def test_elapsed_and_expected_time_are_shown_and_lateness_is_said() -> None:
    assert "about 25 s expected" in head(STARTING, now=110.0)
    assert "longer than the 25 s expected" in head(STARTING, now=130.0)
    assert "expected" not in head(replace(STARTING, expected_ready_s=None))


def test_a_failure_shows_stage_reason_hint_and_exit_code() -> None:
    failed = replace(STARTING, state=EngineState.FAILED, returncode=-9, reason="It died.", hint="Start it again.")
    html = head(failed)
    for part in ('class="is-broken" data-stage="weights"', "It died.", "Start it again.", "SIGKILL"):
        assert part in html
    assert "exit code 2" in head(replace(failed, returncode=2))


def test_what_engines_say_is_escaped() -> None:
    html = head(replace(STARTING, reason=EVIL, hint=EVIL), line=EVIL)
    assert "<img" not in html
    spec = LaunchSpec(title=EVIL, preset="p", argv=("/x", EVIL), served_model=EVIL)
    assert "<img" not in render_engine_frame(ShownEngine(STARTING, spec), Language.EN)


def test_buttons_fit_the_state() -> None:
    ready = EngineStatus(state=EngineState.READY, since=1.0, started_at=1.0, ready_at=5.0)
    assert "engine.stop" in head(ready) and "chat.with" in head(ready)
    assert "disabled" in head(replace(ready, state=EngineState.STOPPING))
    stopped = head(EngineStatus(state=EngineState.STOPPED, since=1.0))
    assert "engine.remove" in stopped and "engine.stop" not in stopped


OUT_OF_CONTEXT = Failure(
    rule="context_too_long",
    values={"context": "32768", "limit": "2048"},
    line=f"ValueError: {EVIL}",
    fixes=(Fix(FixKind.CONTEXT, "2048"), Fix(FixKind.RETRY)),
)


@pytest.mark.parametrize(("language", "button"), [(Language.EN, "Start with 2048"), (Language.ZH, "以 2048 token")])
def test_a_known_failure_shows_its_words_its_line_and_its_buttons(language: Language, button: str) -> None:
    html = head(replace(STARTING, state=EngineState.FAILED, failure=OUT_OF_CONTEXT), language=language)
    assert 'data-rule="context_too_long"' in html
    assert 'data-do="engine.fix" data-engine="e1" data-fix="0"' in html
    assert button in html
    assert "32768" in html and "&lt;img" in html
    assert "<img" not in html


def test_an_unknown_failure_shows_the_last_error_lines_and_blames_nothing() -> None:
    failure = Failure(rule="unknown", last_lines=("KeyError: 'x'", EVIL))
    html = head(replace(STARTING, state=EngineState.FAILED, failure=failure))
    assert "KeyError" in html and "<img" not in html


def test_every_fix_has_words_in_both_languages() -> None:
    for language in Language:
        fixes = tuple(Fix(kind, "7") for kind in FixKind)
        failure = replace(OUT_OF_CONTEXT, fixes=fixes)
        html = head(replace(STARTING, state=EngineState.FAILED, failure=failure), language=language)
        assert html.count('data-do="engine.fix"') == len(FixKind)


def test_memory_is_shown_while_it_runs_and_blank_where_it_could_not_be_read() -> None:
    ready = EngineStatus(state=EngineState.READY, since=1.0, started_at=1.0, ready_at=5.0, memory_bytes=3 * 2**30)
    assert "3.0 GiB of RAM" in head(ready)
    assert "of VRAM" not in head(replace(ready, gpu_memory_bytes=Missing(MissingReason.LOST)))
    assert "of RAM" not in head(replace(ready, state=EngineState.STOPPED))


def test_slowness_restarts_and_giving_up_are_said() -> None:
    ready = EngineStatus(state=EngineState.READY, since=1.0, started_at=1.0, ready_at=5.0)
    values = {"count": "12", "minutes": "5", "kv_percent": "98", "waiting": "3", "megabytes": "700"}
    for key in NoticeKey:
        assert "vp-notice" in head(replace(ready, notices=(Notice(key, values),)))
    failed = EngineStatus(state=EngineState.FAILED, since=1.0, restarts=2, restart_at=500.0)
    assert 'data-until="500"' in head(failed) and "2 restarts" in head(failed)
    for reason in GaveUp:
        assert "Not started again" in head(replace(failed, restart_at=None, gave_up=reason))


def test_a_stop_says_what_it_waits_for() -> None:
    stopping = EngineStatus(state=EngineState.STOPPING, since=1.0, stop_phase=StopPhase.RELEASING_MEMORY)
    assert "memory is free" in head(stopping)


def test_what_was_changed_for_this_launch_is_said() -> None:
    spec = LaunchSpec(
        title="T", preset="p", argv=("/x",), adjustments=Adjustments(context=896, dropped_flags=("swap-space",))
    )
    assert "changed: context 896, - --swap-space" in head(STARTING, spec=spec)


def test_the_boxes_show_what_is_set() -> None:
    html = render_care("e1", Care(autostart=True, restart_on_crash=False), Language.EN)
    assert html.count(" checked") == 1 and 'data-care="autostart" checked' in html
