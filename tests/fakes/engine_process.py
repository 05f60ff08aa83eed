"""A stand-in for vLLM: a real process that serves the same HTTP, logs the same start-up phases, and fails on demand.

Standard library only and asyncio throughout, so that it starts in a tenth of a second and serves sixty streams at once.
Options of vLLM that it does not know are ignored, as a preset's command holds many.
"""

import argparse
import asyncio
import contextlib
import json
import mmap
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and")
TOKEN_LIMIT = 64  # when the client names no max_tokens
REQUEST_BYTES = 4 * 1024 * 1024


def token(index: int) -> str:
    """The text of the answer's n-th token: "Hello", then words and their numbers, always the same."""
    return "Hello" if index == 0 else f" {WORDS[index % len(WORDS)]}{index}"


def parse_arguments(words: list[str]) -> argparse.Namespace:
    """vLLM's own options that matter here, and the faults."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", default="fake-model")
    parser.add_argument("--enable-per-request-metrics", action="store_true")
    parser.add_argument("--ttft", type=float, default=0.02, help="seconds to the first token")
    parser.add_argument("--gap", type=float, default=0.005, help="seconds between tokens")
    parser.add_argument("--slow-start", type=float, default=0.0, metavar="S")
    parser.add_argument("--never-ready", action="store_true", help="alive, logging, never listening")
    parser.add_argument("--exit-early", type=int, metavar="CODE", help="fail while loading, as vLLM does")
    parser.add_argument("--last-words", default="RuntimeError: the fake weights are broken", help="of --exit-early")
    parser.add_argument("--bury-cause", type=int, default=0, metavar="LINES", help="of log after the last words")
    parser.add_argument("--read-for", type=float, default=0.0, metavar="S", help="load in silence, but reading")
    parser.add_argument(
        "--preempting", action="store_true", help="/metrics shows a full cache and more preemptions each time"
    )
    parser.add_argument("--ignore-sigterm", action="store_true", help="so do its workers")
    parser.add_argument("--workers", type=int, default=0, help="child processes; the last one leaves the session")
    parser.add_argument("--flood-mb-per-s", type=float, default=0.0, help="write that much log for ever")
    parser.add_argument("--die-after-tokens", type=int, metavar="N", help="SIGKILL itself in the middle of an answer")
    parser.add_argument("--hang-health", action="store_true", help="after the first answer /health accepts, then hangs")
    parser.add_argument("--shm", action="store_true", help="leave files in /dev/shm as a killed vLLM does")
    return parser.parse_known_args(words)[0]


@dataclass(frozen=True)
class Request:
    """One HTTP request, read whole."""

    method: str
    path: str
    body: bytes


class FakeEngine:
    """The server. One instance a process."""

    def __init__(self, arguments: argparse.Namespace, workers: list[int]) -> None:
        self._arguments = arguments
        self._workers = workers
        self._health_answers = 0
        self._metrics_answers = 0
        self._tokens_sent = 0

    async def run(self) -> None:
        """Log the phases, listen, and serve until SIGTERM or a dead worker."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        if self._arguments.flood_mb_per_s:
            loop.create_task(self._flood())
        await self._start_up()
        if not self._arguments.ignore_sigterm:
            # vLLM loses SIGTERM while it starts; main() ignores it until here
            loop.add_signal_handler(signal.SIGTERM, ended.set)
        server = await asyncio.start_server(self._serve, self._arguments.host, self._arguments.port, backlog=256)
        say("INFO: Application startup complete.")
        watch = loop.create_task(self._watch_workers())
        async with server:
            await ended.wait()
        watch.cancel()
        say("INFO: Shutting down")
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)

    async def _start_up(self) -> None:
        pause = self._arguments.slow_start / 10
        for line in start_up_lines(self._arguments.served_model_name):
            say(line)
            await asyncio.sleep(pause)
            if "Starting to load" in line and self._arguments.exit_early is not None:
                say("(EngineCore pid=1) ERROR 12-01 08:00:00 [core.py:1] Traceback (most recent call last):")
                say(f"(EngineCore pid=1) ERROR 12-01 08:00:00 [core.py:1] {self._arguments.last_words}")
                for number in range(self._arguments.bury_cause):
                    say(f"(EngineCore pid=1) INFO 12-01 08:00:00 [core.py:9] shutting down, step {number}")
                say("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
                sys.exit(self._arguments.exit_early)
        await self._read_in_silence()
        for percent in range(0, 101, 20):
            bar = f"\rLoading safetensors checkpoint shards: {percent:3d}% Completed | {percent // 20}/5 [00:00<00:00]"
            sys.stdout.write(bar)
            sys.stdout.flush()
            await asyncio.sleep(pause / 5)
        say("")
        if self._arguments.never_ready:
            await asyncio.Event().wait()
        for line in ("Loading weights took 0.10 seconds", "Explicitly set (1.0) GiB for KV cache"):
            say(line)
            await asyncio.sleep(pause)
        say("CPU KV cache size: 12,000 tokens")
        say("init engine (profile, create kv cache, warmup model) took 0.20 seconds")
        await asyncio.sleep(pause)
        say("Starting vLLM server on http://127.0.0.1")

    async def _read_in_silence(self) -> None:
        until = time.monotonic() + self._arguments.read_for
        with open("/dev/zero", "rb", buffering=0) as weights:  # noqa: PTH123 - pathlib takes a tenth of the start
            while time.monotonic() < until:
                weights.read(2_000_000)
                await asyncio.sleep(0.05)

    async def _flood(self) -> None:
        """Blocks when nobody drains the pipe, as an engine's own logging would."""
        line = b"INFO 12-01 08:00:00 [flood.py:1] " + b"x" * 86 + b"\n"
        block = line * 1000
        began, written = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * self._arguments.flood_mb_per_s * 1e6)
            while written < due:
                written += os.write(1, block)
            await asyncio.sleep(0.005)

    async def _watch_workers(self) -> None:
        """As vLLM: a dead worker takes the whole engine with it."""
        while True:
            for worker in self._workers:
                if os.waitpid(worker, os.WNOHANG)[0]:
                    say(f"ERROR 12-01 08:00:00 [core.py:2] EngineDeadError: worker {worker} died unexpectedly")
                    os._exit(1)
            await asyncio.sleep(0.1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                await self._answer(request, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        path = request.path.partition("?")[0]
        if (request.method, path) == ("GET", "/health"):
            self._health_answers += 1
            if self._arguments.hang_health and self._health_answers > 1:
                await asyncio.Event().wait()
            write_response(writer, b"")
        elif (request.method, path) == ("GET", "/metrics"):
            self._metrics_answers += 1
            write_response(writer, metrics_text(self._metrics_answers if self._arguments.preempting else 0).encode())
        elif (request.method, path) == ("GET", "/v1/models"):
            model = {"id": self._arguments.served_model_name, "object": "model", "created": 0, "owned_by": "fake"}
            write_response(writer, json.dumps({"object": "list", "data": [model]}).encode())
        elif (request.method, path) == ("POST", "/v1/chat/completions"):
            await self._complete(json.loads(request.body), writer)
        else:
            write_response(writer, b'{"error": {"message": "Not Found", "code": 404}}', status="404 Not Found")

    async def _complete(self, order: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        count = order.get("max_completion_tokens") or order.get("max_tokens") or TOKEN_LIMIT
        prompt = sum(len(str(message.get("content", "")).split()) for message in order["messages"])
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        began = time.monotonic()
        if order.get("stream"):
            await self._stream(order, usage, writer)
            return
        text = "".join([piece async for piece in self._tokens(count)])
        metrics = self._metrics(began, began + self._arguments.ttft, count)
        choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": text}}
        body = self._chunk(kind="chat.completion", choices=[choice], usage=usage, **metrics)
        write_response(writer, json.dumps(body).encode())

    async def _stream(self, order: dict[str, Any], usage: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        began, first_at = time.monotonic(), 0.0
        write_event(writer, self._chunk(choices=[self._choice({"role": "assistant", "content": ""})]))
        async for piece in self._tokens(usage["completion_tokens"]):
            first_at = first_at or time.monotonic()
            write_event(writer, self._chunk(choices=[self._choice({"content": piece})]))
            await writer.drain()
        write_event(writer, self._chunk(choices=[self._choice({}, finish_reason="length")]))
        if (order.get("stream_options") or {}).get("include_usage"):
            metrics = self._metrics(began, first_at, usage["completion_tokens"])
            write_event(writer, self._chunk(choices=[], usage=usage, **metrics))
        write_chunk(writer, b"data: [DONE]\n\n")
        write_chunk(writer, b"")

    async def _tokens(self, count: int) -> AsyncIterator[str]:
        """Tokens on a schedule: a late one does not delay those after it."""
        due = time.monotonic() + self._arguments.ttft
        for index in range(count):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += self._arguments.gap
            if self._arguments.die_after_tokens is not None and self._tokens_sent >= self._arguments.die_after_tokens:
                os.kill(os.getpid(), signal.SIGKILL)
            self._tokens_sent += 1
            yield token(index)

    def _metrics(self, began: float, first_at: float, count: int) -> dict[str, Any]:
        if not self._arguments.enable_per_request_metrics:
            return {}
        now = time.monotonic()
        return {
            "metrics": {
                "time_to_first_token_ms": (first_at - began) * 1000,
                "generation_time_ms": (now - first_at) * 1000,
                "queue_time_ms": 0.1,
                "mean_itl_ms": (now - first_at) * 1000 / max(1, count - 1),
                "tokens_per_second": count / max(1e-6, now - began),
            }
        }

    def _choice(self, delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "finish_reason": finish_reason}

    def _chunk(self, *, kind: str = "chat.completion.chunk", **fields: Any) -> dict[str, Any]:
        return {
            "id": "chatcmpl-fake",
            "object": kind,
            "created": 0,
            "model": self._arguments.served_model_name,
            **fields,
        }


def metrics_text(preemptions: int) -> str:
    """As /metrics of vLLM writes it; with preemptions the cache is full and requests wait."""
    waiting, use = (3, 0.99) if preemptions else (0, 0.1)
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0"} 1.0\n'
        "# TYPE vllm:num_requests_waiting gauge\n"
        f'vllm:num_requests_waiting{{engine="0"}} {waiting}.0\n'
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f'vllm:kv_cache_usage_perc{{engine="0"}} {use}\n'
        "# TYPE vllm:num_preemptions counter\n"
        f'vllm:num_preemptions_total{{engine="0"}} {preemptions}.0\n'
    )


def start_up_lines(model: str) -> tuple[str, ...]:
    """vLLM's first words, as far as the weights."""
    return (
        f"INFO 12-01 08:00:00 [utils.py:1] non-default args: {{'model': '{model}'}}",
        "INFO 12-01 08:00:00 [model.py:1] Resolved architecture: LlamaForCausalLM",
        "INFO 12-01 08:00:00 [model.py:2] Using max model len 2048",
        "(EngineCore pid=1) INFO 12-01 08:00:00 [core.py:1] Initializing a V1 LLM engine (v0.32.0)",
        "(Worker pid=2) INFO 12-01 08:00:00 [parallel_state.py:1] world_size=1 rank=0",
        f"\x1b[0;36m(Worker pid=2)\x1b[0;0m INFO 12-01 08:00:00 [runner.py:1] Starting to load model {model}...",
    )


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    length = min(int(headers.get("content-length", "0")), REQUEST_BYTES)
    return Request(method, path, await reader.readexactly(length))


def write_response(writer: asyncio.StreamWriter, body: bytes, *, status: str = "200 OK") -> None:
    """A whole answer; the connection stays open."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def write_event(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
    """One server-sent event."""
    write_chunk(writer, b"data: " + json.dumps(data).encode() + b"\n\n")


def write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    """One HTTP chunk; an empty one ends the answer."""
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def say(line: str) -> None:
    """One line of log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def spawn_workers(count: int, *, holds_memory: bool) -> list[int]:
    """Children that outlive a killed parent, as vLLM's do; the last one leaves group and session."""
    workers = []
    for index in range(count):
        pid = os.fork()
        if pid == 0:
            if index == count - 1:
                os.setsid()
            held = leave_shared_memory() if holds_memory else None
            while held is None or not held.closed:
                signal.pause()
        workers.append(pid)
    return workers


def leave_shared_memory() -> mmap.mmap:
    """A mapped psm_ file and a semaphore file that nobody will unlink."""
    Path(f"/dev/shm/sem.mp-{secrets.token_hex(4)}").write_bytes(b"\0" * 32)
    descriptor = os.open(f"/dev/shm/psm_{secrets.token_hex(4)}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.ftruncate(descriptor, mmap.PAGESIZE)
    return mmap.mmap(descriptor, mmap.PAGESIZE)


def main() -> None:
    """Run until ended."""
    arguments = parse_arguments(sys.argv[1:])
    if arguments.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # before the fork: workers inherit it
    workers = spawn_workers(arguments.workers, holds_memory=arguments.shm)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = leave_shared_memory() if arguments.shm else None
    asyncio.run(FakeEngine(arguments, workers).run())
    del held


if __name__ == "__main__":
    main()
