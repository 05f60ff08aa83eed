"""Attached servers: a real one over HTTP, right and with every fault we could think of."""

import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from backend.environment.attached import AttachedPoller, clean_address, clean_key, read_models
from backend.environment.views import AttachedState, ServedModel
from backend.errors import SetupError
from tests.fakes.attached_server import AttachedFake


@contextlib.asynccontextmanager
async def polling(fake: AttachedFake, *, key: str = "", answer_s: float = 5.0) -> AsyncIterator[AttachedPoller]:
    poller = AttachedPoller(
        "addr2345", fake.url, key=clean_key(key), on_change=lambda: None, poll_s=3600.0, answer_s=answer_s
    )
    poller.start()
    try:
        yield poller
    finally:
        await poller.close()


async def test_server_that_answers_is_ready_with_its_models_and_version() -> None:
    async with AttachedFake(key="s3cret").running() as fake, polling(fake, key="s3cret") as poller:
        server = await poller.ask()
        assert server.state is AttachedState.READY
        assert server.models == (ServedModel("lab-model", 4096),)
        assert server.version == "0.19.1"
        since = server.since
        assert (await poller.ask()).since == since
        assert server.checked_at is not None and abs(time.time() - server.checked_at) < 60


@pytest.mark.parametrize(
    ("key", "reason"), [("", "It wants an API key."), ("wrong", "It refuses the API key (HTTP 401).")]
)
async def test_wrong_key_is_said_plainly(key: str, reason: str) -> None:
    async with AttachedFake(key="s3cret").running() as fake, polling(fake, key=key) as poller:
        server = await poller.ask()
        assert (server.state, server.reason) == (AttachedState.UNREACHABLE, reason)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang", "did not answer within"),
        ("garbage", "not a list of models"),
        ("other json", "not a list of models"),
        ("huge", "larger than 1 MiB"),
        ("redirect", "redirects are not followed"),
        ("500", "HTTP 500"),
        ("no http", "does not speak HTTP"),
        ("dead engine", "engine does not work"),
    ],
)
async def test_fault_of_a_server_is_its_reason(fault: str, reason: str) -> None:
    async with AttachedFake().running() as fake:
        fake.fault = fault
        async with polling(fake, answer_s=1.0) as poller:
            server = await poller.ask()
            assert server.state is AttachedState.UNREACHABLE
            assert reason in server.reason and len(server.reason) < 400
            assert server.models == ()
            fake.fault = ""
            assert (await poller.ask()).state is AttachedState.READY


async def test_key_does_not_go_where_a_redirect_points() -> None:
    async with AttachedFake().running() as fake, AttachedFake().running() as other:
        fake.fault = "redirect"
        async with polling(fake, key="s3cret") as poller:
            await poller.ask()
        assert other.requests == []


async def test_server_that_is_gone_and_comes_back_is_followed() -> None:
    fake = AttachedFake()
    async with fake.running(), polling(fake) as poller:
        assert (await poller.ask()).state is AttachedState.READY
    async with polling(fake) as poller:
        gone = await poller.ask()
        assert "Nothing answers there" in gone.reason
        async with fake.running():
            assert (await poller.ask()).state is AttachedState.READY


async def test_long_lists_and_names_are_cut() -> None:
    async with AttachedFake().running() as fake:
        fake.fault = "many"
        async with polling(fake) as poller:
            models = (await poller.ask()).models
    assert len(models) == 100
    assert all(len(model.id) == 200 for model in models)


async def test_server_without_a_version_is_ready_all_the_same() -> None:
    async with AttachedFake().running() as fake:
        fake.fault = "no version"
        async with polling(fake) as poller:
            server = await poller.ask()
    assert (server.state, server.version) == (AttachedState.READY, None)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000"),
        (" https://lab.example/v1/ ", "https://lab.example"),
        ("http://lab.example/gateway/v1", "http://lab.example/gateway"),
    ],
)
def test_address_is_kept_without_what_is_added_to_it(text: str, kept: str) -> None:
    assert clean_address(text) == kept


@pytest.mark.parametrize(
    "text",
    ["", "lab.example:8000", "ftp://lab.example", "file:///etc/passwd", "http://", "http://me:pw@lab.example",
     "http://me@lab.example", "http://lab.example/?key=1", "http://lab.example/#x", "http://[::1", "http://" + "a" * 600],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SetupError) as caught:
        clean_address(text)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("text", ["two words", "line\nbreak", "ключ", "x" * 600])
def test_what_cannot_go_into_a_header_is_no_key(text: str) -> None:
    with pytest.raises(SetupError):
        clean_key(text)


def test_empty_key_is_none() -> None:
    assert clean_key("  ") is None
    assert clean_key(" abc ") == SecretStr("abc")


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"null", b'{"data": 3}', b"[" * 100_000, b'{"data": [{}]}'])
def test_body_that_is_no_list_of_models_is_none(body: bytes) -> None:
    assert read_models(body) is None
