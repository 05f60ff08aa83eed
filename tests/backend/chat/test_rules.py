"""backend.chat.rules: what may be sent, and to whom."""

import math
from typing import Any

import pytest

from backend.chat.chat_engine import ChatEngine, Turn
from backend.chat.rules import ChatLimits, answer_request, checked_settings, checked_text, choose_engine
from backend.chat.store import ChatSettings, Message, MessageRole, RunState
from backend.errors import ChatError

LIMITS = ChatLimits(question_chars=10, system_prompt_chars=10)
SMALL = ChatEngine("e1", "Small", "http://127.0.0.1:8100", "small", max_model_len=2048)
LARGE = ChatEngine("e2", "Large", "http://127.0.0.1:8101", "large")


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_message_is_refused(text: str) -> None:
    with pytest.raises(ChatError, match="empty"):
        checked_text(text, LIMITS)


def test_a_message_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert checked_text("x" * 10, LIMITS) == "x" * 10
    with pytest.raises(ChatError, match="11 characters; at most 10"):
        checked_text("x" * 11, LIMITS)


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert checked_text("a\ud83d", LIMITS) == "a?"
    assert checked_settings(ChatSettings("a\ud83d"), LIMITS).system_prompt == "a?"


@pytest.mark.parametrize("temperature", [0, 0.0, 1, 2.0])
def test_temperatures_from_0_to_2_are_accepted(temperature: float) -> None:
    assert checked_settings(ChatSettings(temperature=temperature), LIMITS).temperature == temperature


@pytest.mark.parametrize("temperature", [-0.1, 2.1, math.nan, math.inf, True, "1", None])
def test_other_temperatures_are_refused_naming_value_and_range(temperature: Any) -> None:
    with pytest.raises(ChatError) as refusal:
        checked_settings(ChatSettings(temperature=temperature), LIMITS)
    assert repr(temperature) in refusal.value.message
    assert "from 0 to 2" in refusal.value.message


@pytest.mark.parametrize("max_tokens", [None, 1, 1_000_000])
def test_a_whole_number_of_tokens_or_none_is_accepted(max_tokens: int | None) -> None:
    assert checked_settings(ChatSettings(max_tokens=max_tokens), LIMITS).max_tokens == max_tokens


@pytest.mark.parametrize("max_tokens", [0, -1, 1_000_001, 1.5, True, "9", math.nan])
def test_other_numbers_of_tokens_are_refused_naming_value_and_range(max_tokens: Any) -> None:
    with pytest.raises(ChatError) as refusal:
        checked_settings(ChatSettings(max_tokens=max_tokens), LIMITS)
    assert repr(max_tokens) in refusal.value.message
    assert "from 1 to 1,000,000" in refusal.value.message


def test_a_long_system_prompt_and_a_strange_engine_id_are_refused() -> None:
    with pytest.raises(ChatError, match="11 characters; at most 10"):
        checked_settings(ChatSettings("x" * 11), LIMITS)
    with pytest.raises(ChatError, match="is not an engine's id"):
        checked_settings(ChatSettings(engine_id="x" * 65), LIMITS)


def test_without_a_choice_the_first_ready_engine_answers() -> None:
    assert choose_engine((SMALL, LARGE), ChatSettings()) is SMALL
    assert choose_engine((SMALL, LARGE), ChatSettings(engine_id="e2")) is LARGE


def test_without_a_ready_engine_the_hint_names_the_launch_tab() -> None:
    with pytest.raises(ChatError, match="No engine is ready") as refusal:
        choose_engine((), ChatSettings())
    assert "Launch" in refusal.value.hint


def test_a_chosen_engine_that_is_not_ready_is_not_replaced_by_another() -> None:
    with pytest.raises(ChatError, match="not ready") as refusal:
        choose_engine((LARGE,), ChatSettings(engine_id="e1"))
    assert "Large" in refusal.value.hint


def test_more_tokens_than_the_context_holds_are_refused_with_the_numbers() -> None:
    assert choose_engine((SMALL,), ChatSettings(max_tokens=2047)) is SMALL
    with pytest.raises(ChatError, match=r"2,048 is above what Small can write: 2,047"):
        choose_engine((SMALL,), ChatSettings(max_tokens=2048))
    assert choose_engine((LARGE,), ChatSettings(max_tokens=99_999)) is LARGE


def user(text: str) -> Message:
    return Message("u", MessageRole.USER, text, RunState.DONE, 0.0)


def model(text: str, state: RunState = RunState.DONE) -> Message:
    return Message("a", MessageRole.ASSISTANT, text, state, 0.0, reasoning="hidden")


def turns(*messages: Message) -> list[tuple[str, str]]:
    request = answer_request(ChatSettings(), messages, "now")
    return [(turn.role.value, turn.text) for turn in request.turns]


def test_the_engine_reads_the_conversation_in_order_and_no_reasoning() -> None:
    assert turns(user("a"), model("b")) == [("user", "a"), ("assistant", "b"), ("user", "now")]


def test_an_answer_that_was_cut_short_is_part_of_the_conversation() -> None:
    for state in (RunState.STOPPED, RunState.INTERRUPTED, RunState.FAILED):
        assert turns(user("a"), model("half", state))[1] == ("assistant", "half")


def test_a_question_that_failed_before_its_first_word_is_left_out() -> None:
    messages = (user("kept"), model("", RunState.STOPPED), user("too long"), model("", RunState.FAILED))
    assert turns(*messages) == [("user", "kept\n\nnow")]


def test_questions_stopped_before_their_first_word_join_the_next_so_that_roles_alternate() -> None:
    messages = (user("a"), model("", RunState.STOPPED), user("b"), model("", RunState.INTERRUPTED))
    assert turns(*messages) == [("user", "a\n\nb\n\nnow")]


def test_an_answer_whose_question_was_not_read_any_more_is_left_out() -> None:
    assert turns(model("old"), user("a"), model("b")) == [("user", "a"), ("assistant", "b"), ("user", "now")]


def test_settings_go_with_the_request() -> None:
    request = answer_request(ChatSettings("Be brief.", 0.2, 64), (), "now")
    assert (request.system_prompt, request.temperature, request.max_tokens) == ("Be brief.", 0.2, 64)
    assert request.turns == (Turn(MessageRole.USER, "now"),)
