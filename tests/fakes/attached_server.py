"""A server that somebody else runs, as raw as sockets: it answers right, or with one of the faults."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

MODELS = {"object": "list", "data": [{"id": "lab-model", "object": "model", "max_model_len": 4096}]}


class AttachedFake:
    """One HTTP server on 127.0.0.1. `fault` may be changed while it runs."""

    def __init__(self, *, key: str = "") -> None:
        self.fault = ""
        self.key = key
        self.requests: list[str] = []  # "GET /v1/models HTTP/1.1\r\nHost: …", headers included
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["AttachedFake"]:
        """Listen until the end of the block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.requests.append(head)
                if self.fault == "hang":
                    await asyncio.sleep(30)
                if self.fault == "no http":
                    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
                    break
                await self._answer(writer, head.split(" ")[1], head)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: str, head: str) -> None:
        if self.key and f"authorization: bearer {self.key}".lower() not in head.lower() and path.startswith("/v1"):
            self._write(writer, 401, b'{"error": "Unauthorized"}')
        elif self.fault == "redirect":
            writer.write(
                b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
            )
        elif path == "/v1/models":
            self._write(writer, 500 if self.fault == "500" else 200, self._models())
        elif path == "/version":
            self._write(writer, 404 if self.fault == "no version" else 200, b'{"version": "0.19.1"}')
        elif path == "/health":
            self._write(writer, 503 if self.fault == "dead engine" else 200, b"")
        await writer.drain()

    def _models(self) -> bytes:
        if self.fault == "garbage":
            return b"<html>welcome to nginx</html>"
        if self.fault == "other json":
            return b'{"data": [["no", "model"]]}'
        if self.fault == "huge":
            return b'{"data": ["' + b"x" * 3_000_000 + b'"]}'
        if self.fault == "many":
            return json.dumps({"data": [{"id": f"m{number}" + "x" * 500} for number in range(500)]}).encode()
        return json.dumps(MODELS).encode()

    @staticmethod
    def _write(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
