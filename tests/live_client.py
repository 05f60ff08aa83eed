"""A page without a browser: opens the panel as one does, holds its WebSocket, and presses Send."""

import asyncio
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import websockets

T = TypeVar("T")


class LiveClient:
    """One tab. Use it as an async context manager."""

    def __init__(self, address: str, *, cookies: dict[str, str] | None = None) -> None:
        self._address = address
        self._http = httpx.AsyncClient(base_url=address, timeout=30, trust_env=False, cookies=cookies)
        self._socket: websockets.ClientConnection | None = None
        self.frames: list[dict[str, Any]] = []

    @property
    def cookies(self) -> dict[str, str]:
        """What makes another client the same browser."""
        return dict(self._http.cookies)

    async def __aenter__(self) -> Self:
        response = await self._http.get("/")
        response.raise_for_status()
        self._socket = await self.connect()
        return self

    async def connect(self, *, origin: str | None = None) -> websockets.ClientConnection:
        """Open the WebSocket as a page of `origin` would; our own when None."""
        cookie = "; ".join(f"{name}={value}" for name, value in self._http.cookies.items())
        return await websockets.connect(
            self._address.replace("http", "ws", 1) + "live",
            origin=websockets.Origin(origin or self._address.rstrip("/")),
            additional_headers={"Cookie": cookie},
            max_size=16 * 1024 * 1024,
            proxy=None,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            await self._socket.close()
        await self._http.aclose()

    async def press_send(self, words: str) -> None:
        """What the Send button does."""
        await self.tell({"do": "chat.send", "text": words})

    async def tell(self, message: dict[str, Any]) -> None:
        """Send an action or a wish over the WebSocket."""
        assert self._socket is not None
        await self._socket.send(json.dumps(message))

    async def next_frames(self, *, timeout_s: float = 15.0) -> list[dict[str, Any]]:
        """The next push, kept in `frames` too."""
        assert self._socket is not None
        async with asyncio.timeout(timeout_s):
            frames: list[dict[str, Any]] = json.loads(await self._socket.recv())
        self.frames += frames
        return frames

    async def wait_for(self, condition: Any, *, timeout_s: float = 30.0) -> dict[str, Any]:
        """The first coming frame for which the condition holds."""
        async with asyncio.timeout(timeout_s):
            while True:
                for frame in await self.next_frames(timeout_s=timeout_s):
                    if condition(frame):
                        return frame


def in_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread with an event loop of its own: Playwright's synchronous page keeps the test's loop running."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()
