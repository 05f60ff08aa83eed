"""backend.chat.chats: people, engines that answer, engines that fail, and a panel that dies."""

import asyncio
import os
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from backend.changes import Changes
from backend.chat import chats as chat
from backend.chat.chats import (
    ChatEngine,
    ChatLimits,
    ChatRun,
    Chats,
    ChatSettings,
    ConversationView,
    Message,
    RunState,
)
from backend.chat.request_timing import TimingSource
from backend.chat.store import ChatStore
from backend.database import Database
from backend.errors import ChatError
from backend.viewer import Role, Viewer
from tests.fakes.streaming_server import Plan, StreamingServer

ANA = Viewer("ana", Role.MEMBER, "browser-a")
BEN = Viewer("ben", Role.MEMBER, "browser-b")
DEADLINE_S = 20.0
ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))
FAKES = Path(__file__).parents[2] / "fakes"
LONG_SAVE = ChatLimits(save_interval_s=3600.0)


@dataclass
class Engines:
    """An EngineLookup whose answer a test changes."""

    engines: tuple[ChatEngine, ...] = ()

    def ready(self) -> tuple[ChatEngine, ...]:
        return self.engines


@dataclass
class Bench:
    """Chats on a database of their own, and one scripted engine."""

    database: Database
    server: StreamingServer
    engines: Engines
    changes: Changes
    chats: Chats
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def plan(self, *words: str, **changes: Any) -> None:
        """The engine's next answers: a word each time that the gate is opened."""
        self.server.plans["m"] = Plan(words=words, gate=self.gate, **changes)

    def open_gate(self, words: int = 1000) -> None:
        for _ in range(words):
            self.gate.release()

    async def last(self, viewer: Viewer = ANA) -> Message:
        return (await self.chats.conversation(viewer)).messages[-1]


def engine(server: StreamingServer, **changes: Any) -> ChatEngine:
    known: dict[str, Any] = {"engine_id": "e1", "title": "Small", "base_url": server.base_url, "served_model": "m"}
    return ChatEngine(**{**known, **changes})


@asynccontextmanager
async def opened(path: Path, server: StreamingServer, limits: ChatLimits) -> AsyncIterator[Bench]:
    database, engines, changes = Database(path), Engines((engine(server),)), Changes()
    await database.open()
    chats = Chats(ChatStore(database), engines, changes=changes, limits=limits)
    await chats.open()
    try:
        yield Bench(database, server, engines, changes, chats)
    finally:
        await chats.close()
        await database.close()


@pytest.fixture
async def server() -> AsyncIterator[StreamingServer]:
    server = StreamingServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def bench(tmp_path: Path, server: StreamingServer) -> AsyncIterator[Bench]:
    async with opened(tmp_path / "panel.db", server, ChatLimits(save_interval_s=0.02)) as bench:
        yield bench


