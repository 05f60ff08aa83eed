"""backend.chat.engine_client: what an engine says, in pieces, and what it fails with, in plain words."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import SecretStr

from backend.chat.chat_engine import AnswerRequest, ChatEngine, Piece, Turn, Usage
from backend.chat.engine_client import QUOTED_CHARS, EngineClients
from backend.chat.request_timing import EngineFigures
from backend.chat.store import MessageRole
from backend.errors import ChatError
from tests.fakes.streaming_server import Plan, StreamingServer

REQUEST = AnswerRequest("Be brief.", (Turn(MessageRole.USER, "Why?"),), 0.25, 64)


@pytest.fixture
async def server() -> AsyncIterator[StreamingServer]:
    server = StreamingServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def clients() -> AsyncIterator[EngineClients]:
    clients = EngineClients(connect_timeout_s=2.0, silence_timeout_s=2.0)
    yield clients
    await clients.close()


def engine(server: StreamingServer, **changes: Any) -> ChatEngine:
    known: dict[str, Any] = {"engine_id": "e1", "title": "Small", "base_url": server.base_url, "served_model": "m"}
    return ChatEngine(**{**known, **changes})


async def pieces(clients: EngineClients, server: StreamingServer, plan: Plan, **changes: Any) -> list[Piece]:
    server.plans["m"] = plan
    async with asyncio.timeout(10), aclosing(clients.stream(engine(server, **changes), REQUEST)) as stream:
        return [piece async for piece in stream]


async def failure(clients: EngineClients, server: StreamingServer, plan: Plan, **changes: Any) -> ChatError:
    with pytest.raises(ChatError) as raised:
        await pieces(clients, server, plan, **changes)
    return raised.value


async def test_the_request_holds_what_was_asked(clients: EngineClients, server: StreamingServer) -> None:
    await pieces(clients, server, Plan())
    assert server.requests == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
            "temperature": 0.25,
            "max_tokens": 64,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


async def test_the_opening_chunk_is_no_token_and_the_finish_is_one(
    clients: EngineClients, server: StreamingServer
) -> None:
    got = await pieces(clients, server, Plan(words=("Hello", "", " you")))
    assert [(piece.text, piece.is_token, piece.finish_reason) for piece in got] == [
        ("", False, ""),
        ("Hello", True, ""),
        ("", True, ""),  # a token whose text is not complete yet
        (" you", True, ""),
        ("", True, "stop"),
        ("", False, ""),
    ]
    assert got[-1].usage == Usage(9, None, 4, None)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_comes_apart(clients: EngineClients, server: StreamingServer, name: str) -> None:
    got = await pieces(clients, server, Plan(words=("42",), reasoning=("Hm", "."), reasoning_field=name))
    assert "".join(piece.reasoning for piece in got) == "Hm."
    assert "".join(piece.text for piece in got) == "42"


async def test_usage_carries_the_cache_and_the_engines_figures_where_it_reports_them(
    clients: EngineClients, server: StreamingServer
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}
    plan = Plan(usage=usage, metrics={"time_to_first_token_ms": 80.5, "queue_time_ms": 0.0, "mean_itl_ms": -3})
    got = await pieces(clients, server, plan, reports_request_metrics=True)
    assert got[-1].usage == Usage(9, 8, 4, EngineFigures(time_to_first_token_ms=80.5, queue_time_ms=0.0))
    got = await pieces(clients, server, plan)
    assert got[-1].usage == Usage(9, 8, 4, None)


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": "9", "completion_tokens": -4, "prompt_tokens_details": []}]
)
async def test_usage_that_is_missing_or_nonsense_is_unknown(
    clients: EngineClients, server: StreamingServer, usage: dict[str, Any] | None
) -> None:
    got = await pieces(clients, server, Plan(usage=usage))
    assert [piece.usage for piece in got if piece.usage is not None] in ([], [Usage()])


@pytest.mark.parametrize(
    "line",
    ["[]", "7", '"x"', "{}", '{"choices": "abc"}', '{"choices": [null]}', '{"choices": [{"delta": 5}]}']
    + ['{"choices": [{"delta": {"content": {"a": 1}}, "finish_reason": 9}], "usage": "lots"}'],
)
async def test_a_chunk_of_a_strange_shape_says_nothing(
    clients: EngineClients, server: StreamingServer, line: str
) -> None:
    got = await pieces(clients, server, Plan(raw_lines=(line, "[DONE]")))
    assert "".join(piece.text + piece.reasoning + piece.finish_reason for piece in got) == ""


@pytest.mark.parametrize("line", ["{", "<html>"])
async def test_a_line_that_is_no_json_is_a_plain_error(
    clients: EngineClients, server: StreamingServer, line: str
) -> None:
    error = await failure(clients, server, Plan(raw_lines=(line,)))
    assert error.message == "Small sent something that is not an answer stream."


async def test_the_key_is_sent_and_the_environment_is_not(
    clients: EngineClients, server: StreamingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://from-the-environment")
    await pieces(clients, server, Plan(), api_key=SecretStr("k-123"))
    assert server.headers[0]["authorization"] == "Bearer k-123"
    assert "from-the-environment" not in json.dumps(server.headers)


async def test_one_connection_serves_answer_after_answer(clients: EngineClients, server: StreamingServer) -> None:
    for _ in range(5):
        await pieces(clients, server, Plan())
    assert server.connections == 1


async def test_leaving_the_stream_ends_the_request(clients: EngineClients, server: StreamingServer) -> None:
    server.plans["m"] = Plan(hangs=True)
    async with aclosing(clients.stream(engine(server), REQUEST)) as stream:
        await anext(stream)
    await asyncio.wait_for(server.abandoned.acquire(), timeout=5)


async def test_an_engine_on_another_port_gets_a_client_of_its_own(
    clients: EngineClients, server: StreamingServer
) -> None:
    await pieces(clients, server, Plan())
    moved = StreamingServer()
    await moved.start()
    await pieces(clients, moved, Plan())
    assert (len(server.requests), len(moved.requests)) == (1, 1)
    await moved.stop()


async def test_a_client_in_use_is_closed_after_its_last_answer(clients: EngineClients, server: StreamingServer) -> None:
    gate = asyncio.Semaphore(0)
    server.plans["m"] = Plan(words=("a", "b"), gate=gate)
    async with aclosing(clients.stream(engine(server), REQUEST)) as stream:
        gate.release()
        await anext(stream)
        (client,) = clients._clients.values()
        await clients.keep_only({"another"})
        assert not client.openai.is_closed()
        gate.release()
        assert "".join([piece.text async for piece in stream]) == "ab"
    assert client.openai.is_closed()


async def test_a_refused_connection_is_a_plain_error(clients: EngineClients, server: StreamingServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    error = await failure(clients, server, Plan(), base_url=base_url)
    assert error.message == f"Small does not answer at {base_url}."


async def test_a_stream_that_breaks_off_is_a_plain_error(clients: EngineClients, server: StreamingServer) -> None:
    error = await failure(clients, server, Plan(breaks_off=True))
    assert error.message == "Small ended while answering."


async def test_a_silent_engine_is_a_plain_error_with_the_limit(server: StreamingServer) -> None:
    impatient = EngineClients(connect_timeout_s=1.0, silence_timeout_s=0.05)
    error = await failure(impatient, server, Plan(hangs=True))
    assert error.message.startswith("Small was silent for too long")
    await impatient.close()


VLLM_TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
)
VLLM_TOO_LONG_WITH_OUTPUT = (
    "This model's maximum context length is 2048 tokens. However, you requested 500 output tokens and your prompt "
    "contains at least 1549 input tokens, for a total of at least 2049 tokens. Please reduce the length."
)
OLD_VLLM_TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, you requested 2600 tokens (2100 in the messages, "
    "500 in the completion). Please reduce the length of the messages or completion."
)


@pytest.mark.parametrize(
    ("words", "used"), [(VLLM_TOO_LONG, 2049), (VLLM_TOO_LONG_WITH_OUTPUT, 2049), (OLD_VLLM_TOO_LONG, 2600)]
)
async def test_a_context_that_is_too_long_is_told_with_the_numbers(
    clients: EngineClients, server: StreamingServer, words: str, used: int
) -> None:
    error = await failure(clients, server, Plan(status=400, error=words))
    assert error.message == f"Too long: Small reads at most 2048 tokens, this one has at least {used}."
    assert "Clear the conversation" in error.hint


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (400, "Small refused the request (400): odd  words"),
        (401, "Small refused the panel's API key."),
        (403, "Small refused the panel's API key."),
        (404, "Small does not serve a model named 'm'."),
        (429, "Small is too busy: odd  words"),
        (500, "Small failed (500): odd  words"),
        (503, "Small failed (503): odd  words"),
    ],
)
async def test_each_refusal_is_one_plain_sentence(
    clients: EngineClients, server: StreamingServer, status: int, sentence: str
) -> None:
    error = await failure(clients, server, Plan(status=status, error="odd \n words"))
    assert error.message == sentence.replace("odd  words", "odd words")
    assert "k-123" not in str(error)


async def test_an_engines_own_words_are_bounded(clients: EngineClients, server: StreamingServer) -> None:
    error = await failure(clients, server, Plan(status=500, error="x" * 100_000))
    assert len(error.message) < QUOTED_CHARS + 100


async def test_a_redirect_is_not_followed(clients: EngineClients, server: StreamingServer) -> None:
    plan = Plan(status=307, error="elsewhere", location=f"{server.base_url}/elsewhere")
    error = await failure(clients, server, plan, api_key=SecretStr("k-123"))
    assert "(307)" in error.message
    assert len(server.requests) == 1


async def test_an_error_inside_the_stream_is_a_plain_error(clients: EngineClients, server: StreamingServer) -> None:
    line = json.dumps({"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError"}})
    error = await failure(clients, server, Plan(raw_lines=(line, "[DONE]")))
    assert error.message == "Small broke off: EngineCore encountered an issue."


async def test_warming_up_asks_no_engine_and_leaves_no_client(clients: EngineClients, server: StreamingServer) -> None:
    await clients.warm_up()
    assert not clients._clients
    assert not server.requests
