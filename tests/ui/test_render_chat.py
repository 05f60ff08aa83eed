"""Messages and their numbers: right words, right source, blank where unknown, nothing of theirs live."""

from dataclasses import replace

import pytest
from markupsafe import Markup

from backend.chat.chats import Message, MessageRole, RunState
from backend.chat.request_timing import EngineFigures, RequestTiming
from backend.engine.status import EngineState
from ui.render_chat import render_chat_head, render_empty_chat, render_foot, render_message_frame
from ui.strings import Language

EVIL = "<script>alert(1)</script>"
MEASURED = RequestTiming(
    sent=10.0, first_token=10.078, last_token=12.4, prompt_tokens=37, cached_tokens=0, output_tokens=97
)
FIGURES = EngineFigures(time_to_first_token_ms=70.0, mean_itl_ms=24.0, queue_time_ms=1.0, generation_time_ms=2300.0)


def answer(state: RunState = RunState.DONE, **fields: object) -> Message:
    message = Message(id="a", role=MessageRole.ASSISTANT, text="x", state=state, created_at=1.0, timing=MEASURED)
    return replace(message, **fields)


def test_a_question_is_text_whatever_is_in_it() -> None:
    question = Message(id="q", role=MessageRole.USER, text=EVIL, state=RunState.DONE, created_at=1.0)
    html = render_message_frame(question, Language.EN)
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_measured_numbers_stand_in_one_line_and_say_their_source() -> None:
    foot = Markup(render_foot(answer(), Language.EN))
    assert 'data-source="measured"' in foot
    words = foot.striptags()
    for part in ("TTFT 78.0 ms", "TPOT 24.2 ms", "37 → 97 tokens", "timed by the panel"):
        assert part in words


def test_the_engines_own_numbers_are_labelled_as_such() -> None:
    foot = render_foot(answer(timing=replace(MEASURED, engine=FIGURES)), Language.EN)
    assert 'data-source="engine"' in foot
    assert "timed by the engine" in foot


@pytest.mark.parametrize(
    ("timing", "absent"),
    [
        (replace(MEASURED, output_tokens=1), ["tpot", "decode"]),
        (replace(MEASURED, output_tokens=None), ["tpot", "decode", "tokens"]),
        (replace(MEASURED, cached_tokens=None), ["prefill"]),
        (RequestTiming(sent=1.0), ["ttft", "tpot", "prefill", "decode", "tokens"]),
    ],
)
def test_what_is_unknown_is_blank(timing: RequestTiming, absent: list[str]) -> None:
    foot = render_foot(answer(timing=timing), Language.EN)
    assert [name for name in absent if f'data-figure="{name}"' in foot] == []


@pytest.mark.parametrize(
    ("state", "stop_reason", "words"),
    [
        (RunState.STOPPED, "", "Stopped by you"),
        (RunState.INTERRUPTED, "", "Interrupted"),
        (RunState.DONE, "length", "max tokens"),
    ],
)
def test_an_unusual_ending_is_said(state: RunState, stop_reason: str, words: str) -> None:
    assert words in render_foot(answer(state, stop_reason=stop_reason), Language.EN)


def test_an_engines_error_text_is_escaped() -> None:
    foot = render_foot(answer(RunState.FAILED, error=EVIL, hint=EVIL, engine_title=EVIL), Language.EN)
    assert "<script" not in foot


def test_waiting_for_the_first_token_is_said_in_chinese_too() -> None:
    waiting = answer(RunState.STREAMING, text="", timing=RequestTiming(sent=1.0))
    assert "等待首个 token" in render_foot(waiting, Language.ZH)


@pytest.mark.parametrize(
    ("states", "words", "button"),
    [
        ([], "No engine is ready", True),
        ([EngineState.STARTING], "is starting", True),
        ([EngineState.FAILED, EngineState.READY], "Ask something", False),
    ],
)
def test_an_empty_chat_says_what_to_do(states: list[EngineState], words: str, button: bool) -> None:
    html = render_empty_chat(states, Language.EN)
    assert words in html
    assert ('data-tab="launch"' in html) is button


def test_the_chosen_engine_is_selected_and_titles_are_escaped() -> None:
    html = render_chat_head([("e1", "One"), ("e2", EVIL)], "e2", Language.EN)
    assert '<option value="e2" selected>' in html
    assert "<script" not in html
