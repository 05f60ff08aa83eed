"""Asks one engine's /health in the background, so that a hanging answer never delays the watching of its process."""

import asyncio
import contextlib

import httpx


class HealthProbe:
    """One question at a time; the last answer is read, never awaited. Needs a running event loop from ask() on."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None
        self._question: asyncio.Task[None] | None = None
        self._healthy: bool | None = None
        self._failures = 0

    @property
    def is_healthy(self) -> bool | None:
        """Whether the last answer was 200; None before the first one."""
        return self._healthy

    @property
    def failures(self) -> int:
        """Failed questions in a row."""
        return self._failures

    def ask(self) -> None:
        """Begin a question, unless one is still open."""
        if self._question is None or self._question.done():
            self._question = asyncio.create_task(self._answer())

    async def close(self) -> None:
        """Drop the open question and the connection. ask() may be used again."""
        if self._question is not None:
            self._question.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._question
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _answer(self) -> None:
        if self._client is None:
            # no proxy from the environment, and no certificate bundle to load: engines are plain HTTP on this machine
            self._client = httpx.AsyncClient(trust_env=False, verify=False, timeout=self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.get(self._url)
            self._healthy = response.status_code == httpx.codes.OK
        except (httpx.HTTPError, TimeoutError):
            self._healthy = False
        self._failures = 0 if self._healthy else self._failures + 1
