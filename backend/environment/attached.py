"""A server that somebody else runs: asked every few seconds what it serves, with its key, and never followed elsewhere."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
from pydantic import SecretStr

from backend.environment.views import AttachedServer, AttachedState, ServedModel
from backend.errors import SetupError

log = logging.getLogger(__name__)

POLL_S = 5.0
ANSWER_S = 5.0  # for all questions of one round together
MAX_ANSWER_BYTES = 1024 * 1024
MAX_MODELS = 100
NAME_CHARACTERS = 200
MAX_ADDRESS_CHARACTERS = 500
_PLAIN = {"Accept-Encoding": "identity"}  # a small compressed answer may unpack to gigabytes


class Unreachable(Exception):
    """Why a round of questions failed, in one sentence."""


def clean_address(text: str) -> str:
    """The address as it is kept: scheme, host, port and path, without a trailing /v1.

    Raises:
        SetupError: it is not an http or https URL, or carries a user, a password, a query or a fragment.
    """
    hint = "Such as http://192.168.1.20:8000"
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, ValueError) as err:
        raise SetupError("This address is not a URL.", hint=hint) from err
    if len(text) > MAX_ADDRESS_CHARACTERS or url.scheme not in ("http", "https") or not url.host:
        raise SetupError("An address begins with http:// or https:// and names a host.", hint=hint)
    if url.userinfo:
        raise SetupError("An address must not hold a user or a password.", hint="Give the API key in its own field.")
    if url.query or url.fragment:
        raise SetupError("An address must not hold a query or a fragment.", hint=hint)
    return str(url).rstrip("/").removesuffix("/v1").rstrip("/")


def clean_key(text: str) -> SecretStr | None:
    """The API key as it goes into a header; None where there is none.

    Raises:
        SetupError: it holds what a header cannot.
    """
    key = text.strip()
    if len(key) > MAX_ADDRESS_CHARACTERS or not all("!" <= character <= "~" for character in key):
        raise SetupError("An API key has letters, digits and signs only, no spaces, and at most 500 of them.")
    return SecretStr(key) if key else None


class AttachedPoller:
    """Asks one server; the last answer is read, never awaited."""

    def __init__(
        self,
        environment: str,
        address: str,
        *,
        key: SecretStr | None,
        on_change: Callable[[], None],
        poll_s: float = POLL_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._server = AttachedServer(environment, address, AttachedState.CHECKING)
        self._key = key
        self._on_change = on_change
        self._poll_s = poll_s
        self._answer_s = answer_s
        self._client: httpx.AsyncClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._round = asyncio.Lock()

    @property
    def server(self) -> AttachedServer:
        """As it last answered."""
        return self._server

    @property
    def key(self) -> SecretStr | None:
        """Its API key."""
        return self._key

    def start(self) -> None:
        """Begin to ask. Needs a running loop."""
        key = self._key
        self._client = httpx.AsyncClient(
            base_url=self._server.address,
            headers={**_PLAIN, **({} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"})},
            timeout=self._answer_s,
            follow_redirects=False,  # the key must not go where a redirect points
            trust_env=False,
        )
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._client is not None:
            await self._client.aclose()

    async def ask(self) -> AttachedServer:
        """One round of questions now."""
        async with self._round:
            before, now = self._server, time.time()
            try:
                async with asyncio.timeout(self._answer_s):
                    models, version = await self._models(), await self._version()
                    await self._check_health()
                after = replace(before, state=AttachedState.READY, models=models, version=version, reason="")
            except TimeoutError:
                after = self._unreachable(f"It did not answer within {self._answer_s:.0f} s.")
            except Unreachable as err:
                after = self._unreachable(str(err))
            since = before.since if after.state is before.state else now
            self._server = replace(after, since=since, checked_at=now)
        if replace(self._server, checked_at=before.checked_at) != before:
            self._on_change()
        return self._server

    async def _run(self) -> None:
        while True:
            await self.ask()
            await asyncio.sleep(self._poll_s)

    def _unreachable(self, reason: str) -> AttachedServer:
        return replace(self._server, state=AttachedState.UNREACHABLE, models=(), version=None, reason=reason)

    async def _models(self) -> tuple[ServedModel, ...]:
        status, body = await self._get("/v1/models")
        if status in (401, 403):
            raise Unreachable(
                "It wants an API key." if self._key is None else f"It refuses the API key (HTTP {status})."
            )
        if 300 <= status < 400:
            raise Unreachable(f"It redirects elsewhere (HTTP {status}); redirects are not followed.")
        if status != 200:
            raise Unreachable(f"It answers /v1/models with HTTP {status}.")
        models = read_models(body)
        if models is None:
            raise Unreachable("It answers /v1/models with something that is not a list of models.")
        return models

    async def _version(self) -> str | None:
        """vLLM's version; other servers have no such page."""
        status, body = await self._get("/version")
        if status != 200:
            return None
        try:
            version = json.loads(body)["version"]
        except (ValueError, TypeError, KeyError):
            return None
        return version[:NAME_CHARACTERS] if isinstance(version, str) else None

    async def _check_health(self) -> None:
        """vLLM lists its models while its engine is dead; only this page tells. Other servers may not have it."""
        status, _ = await self._get("/health")
        if status >= 500:
            raise Unreachable(f"Its engine does not work: /health answers HTTP {status}.")

    async def _get(self, path: str) -> tuple[int, bytes]:
        if self._client is None:
            raise RuntimeError("ask() before start()")
        try:
            async with self._client.stream("GET", path) as response:
                body = b""
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise Unreachable(f"Its answer to {path} is larger than 1 MiB.")
                return response.status_code, body
        except httpx.TimeoutException as err:
            raise Unreachable(f"It did not answer within {self._answer_s:.0f} s.") from err
        except httpx.ConnectError as err:
            raise Unreachable(f"Nothing answers there: {_words(err)}.") from err
        except httpx.HTTPError as err:
            raise Unreachable(f"It does not speak HTTP as it should: {_words(err)}.") from err


def read_models(body: bytes) -> tuple[ServedModel, ...] | None:
    """The models of an answer to /v1/models; None where it is none."""
    try:
        entries = json.loads(body)["data"]
        return tuple(_model(entry) for entry in entries[:MAX_MODELS])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _model(entry: Any) -> ServedModel:
    length = entry.get("max_model_len") if isinstance(entry, dict) else None
    is_length = isinstance(length, int) and not isinstance(length, bool) and length > 0
    return ServedModel(id=str(entry["id"])[:NAME_CHARACTERS], max_model_len=length if is_length else None)


def _words(err: Exception) -> str:
    return (str(err) or type(err).__name__)[:NAME_CHARACTERS].rstrip(".")
