"""The probe against a real server: it answers, fails, hangs, and comes back."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from backend.engine.health_probe import HealthProbe
from tests.fakes.fake_specs import eventually


class Server:
    """Answers every request as told."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        self.hangs = False
        self.questions = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server.close_clients() if hasattr(self._server, "close_clients") else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.questions += 1
                if self.hangs:
                    await asyncio.sleep(30)
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
async def server(free_port: Callable[[], int]) -> AsyncIterator[Server]:
    server = Server(free_port())
    yield server
    await server.close()


@pytest.fixture
async def probe(server: Server) -> AsyncIterator[HealthProbe]:
    probe = HealthProbe(f"http://127.0.0.1:{server.port}/health", timeout_s=0.5)
    yield probe
    await probe.close()


async def test_nothing_is_known_before_the_first_answer(probe: HealthProbe) -> None:
    assert probe.is_healthy is None
    assert probe.failures == 0


async def test_a_refused_connection_is_a_failure_and_an_answer_clears_it(server: Server, probe: HealthProbe) -> None:
    for count in (1, 2):
        probe.ask()
        await eventually(lambda count=count: probe.failures == count, what="a failed question")  # type: ignore[misc]
    assert probe.is_healthy is False
    await server.open()
    probe.ask()
    await eventually(lambda: probe.is_healthy is True, what="an answer")
    assert probe.failures == 0


async def test_any_status_but_200_is_a_failure(server: Server, probe: HealthProbe) -> None:
    server.answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    await server.open()
    probe.ask()
    await eventually(lambda: probe.failures == 1, what="a failed question")


async def test_an_answer_that_is_not_http_is_a_failure(server: Server, probe: HealthProbe) -> None:
    server.answer = b"SSH-2.0-OpenSSH_9\r\n\r\n"
    await server.open()
    probe.ask()
    await eventually(lambda: probe.failures == 1, what="a failed question")


async def test_a_hanging_server_is_a_failure_after_the_timeout_and_asked_once_at_a_time(
    server: Server, probe: HealthProbe
) -> None:
    server.hangs = True
    await server.open()
    for _ in range(5):
        probe.ask()
        await asyncio.sleep(0)
    await eventually(lambda: probe.failures == 1, what="the timeout")
    assert server.questions == 1


async def test_a_proxy_of_the_environment_is_not_asked(
    server: Server, probe: HealthProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    await server.open()
    probe.ask()
    await eventually(lambda: probe.is_healthy is True, what="an answer")