async def until(run: ChatRun, is_reached: Callable[[ChatRun], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        seen = run.changes.version
        while not is_reached(run):
            seen = await run.changes.wait(seen, timeout_s=DEADLINE_S)


async def saved(bench: Bench, run: ChatRun) -> Message:
    """The run's message as the database has it, after the run ended and was saved."""
    await until(run, lambda run: bench.chats.live_run(run.conversation_id) is not run)
    history = await bench.chats._store.history(run.conversation)
    return next(message for message in history.messages if message.id == run.id)


def texts(view: ConversationView) -> list[str]:
    return [message.text for message in view.messages]


async def test_an_answer_streams_and_is_kept(bench: Bench) -> None:
    bench.plan("Hello", " there", ".")
    run = await bench.chats.send(ANA, "Hi")
    for count, text in ((1, "Hello"), (1, "Hello there")):
        bench.open_gate(count)
        await until(run, lambda run, text=text: run.text == text)  # type: ignore[misc]
        view = await bench.chats.conversation(ANA)
        assert (texts(view), view.is_answering) == (["Hi", text], True)
    bench.open_gate()
    message = await saved(bench, run)
    assert (message.text, message.state, message.stop_reason) == ("Hello there.", RunState.DONE, "stop")
    assert message.engine_title == "Small"
    view = await bench.chats.conversation(ANA)
    assert (texts(view), view.is_answering) == (["Hi", "Hello there."], False)


async def test_send_returns_before_the_engine_says_anything(bench: Bench) -> None:
    bench.plan("Hello")
    run = await asyncio.wait_for(bench.chats.send(ANA, "Hi"), timeout=DEADLINE_S)
    assert (run.state, run.text) == (RunState.STREAMING, "")
    assert bench.chats.running == 1


async def test_timing_is_the_engines_where_it_reports_it_else_measured(bench: Bench) -> None:
    metrics = {"time_to_first_token_ms": 0.5, "queue_time_ms": 0.25, "mean_itl_ms": 0.125}
    bench.plan("a", "b", metrics=metrics)
    bench.open_gate()
    bench.engines.engines = (engine(bench.server, reports_request_metrics=True),)
    reported = (await saved(bench, await bench.chats.send(ANA, "Hi"))).timing
    bench.engines.engines = (engine(bench.server),)
    measured = (await saved(bench, await bench.chats.send(ANA, "Hi"))).timing
    assert reported is not None and measured is not None
    assert (reported.source, reported.ttft_s, reported.tpot_s) == (TimingSource.ENGINE, 0.00075, 0.000125)
    assert (measured.source, measured.engine) == (TimingSource.MEASURED, None)
    assert measured.ttft_s is not None and measured.tpot_s is not None


async def test_measured_times_are_those_of_a_clock_beside_it(bench: Bench) -> None:
    bench.server.plans["m"] = Plan(words=("w",) * 20, gap_s=0.02, usage={"prompt_tokens": 9, "completion_tokens": 21})
    began = time.monotonic()
    run = await bench.chats.send(ANA, "Hi")
    await until(run, lambda run: run.text != "")
    first = time.monotonic()
    await until(run, lambda run: run.state is RunState.DONE)
    last = time.monotonic()
    assert run.timing is not None and run.timing.ttft_s is not None and run.timing.tpot_s is not None
    assert run.timing.ttft_s == pytest.approx(first - began, abs=0.05)
    assert run.timing.tpot_s == pytest.approx((last - first) / 20, rel=0.1)


async def test_without_usage_counts_are_blank_and_the_answer_is_done(bench: Bench) -> None:
    bench.plan("a", "b", usage=None)
    bench.open_gate()
    message = await saved(bench, await bench.chats.send(ANA, "Hi"))
    assert message.state is RunState.DONE
    assert message.timing is not None
    assert (message.timing.output_tokens, message.timing.tpot_s) == (None, None)
    assert message.timing.ttft_s is not None


async def test_the_conversation_and_its_settings_go_with_the_next_question(bench: Bench) -> None:
    bench.plan("A1")
    bench.open_gate()
    await saved(bench, await bench.chats.send(ANA, "Q1"))
    settings = ChatSettings("Be brief.", 0.1, 32)
    await saved(bench, await bench.chats.send(ANA, "Q2", settings=settings))
    request = bench.server.requests[-1]
    assert [(each["role"], each["content"]) for each in request["messages"]] == [
        ("system", "Be brief."),
        ("user", "Q1"),
        ("assistant", "A1"),
        ("user", "Q2"),
    ]
    assert (request["temperature"], request["max_tokens"]) == (0.1, 32)
    assert (await bench.chats.conversation(ANA)).settings == settings


async def test_stop_before_the_first_token_frees_the_engine_and_leaves_the_times_blank(bench: Bench) -> None:
    bench.plan("never")
    run = await bench.chats.send(ANA, "Hi")
    async with asyncio.timeout(DEADLINE_S):
        while not bench.server.requests:
            await asyncio.sleep(0.001)
    await bench.chats.stop(ANA)
    await asyncio.wait_for(bench.server.abandoned.acquire(), timeout=DEADLINE_S)
    message = await saved(bench, run)
    assert (message.state, message.text, message.error) == (RunState.STOPPED, "", "")
    assert message.timing is not None and message.timing.ttft_s is None


async def test_stop_mid_answer_keeps_what_arrived_and_frees_the_engine(bench: Bench) -> None:
    bench.plan("Hello", " there")
    run = await bench.chats.send(ANA, "Hi")
    bench.open_gate(1)
    await until(run, lambda run: run.text == "Hello")
    await bench.chats.stop(ANA)
    await asyncio.wait_for(bench.server.abandoned.acquire(), timeout=DEADLINE_S)
    view = await bench.chats.conversation(ANA)
    assert (view.messages[-1].text, view.messages[-1].state) == ("Hello", RunState.STOPPED)
    assert view.messages[-1].timing is not None and view.messages[-1].timing.ttft_s is not None
    assert not view.is_answering
    assert bench.chats.running == 0


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
async def test_stop_at_any_moment_ends_and_saves(bench: Bench, round_number: int) -> None:
    bench.server.plans["m"] = Plan(words=("w",) * 5, gap_s=0.002)
    for delay_s in (0.0, 0.001, 0.003, 0.006, 0.012, 0.02):
        run = await bench.chats.send(ANA, "Hi")
        await asyncio.sleep(delay_s + round_number * 0.0004)
        await asyncio.wait_for(bench.chats.stop(ANA), timeout=DEADLINE_S)
        message = await saved(bench, run)
        assert message.state in (RunState.STOPPED, RunState.DONE)
        assert message.text == run.text
        assert bench.chats.running == 0


async def test_stop_where_nothing_runs_does_nothing(bench: Bench) -> None:
    await bench.chats.stop(ANA)
    assert (await bench.chats.conversation(ANA)).messages == ()


async def test_a_second_message_waits_for_the_answer(bench: Bench) -> None:
    bench.plan("Hello")
    run = await bench.chats.send(ANA, "Hi")
    with pytest.raises(ChatError, match="still being written"):
        await bench.chats.send(ANA, "And?")
    bench.open_gate()
    await saved(bench, run)
    assert texts(await bench.chats.conversation(ANA)) == ["Hi", "Hello"]
    await saved(bench, await bench.chats.send(ANA, "And?"))


async def test_of_two_tabs_that_send_at_once_one_is_refused(bench: Bench) -> None:
    bench.plan("Hello")
    sent = await asyncio.gather(*(bench.chats.send(ANA, f"tab {n}") for n in range(2)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in sent) == ["ChatError", "ChatRun"]
    assert len((await bench.chats.conversation(ANA)).messages) == 2


async def test_two_people_are_answered_at_once_and_see_only_their_own(bench: Bench) -> None:
    bench.plan("word")
    runs = [await bench.chats.send(viewer, f"I am {viewer.user}") for viewer in (ANA, BEN)]
    assert bench.chats.running == 2
    bench.open_gate()
    for run in runs:
        await saved(bench, run)
    assert texts(await bench.chats.conversation(ANA)) == ["I am ana", "word"]
    assert texts(await bench.chats.conversation(BEN)) == ["I am ben", "word"]


async def test_nobody_stops_clears_or_sets_anothers_chat(bench: Bench) -> None:
    bench.plan("word")
    run = await bench.chats.send(ANA, "Hi")
    await bench.chats.stop(BEN)
    await bench.chats.clear(BEN)
    await bench.chats.update_settings(BEN, ChatSettings("Ben was here"))
    assert run.state is RunState.STREAMING
    view = await bench.chats.conversation(ANA)
    assert (texts(view), view.settings) == (["Hi", ""], ChatSettings())


async def test_fifty_people_are_answered_at_once(bench: Bench) -> None:
    bench.server.plans["m"] = Plan(words=tuple(f"{n} " for n in range(20)), gap_s=0.005)
    viewers = [Viewer("x", Role.MEMBER, f"browser-{n}") for n in range(50)]
    runs = await asyncio.gather(*(bench.chats.send(viewer, "Hi") for viewer in viewers))
    for run in runs:
        message = await saved(bench, run)
        assert (message.state, message.text) == (RunState.DONE, "".join(f"{n} " for n in range(20)))


async def test_more_answers_than_the_bound_are_refused(tmp_path: Path, server: StreamingServer) -> None:
    async with opened(tmp_path / "panel.db", server, ChatLimits(runs=2)) as bench:
        bench.plan("word")
        viewers = [Viewer("x", Role.MEMBER, f"browser-{n}") for n in range(5)]
        sent = await asyncio.gather(*(bench.chats.send(viewer, "Hi") for viewer in viewers), return_exceptions=True)
        assert [type(each).__name__ for each in sent].count("ChatRun") == 2
        assert any("2 answers are being written already" in str(each) for each in sent)


@pytest.mark.parametrize(
    ("text", "settings"),
    [("", None), ("x" * 200_001, None), ("Hi", ChatSettings(temperature=9.0)), ("Hi", ChatSettings(max_tokens=0))],
)
async def test_what_is_refused_is_not_stored(bench: Bench, text: str, settings: ChatSettings | None) -> None:
    with pytest.raises(ChatError):
        await bench.chats.send(ANA, text, settings=settings)
    view = await bench.chats.conversation(ANA)
    assert (view.messages, view.settings) == ((), ChatSettings())


async def test_without_an_engine_nothing_is_stored(bench: Bench) -> None:
    bench.engines.engines = ()
    with pytest.raises(ChatError, match="No engine is ready"):
        await bench.chats.send(ANA, "Hi", settings=ChatSettings("Be brief."))
    view = await bench.chats.conversation(ANA)
    assert (view.messages, view.settings) == ((), ChatSettings())


async def test_clear_stops_the_answer_and_deletes_every_word_but_the_settings(bench: Bench, tmp_path: Path) -> None:
    bench.plan("xyzzy-answer", " more")
    await bench.chats.update_settings(ANA, ChatSettings("Be brief."))
    run = await bench.chats.send(ANA, "xyzzy-question")
    bench.open_gate(1)
    await until(run, lambda run: run.text != "")
    await bench.chats.clear(ANA)
    await asyncio.wait_for(bench.server.abandoned.acquire(), timeout=DEADLINE_S)
    view = await bench.chats.conversation(ANA)
    assert (view.id, view.messages, view.settings) == (run.conversation_id, (), ChatSettings("Be brief."))
    assert bench.chats.live_run(run.conversation_id) is None
    for file in tmp_path.iterdir():
        assert b"xyzzy" not in file.read_bytes(), file


async def test_a_page_is_told_of_words_settings_and_clearing_and_the_panel_of_start_and_end(bench: Bench) -> None:
    bench.plan("Hello")
    changes = bench.chats.changes_for((await bench.chats.conversation(ANA)).id)
    assert bench.chats.changes_for((await bench.chats.conversation(ANA)).id) is changes
    panel = bench.changes.version
    run = await bench.chats.send(ANA, "Hi")
    assert run.changes is changes
    assert bench.changes.version > panel
    bench.open_gate()
    await saved(bench, run)
    assert bench.changes.version == panel + 2
    for change in (bench.chats.update_settings(ANA, ChatSettings("x")), bench.chats.clear(ANA)):
        seen = changes.version
        await change
        assert changes.version > seen


async def test_a_conversation_that_was_not_watched_for_long_comes_back_with_another_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "CONVERSATIONS_WATCHED", 3)
    seen = bench.chats.changes_for("c0").version
    for n in range(4):
        bench.chats.changes_for(f"c{n}")
    assert len(bench.chats._changes_by_conversation) == 3
    assert await asyncio.wait_for(bench.chats.changes_for("c0").wait(seen, timeout_s=60), DEADLINE_S) != seen


async def test_a_running_answer_is_watched_however_many_others_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "CONVERSATIONS_WATCHED", 3)
    bench.plan("Hello")
    run = await bench.chats.send(ANA, "Hi")
    for n in range(4):
        bench.chats.changes_for(f"c{n}")
    assert bench.chats.changes_for(run.conversation_id) is run.changes


async def test_waiting_from_a_views_version_misses_nothing(bench: Bench) -> None:
    view = await bench.chats.conversation(ANA)
    await bench.chats.update_settings(ANA, ChatSettings("x"))
    waiting = bench.chats.changes_for(view.id).wait(view.version, timeout_s=60)
    assert await asyncio.wait_for(waiting, DEADLINE_S) > view.version


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        (Plan(status=400, error="odd"), "Small refused the request (400): odd"),
        (Plan(status=401, error="no"), "Small refused the panel's API key."),
        (Plan(status=404, error="no"), "Small does not serve a model named 'm'."),
        (Plan(status=500, error="boom"), "Small failed (500): boom"),
        (Plan(breaks_off=True), "Small ended while answering."),
        (Plan(finish_reason="abort"), "Small ended while answering."),
        (Plan(finish_reason=None), "Small ended the answer early."),
        (Plan(finish_reason=None, usage=None, sends_done=False), "Small ended the answer early."),
    ],
)
async def test_a_failing_engine_fails_the_answer_in_plain_words(bench: Bench, plan: Plan, error: str) -> None:
    bench.server.plans["m"] = plan
    message = await saved(bench, await bench.chats.send(ANA, "Hi"))
    assert (message.state, message.error) == (RunState.FAILED, error)
    assert message.text in ("", "Hello there.")
    bench.server.plans["m"] = Plan()
    assert (await saved(bench, await bench.chats.send(ANA, "Again"))).state is RunState.DONE


