"""Speaks to engines: streams answers, and puts every fault into plain words. The only importer of openai."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import openai
from pydantic import SecretStr

from backend.chat.chat_engine import AnswerRequest, ChatEngine, Piece, Usage
from backend.chat.request_timing import EngineFigures, token_count
from backend.errors import ChatError

CONTEXT_LIMIT = re.compile(r"maximum context length is (\d+) tokens", re.IGNORECASE)
CONTEXT_USED = re.compile(r"(?:prompt contains|total of|requested) (?:at least )?(\d+) (?:input )?tokens", re.I)
QUOTED_CHARS = 500  # of an engine's own words in an error
FINISH_REASON_CHARS = 32
WARM_UP_S = 1.0


@dataclass
class _Client:
    """A connection pool to one engine and the number of answers that use it. Closed when retired and unused."""

    base_url: str
    api_key: SecretStr | None
    openai: openai.AsyncOpenAI
    users: int = 0
    is_retired: bool = False


class EngineClients:
    """One reused HTTP client an engine. Belongs to one event loop."""

    def __init__(self, *, connect_timeout_s: float, silence_timeout_s: float) -> None:
        self._timeout = openai.Timeout(
            silence_timeout_s, connect=connect_timeout_s, pool=connect_timeout_s, write=connect_timeout_s
        )
        self._clients: dict[str, _Client] = {}

    async def stream(self, engine: ChatEngine, request: AnswerRequest) -> AsyncGenerator[Piece, None]:
        """The answer, piece by piece. Closing the generator cancels the request, so that the engine aborts it.

        Raises ChatError in plain words, whatever went wrong.
        """
        client = self._client(engine)
        client.users += 1
        has_begun = False
        try:
            async with await client.openai.chat.completions.create(**_arguments(engine, request)) as chunks:
                has_begun = True
                async for chunk in chunks:
                    yield _piece(chunk, with_figures=engine.reports_request_metrics)
        except openai.OpenAIError as err:
            raise _translated(err, engine, has_begun=has_begun, timeout_s=self._timeout.read) from err
        except ValueError as err:  # JSON or UTF-8 that is none
            message = f"{engine.title} sent something that is not an answer stream."
            raise ChatError(message, hint=f"Is {engine.base_url} an OpenAI-compatible engine?") from err
        finally:
            client.users -= 1
            await _close_if_done(client)

    async def warm_up(self) -> None:
        """Load what the first request would load (0.05 s once a process), so that no first answer's TTFT holds it."""
        nobody = ChatEngine("", "nobody", "http://127.0.0.1:1", "")  # refuses at once
        request = AnswerRequest("", (), 0.0, None)
        with suppress(ChatError, TimeoutError):
            async with asyncio.timeout(WARM_UP_S), aclosing(self.stream(nobody, request)) as pieces:
                await anext(pieces)
        await self.keep_only(())

    async def keep_only(self, engine_ids: Collection[str]) -> None:
        """Close the clients of all other engines, each when its last answer has ended."""
        for engine_id in [known for known in self._clients if known not in engine_ids]:
            client = self._clients.pop(engine_id)
            client.is_retired = True
            await _close_if_done(client)

    async def close(self) -> None:
        """Close every client; answers that still run close theirs themselves."""
        await self.keep_only(())

    def _client(self, engine: ChatEngine) -> _Client:
        client = self._clients.get(engine.engine_id)
        if client is not None and (client.base_url, client.api_key) == (engine.base_url, engine.api_key):
            return client
        if client is not None:
            client.is_retired = True  # restarted on another port or with another key
        made = _Client(engine.base_url, engine.api_key, self._connect(engine))
        self._clients[engine.engine_id] = made
        return made

    def _connect(self, engine: ChatEngine) -> openai.AsyncOpenAI:
        has_tls = engine.base_url.startswith("https:")
        http = openai.DefaultAsyncHttpxClient(
            timeout=self._timeout,
            trust_env=False,  # a lab's http_proxy must not see requests to local engines
            follow_redirects=False,  # the key goes to this address and to no other
            verify=True if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # reading the CA file takes 20 ms
        )
        client = openai.AsyncOpenAI(
            base_url=f"{engine.base_url}/v1",
            api_key="none" if engine.api_key is None else engine.api_key.get_secret_value(),
            max_retries=0,
            timeout=self._timeout,
            http_client=http,
        )
        client.organization = client.project = None  # read from the environment; no business of this engine
        return client


