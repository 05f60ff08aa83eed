"""backend.chat.run: one answer from its first piece to its end."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from backend.changes import Changes
from backend.chat.chat_engine import Piece, Usage
from backend.chat.request_timing import EngineFigures
from backend.chat.run import ChatRun, GrowingText
from backend.chat.store import ChatSettings, Conversation, Message, MessageRole, RunState
from backend.errors import ChatError

OPENING = Piece()
FINISH = Piece(is_token=True, finish_reason="stop")
USAGE = Piece(usage=Usage(10, 2, 3, EngineFigures(time_to_first_token_ms=1.0)))


def word(text: str) -> Piece:
    return Piece(text=text, is_token=True)


def new_run(max_bytes: int = 1000) -> ChatRun:
    """A run whose clock says 100, 101, 102, … each time it is read."""
    ticks = itertools.count(100)
    conversation = Conversation("c", "ana", ChatSettings(), 0.0)
    answer = Message("a1", MessageRole.ASSISTANT, "", RunState.STREAMING, 5.0, engine_title="Small")
    return ChatRun(conversation, answer, changes=Changes(), clock=lambda: float(next(ticks)), max_bytes=max_bytes)


async def stream(*pieces: Piece, then: Exception | None = None) -> AsyncGenerator[Piece, None]:
    for piece in pieces:
        yield piece
    if then is not None:
        raise then


async def followed(*pieces: Piece, then: Exception | None = None) -> ChatRun:
    run = new_run()
    await run.follow(stream(*pieces, then=then))
    return run


@asynccontextmanager
async def hanging(run: ChatRun, *pieces: Piece) -> AsyncIterator[asyncio.Task[None]]:
    """The run being followed by a task, all pieces taken, the stream still open."""

    async def pieces_then_silence() -> AsyncGenerator[Piece, None]:
        for piece in pieces:
            yield piece
        await asyncio.Event().wait()

    task = asyncio.create_task(run.follow(pieces_then_silence()))
    for _ in range(len(pieces) + 2):
        await asyncio.sleep(0)
    yield task
    task.cancel()
    await asyncio.wait((task,), timeout=1)


async def test_pieces_become_the_answer() -> None:
    run = await followed(OPENING, Piece(reasoning="Hm. ", is_token=True), word("Hel"), word("lo"), FINISH, USAGE)
    message = run.message()
    assert (message.id, message.role, message.created_at, message.engine_title) == (
        "a1",
        MessageRole.ASSISTANT,
        5.0,
        "Small",
    )
    assert (message.text, message.reasoning) == ("Hello", "Hm. ")
    assert (message.state, message.stop_reason, message.error) == (RunState.DONE, "stop", "")


async def test_times_are_taken_at_sending_and_at_tokens_only() -> None:
    timing = (await followed(OPENING, word("a"), word("b"), FINISH, USAGE)).timing
    assert timing is not None
    assert (timing.sent, timing.first_token, timing.last_token) == (100.0, 102.0, 104.0)
    assert (timing.prompt_tokens, timing.cached_tokens, timing.output_tokens) == (10, 2, 3)
    assert timing.engine == EngineFigures(time_to_first_token_ms=1.0)


async def test_silence_is_counted_from_sending_and_from_each_piece() -> None:
    run = new_run()
    assert run.silent_s == 0.0
    async with hanging(run, OPENING, word("a")):
        assert (run.silent_s, run.silent_s) == (1.0, 2.0)


async def test_before_it_is_sent_a_run_has_no_timing_and_no_text() -> None:
    run = new_run()
    assert (run.timing, run.text, run.state) == (None, "", RunState.STREAMING)


async def test_running_into_the_token_limit_is_done_and_says_so() -> None:
    run = await followed(word("a"), Piece(text="b", is_token=True, finish_reason="length"), USAGE)
    assert (run.state, run.message().stop_reason, run.text) == (RunState.DONE, "length", "ab")


async def test_a_stream_without_a_finish_has_failed_and_keeps_its_text() -> None:
    run = await followed(word("half"))
    assert (run.state, run.text) == (RunState.FAILED, "half")
    assert run.message().error == "Small ended the answer early."


async def test_an_engine_that_was_told_to_end_has_failed() -> None:
    run = await followed(word("half"), Piece(is_token=True, finish_reason="abort"))
    assert (run.state, run.message().error) == (RunState.FAILED, "Small ended while answering.")


async def test_a_fault_is_told_with_its_hint() -> None:
    run = await followed(word("half"), then=ChatError("Small broke.", hint="Look."))
    message = run.message()
    assert (message.state, message.text, message.error, message.hint) == (
        RunState.FAILED,
        "half",
        "Small broke.",
        "Look.",
    )


async def test_a_fault_after_the_finish_takes_nothing_away() -> None:
    run = await followed(word("whole"), FINISH, then=ChatError("Connection lost."))
    assert (run.state, run.message().error) == (RunState.DONE, "")


async def test_a_stopped_run_keeps_what_arrived_and_closes_the_stream() -> None:
    run = new_run()
    async with hanging(run, word("half")) as task:
        run.end(RunState.STOPPED)
        task.cancel()
        await asyncio.wait((task,), timeout=1)
        assert task.done()
    assert (run.state, run.text) == (RunState.STOPPED, "half")


async def test_stopping_when_the_engine_has_finished_is_done() -> None:
    run = new_run()
    async with hanging(run, word("whole"), FINISH):
        run.end(RunState.STOPPED)
    assert run.state is RunState.DONE


async def test_the_first_end_counts() -> None:
    run = new_run()
    run.end(RunState.STOPPED)
    run.end(RunState.FAILED, ChatError("late"))
    assert (run.state, run.message().error) == (RunState.STOPPED, "")


async def test_an_answer_beyond_the_bound_is_cut_and_the_stream_is_left() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[Piece, None]:
        try:
            while True:
                yield word("ü" * 10)
        finally:
            closed.set()

    run = new_run(max_bytes=100)
    await run.follow(endless())
    assert (run.state, len(run.text)) == (RunState.FAILED, 60)
    assert run.message().error == "The answer passed 100 bytes and was cut there."
    assert closed.is_set()


async def test_each_piece_and_the_end_are_told() -> None:
    run = new_run()
    async with hanging(run, word("a"), word("b")):
        version = run.changes.version
        assert version == 2
        run.end(RunState.STOPPED)
        assert run.changes.version == version + 1


async def test_an_error_of_our_own_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        await followed(word("a"), then=KeyError("bug"))


def test_growing_text_is_read_whole_at_any_time_and_counts_bytes() -> None:
    text = GrowingText()
    assert str(text) == ""
    text.append("a")
    text.append("ü")
    assert str(text) == "aü"
    text.append("\ud83d")
    assert str(text) == "aü?"
    assert text.size_bytes == 4