async def test_an_engine_that_is_gone_but_keeps_the_stream_open_fails_the_answer(
    tmp_path: Path, server: StreamingServer
) -> None:
    async with opened(tmp_path / "panel.db", server, ChatLimits(save_interval_s=0.02, gone_timeout_s=0.1)) as bench:
        bench.plan("Hello", hangs=True)
        bench.open_gate()
        run = await bench.chats.send(ANA, "Hi")
        async with asyncio.timeout(DEADLINE_S):
            while run.silent_s < 0.3:
                await asyncio.sleep(0.02)
        assert run.state is RunState.STREAMING, "a ready engine may be silent for long"
        bench.engines.engines = ()
        message = await saved(bench, run)
        assert (message.state, message.text, message.error) == (
            RunState.FAILED,
            "Hello",
            "Small ended while answering.",
        )
        await asyncio.wait_for(server.abandoned.acquire(), timeout=DEADLINE_S)


async def test_before_an_engine_is_stopped_its_answers_are_ended_and_no_others(bench: Bench) -> None:
    bench.plan("Hello")
    stopped = await bench.chats.send(ANA, "Hi")
    bench.engines.engines = (engine(bench.server, engine_id="e2", title="Other"),)
    other = await bench.chats.send(BEN, "Hi")
    await bench.chats.end_answers("e1")
    message = await bench.last()
    assert (message.state, message.error) == (RunState.FAILED, "Small was stopped while answering.")
    assert (stopped.state, other.state) == (RunState.FAILED, RunState.STREAMING)