async def _close_if_done(client: _Client) -> None:
    if client.is_retired and client.users == 0:
        await client.openai.close()


def _arguments(engine: ChatEngine, request: AnswerRequest) -> dict[str, Any]:
    messages = [{"role": turn.role.value, "content": turn.text} for turn in request.turns]
    if request.system_prompt:
        messages.insert(0, {"role": "system", "content": request.system_prompt})
    limit = {} if request.max_tokens is None else {"max_tokens": request.max_tokens}
    return {
        "model": engine.served_model,
        "messages": messages,
        "temperature": request.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        **limit,
    }


def _piece(chunk: Any, *, with_figures: bool) -> Piece:
    """What a chunk says. The client checks nothing of what an engine sends, so each field is checked here."""
    usage = _usage(chunk, with_figures=with_figures)
    choices = getattr(chunk, "choices", None)
    if not isinstance(choices, list) or not choices:
        return Piece(usage=usage)
    delta = getattr(choices[0], "delta", None)
    text, finish_reason = _text(delta, "content"), _text(choices[0], "finish_reason")[:FINISH_REASON_CHARS]
    reasoning = _text(delta, "reasoning") or _text(delta, "reasoning_content")  # newer and older vLLM
    opens = bool(_text(delta, "role")) and not (text or reasoning or finish_reason)  # the role alone: no token yet
    return Piece(text=text, reasoning=reasoning, is_token=not opens, finish_reason=finish_reason, usage=usage)


def _usage(chunk: Any, *, with_figures: bool) -> Usage | None:
    usage = getattr(chunk, "usage", None)
    if usage is None:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        prompt_tokens=token_count(getattr(usage, "prompt_tokens", None)),
        cached_tokens=token_count(getattr(details, "cached_tokens", None)),
        output_tokens=token_count(getattr(usage, "completion_tokens", None)),
        figures=EngineFigures.from_metrics(getattr(chunk, "metrics", None)) if with_figures else None,
    )


def _text(source: object, name: str) -> str:
    value = getattr(source, name, None)
    return value if isinstance(value, str) else ""


def _translated(err: openai.OpenAIError, engine: ChatEngine, *, has_begun: bool, timeout_s: float | None) -> ChatError:
    if isinstance(err, openai.APITimeoutError):
        hint = "It may be overloaded or stuck: see its log and how many requests wait."
        return ChatError(f"{engine.title} was silent for too long (limit {timeout_s or 0:.0f} s).", hint=hint)
    if isinstance(err, openai.APIConnectionError):
        if has_begun:
            hint = "What had arrived is kept. Its log says why it ended."
            return ChatError(f"{engine.title} ended while answering.", hint=hint)
        return ChatError(f"{engine.title} does not answer at {engine.base_url}.", hint="Is it still running?")
    if isinstance(err, openai.APIStatusError):
        return _refused(err, engine)
    return ChatError(f"{engine.title} broke off: {_quoted(err)}", hint="Its log has more.")


def _refused(err: openai.APIStatusError, engine: ChatEngine) -> ChatError:
    words, status = _quoted(err), err.status_code
    if status in (401, 403):
        return ChatError(f"{engine.title} refused the panel's API key.", hint="Set the key that it was started with.")
    if status == 404:
        hint = f"It answered: {words}"
        return ChatError(f"{engine.title} does not serve a model named {engine.served_model!r}.", hint=hint)
    if status == 429:
        return ChatError(f"{engine.title} is too busy: {words}", hint="Try again in a moment.")
    limit = CONTEXT_LIMIT.search(words)
    if status == 400 and limit is not None:
        counts = [int(count) for count in CONTEXT_USED.findall(words)]
        used = f", this one has at least {max(counts)}" if counts else ""
        hint = "Clear the conversation, shorten the message or lower max tokens; or start it with a longer context."
        return ChatError(f"Too long: {engine.title} reads at most {limit[1]} tokens{used}.", hint=hint)
    if status < 500:
        return ChatError(f"{engine.title} refused the request ({status}): {words}", hint="")
    return ChatError(f"{engine.title} failed ({status}): {words}", hint="Its log has more.")


def _quoted(err: openai.OpenAIError) -> str:
    """The engine's own words, in one bounded line."""
    body = getattr(err, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    words = " ".join((message if isinstance(message, str) else str(err)).split())
    return words if len(words) <= QUOTED_CHARS else words[: QUOTED_CHARS - 1] + "…"
