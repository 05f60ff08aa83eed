"""A scripted engine that speaks the streaming chat API over real sockets, in this process or as one of its own.

    python -P tests/fakes/streaming_server.py WORDS GAP_S      prints its address, then answers with WORDS words

Each plan is named by the model that a request asks for. A gated plan sends a chunk for each permit that a test gives.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Plan:
    """How one model answers."""

    words: tuple[str, ...] = ("Hello", " there", ".")
    reasoning: tuple[str, ...] = ()
    reasoning_field: str = "reasoning"
    status: int = 200
    error: str = ""  # message of the error body when status is not 200
    location: str = ""  # where a redirecting status points
    raw_lines: tuple[str, ...] = ()  # sent as they are, in place of an answer
    gap_s: float = 0.0
    gate: asyncio.Semaphore | None = None
    finish_reason: str | None = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 9, "completion_tokens": 4})
    metrics: dict[str, Any] | None = None
    sends_done: bool = True
    breaks_off: bool = False  # reset the connection where the finish would be
    hangs: bool = False  # send nothing more, and keep the connection


class StreamingServer:
    """Answers by plan; remembers what it was asked and how many answers the client walked away from."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.abandoned = asyncio.Semaphore(0)  # one permit for each answer that the client did not wait for
        self.base_url = ""
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its response; false when the connection is not to be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        request = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(request)
        self.headers.append(headers)
        plan = self.plans[request["model"]]
        if plan.status != 200:
            body = json.dumps({"error": {"message": plan.error, "type": "BadRequestError", "code": plan.status}})
            head_line = f"HTTP/1.1 {plan.status} Reason\r\nContent-Type: application/json\r\n"
            head_line += f"Location: {plan.location}\r\n" if plan.location else ""
            writer.write(f"{head_line}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            return True
        return await self._stream(plan, reader, writer)

    async def _stream(self, plan: Plan, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        gone = asyncio.create_task(reader.read(1))  # a client that waits for its answer sends nothing
        sending = asyncio.create_task(self._send(plan, writer))
        await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        is_abandoned = not sending.done()
        (sending if is_abandoned else gone).cancel()
        await asyncio.wait((gone, sending))
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await gone
        if is_abandoned:
            self.abandoned.release()
            return False
        await sending
        if plan.breaks_off:
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        return True

    async def _send(self, plan: Plan, writer: asyncio.StreamWriter) -> None:
        async for line in _lines(plan):
            data = f"data: {line}\n\n".encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()


async def _lines(plan: Plan) -> AsyncIterator[str]:
    if plan.raw_lines:
        for line in plan.raw_lines:
            yield line
        return
    yield _chunk({"role": "assistant", "content": ""})
    deltas = [{plan.reasoning_field: text} for text in plan.reasoning] + [{"content": text} for text in plan.words]
    for delta in deltas:
        if plan.gate is not None:
            await plan.gate.acquire()
        if plan.gap_s:
            await asyncio.sleep(plan.gap_s)
        yield _chunk(delta)
    if plan.hangs:
        await asyncio.Event().wait()
    if plan.breaks_off:
        return
    if plan.finish_reason is not None:
        yield _chunk({"content": ""}, finish_reason=plan.finish_reason)
    if plan.usage is not None:
        metrics = {} if plan.metrics is None else {"metrics": plan.metrics}
        yield json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": [], "usage": plan.usage, **metrics})
    if plan.sends_done:
        yield "[DONE]"


def _chunk(delta: dict[str, str], *, finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return json.dumps({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


async def _main(words: int, gap_s: float) -> None:
    server = StreamingServer()
    server.plans["model"] = Plan(words=tuple(f"w{n} " for n in range(words)), gap_s=gap_s)
    await server.start()
    sys.stdout.write(server.base_url + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), float(sys.argv[2])))