async def test_a_database_that_fails_costs_no_word_and_is_told(tmp_path: Path, server: StreamingServer) -> None:
    async with opened(tmp_path / "panel.db", server, LONG_SAVE) as bench:
        bench.plan("Hello")
        run = await bench.chats.send(ANA, "Hi")
        trigger = "CREATE TRIGGER broken BEFORE UPDATE ON messages BEGIN SELECT RAISE(ABORT, 'disk gone'); END"
        await bench.database.run(lambda connection: connection.execute(trigger))
        bench.open_gate()
        await until(run, lambda run: "disk gone" in run.message().error)
        message = await bench.last()
        assert (message.text, message.state) == ("Hello", RunState.DONE)
        assert message.error.startswith("The answer is not saved:")
        await bench.database.run(lambda connection: connection.execute("DROP TRIGGER broken"))
        await saved(bench, await bench.chats.send(ANA, "Again"))
        assert "Hello" in texts(await bench.chats.conversation(ANA))


async def test_closing_interrupts_saves_and_refuses_new_messages(tmp_path: Path, server: StreamingServer) -> None:
    async with opened(tmp_path / "panel.db", server, LONG_SAVE) as bench:
        bench.plan("Hello", " there")
        run = await bench.chats.send(ANA, "Hi")
        bench.open_gate(1)
        await until(run, lambda run: run.text == "Hello")
        await bench.chats.close()
        await asyncio.wait_for(server.abandoned.acquire(), timeout=DEADLINE_S)
        message = await bench.last()
        assert (message.text, message.state) == ("Hello", RunState.INTERRUPTED)
        with pytest.raises(ChatError, match="The panel is ending"):
            await bench.chats.send(BEN, "Hi")


