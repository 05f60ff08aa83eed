"""The fake engine through the client that chats use: it must look like vLLM where the panel looks."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.fakes.engine_process import token
from tests.fakes.fake_specs import FAKE_ENGINE, eventually
from tests.panel_process import free_port

MESSAGES: list[Any] = [{"role": "user", "content": "three words here"}]


@pytest.fixture
async def client() -> AsyncIterator[AsyncOpenAI]:
    """A client of a running fake engine that reports its own timings."""
    port = free_port()
    command = (sys.executable, "-I", "-S", str(FAKE_ENGINE), "--port", str(port), "--enable-per-request-metrics")
    process = subprocess.Popen((*command, "--unknown-flag", "5", "--gap", "0.001"), stdout=subprocess.DEVNULL)

    def is_up() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    await eventually(is_up, what="the fake answers")
    yield AsyncOpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key="none", http_client=httpx.AsyncClient(trust_env=False)
    )
    process.kill()
    process.wait(timeout=10)


async def answer(client: AsyncOpenAI, count: int) -> tuple[str, Any]:
    """The streamed text and the last chunk."""
    text, last = "", None
    stream = await client.chat.completions.create(
        model="fake-model", messages=MESSAGES, stream=True, max_tokens=count, stream_options={"include_usage": True}
    )
    async for last in stream:
        text += "".join(choice.delta.content or "" for choice in last.choices)
    return text, last


async def test_a_stream_gives_the_tokens_asked_for_and_its_usage_and_figures(client: AsyncOpenAI) -> None:
    text, last = await answer(client, 12)
    assert text == "".join(token(index) for index in range(12))
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (3, 12)
    figures = last.model_extra["metrics"]
    assert figures["time_to_first_token_ms"] >= 20
    assert figures["generation_time_ms"] >= 10  # 11 gaps of 1 ms; a sleep may end a little early
    assert set(figures) >= {"queue_time_ms", "mean_itl_ms", "tokens_per_second"}


async def test_a_whole_answer_has_the_same_text(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model="fake-model", messages=MESSAGES, max_tokens=5)
    assert whole.choices[0].message.content == "".join(token(index) for index in range(5))
    assert whole.usage is not None and whole.usage.completion_tokens == 5


async def test_models_are_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["fake-model"]


async def test_many_streams_run_at_the_same_time(client: AsyncOpenAI) -> None:
    answers = await asyncio.gather(*(answer(client, 20) for _ in range(60)))
    assert {text for text, _ in answers} == {"".join(token(index) for index in range(20))}
