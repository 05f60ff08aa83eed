"""Engine cards: every state has its word and shape, reasons are shown and escaped."""

from dataclasses import replace

import pytest

from backend.engine.status import EngineState, EngineStatus, Stage, StageProgress
from backend.launch.plan import LaunchSpec
from ui.render_launch import render_engine_frame, render_engine_head, render_engine_now
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


def head(status: EngineStatus, *, line: str = "", now: float = 110.0, language: Language = Language.EN) -> str:
    lasting = render_engine_head("e1", "Title", status, language)
    return lasting + render_engine_now(status, line, language, now=now)


def test_what_moves_is_apart_from_the_buttons() -> None:
    # replaced ten times a second, a button would lose the clicks that fall between press and release
    assert render_engine_head("e1", "T", STARTING, Language.EN) == render_engine_head(
        "e1", "T", replace(STARTING, progress=StageProgress(Stage.WARM_UP)), Language.EN
    )
    assert "<button" not in render_engine_now(STARTING, "line", Language.EN, now=110.0)


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
    assert "<img" not in render_engine_frame("e1", spec, Language.EN)


def test_buttons_fit_the_state() -> None:
    ready = EngineStatus(state=EngineState.READY, since=1.0, started_at=1.0, ready_at=5.0)
    assert "engine.stop" in head(ready) and "chat.with" in head(ready)
    assert "disabled" in head(replace(ready, state=EngineState.STOPPING))
    stopped = head(EngineStatus(state=EngineState.STOPPED, since=1.0))
    assert "engine.remove" in stopped and "engine.stop" not in stopped