async def line(child: asyncio.subprocess.Process) -> str:
    assert child.stdout is not None
    data = await asyncio.wait_for(child.stdout.readline(), timeout=DEADLINE_S)
    assert data, "the process ended"
    return data.decode().strip()


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is killed at the latest when the test ends."""
    command = (sys.executable, "-P", *arguments)
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, start_new_session=True)
    try:
        yield child
    finally:
        if child.returncode is None:
            child.send_signal(signal.SIGKILL)
        await asyncio.wait_for(child.wait(), timeout=DEADLINE_S)


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
async def test_an_engine_killed_mid_answer_fails_it_and_keeps_what_arrived(bench: Bench, round_number: int) -> None:
    async with running(str(FAKES / "streaming_server.py"), "1000", "0.002") as child:
        bench.engines.engines = (ChatEngine("e2", "Small", await line(child), "model"),)
        run = await bench.chats.send(ANA, "Hi")
        await until(run, lambda run: len(run.text) > 40 * (round_number + 1))
        child.send_signal(signal.SIGKILL)
        message = await saved(bench, run)
    assert (message.state, message.error) == (RunState.FAILED, "Small ended while answering.")
    assert len(message.text) > 40 * (round_number + 1)
    with pytest.raises(ChatError, match="No engine"):
        bench.engines.engines = ()
        await bench.chats.send(ANA, "Hi")


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
async def test_a_panel_killed_mid_answer_loses_at_most_what_came_since_the_last_save(
    tmp_path: Path, server: StreamingServer, round_number: int
) -> None:
    path, save_interval_s, slack_s = tmp_path / "panel.db", 0.2, 0.5
    arrivals: list[tuple[float, int]] = []
    async with (
        running(str(FAKES / "streaming_server.py"), "100000", "0.005") as child_engine,
        running(str(FAKES / "chat_panel.py"), str(path), await line(child_engine), "Hi", str(save_interval_s)) as panel,
    ):
        while not arrivals or arrivals[-1][0] < arrivals[0][0] + 1.0 + 0.07 * (round_number % 5):
            stamp, count = (await line(panel)).split()
            if int(count) > 0:
                arrivals.append((float(stamp), int(count)))
        panel.send_signal(signal.SIGKILL)
    due = max(count for stamp, count in arrivals if stamp <= arrivals[-1][0] - save_interval_s - slack_s)
    viewer = Viewer("local", Role.ADMIN, "the-browser")
    async with opened(path, server, ChatLimits()) as bench:
        question, answer = (await bench.chats.conversation(viewer)).messages
        assert (question.text, answer.state) == ("Hi", RunState.INTERRUPTED)
        assert len(answer.text) >= due > 0
        assert "".join(f"w{n} " for n in range(10_000)).startswith(answer.text)
        server.plans["m"] = Plan()
        assert (await saved(bench, await bench.chats.send(viewer, "Go on"))).state is RunState.DONE


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
async def test_a_panel_killed_after_an_answer_loses_none_of_it(
    tmp_path: Path, server: StreamingServer, round_number: int
) -> None:
    path = tmp_path / "panel.db"
    words = 20 + round_number
    async with (
        running(str(FAKES / "streaming_server.py"), str(words), "0.001") as child_engine,
        running(str(FAKES / "chat_panel.py"), str(path), await line(child_engine), "Hi") as panel,
    ):
        while await line(panel) != "done":
            pass
        panel.send_signal(signal.SIGKILL)
    async with opened(path, server, ChatLimits()) as bench:
        answer = await bench.last(Viewer("local", Role.ADMIN, "the-browser"))
        assert (answer.state, answer.text) == (RunState.DONE, "".join(f"w{n} " for n in range(words)))
        assert answer.timing is not None and answer.timing.tpot_s is not None
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
