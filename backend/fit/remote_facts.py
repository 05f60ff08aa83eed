"""A model's facts from a hub, before anything is downloaded: its config, its index and the headers of its shards, by Range.

`files` is the address that file names are put behind: of Hugging Face and its mirrors `{endpoint}/{repo}/resolve/{revision}`.
Only a few hundred KiB a shard are read, whatever the shard's size.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from backend.fit.facts_error import ModelFactsError
from backend.fit.model_facts import (
    CONFIG_FILE,
    INDEX_FILE,
    MOST_CONFIG_BYTES,
    MOST_INDEX_BYTES,
    SINGLE_FILE,
    ModelFacts,
    facts_from_config,
    parse_json_object,
    shards_of_index,
    with_tensors,
)
from backend.fit.safetensors_header import LENGTH_BYTES, TensorEntry, header_length, parse_header

MOST_SKIPPED_BYTES = 1024 * 1024  # read in vain where a hub gives whole files only
_BUSY = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RemoteLimits:
    """How much is asked for, how often, how long."""

    deadline_s: float = 60.0  # of everything together
    first_bytes: int = 256 * 1024  # holds the whole header of most shards, so that one request is enough
    most_config_bytes: int = MOST_CONFIG_BYTES
    most_index_bytes: int = MOST_INDEX_BYTES
    at_once: int = 4  # shards read at the same time
    tries: int = 3  # of a request that broke off or met a busy hub
    wait_s: float = 0.5  # before the second try; longer before the next


@dataclass(frozen=True)
class RemoteModel:
    """Where a model's files are."""

    files: str  # without a slash at its end
    headers: Mapping[str, str]  # such as a token; never sent to another host
    query: Mapping[str, str] | None = None  # ModelScope: file names go into FilePath instead
    file_key: str = ""  # "FilePath", where `query` is given


@dataclass(frozen=True)
class _Hub:
    """What every request of one reading needs."""

    client: httpx.AsyncClient
    model: RemoteModel
    limits: RemoteLimits


def hugging_face_model(endpoint: str, repo: str, *, revision: str = "main", token: str | None = None) -> RemoteModel:
    """A model of Hugging Face or a mirror of it."""
    address = f"{endpoint.rstrip('/')}/{quote(repo)}/resolve/{quote(revision, safe='')}"
    return RemoteModel(address, {"Authorization": f"Bearer {token}"} if token else {})


def modelscope_model(endpoint: str, repo: str, *, revision: str = "master", token: str | None = None) -> RemoteModel:
    """A model of ModelScope."""
    address = f"{endpoint.rstrip('/')}/api/v1/models/{quote(repo)}/repo"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return RemoteModel(address, headers, {"Revision": revision}, "FilePath")


async def read_remote_facts(
    client: httpx.AsyncClient, model: RemoteModel, *, limits: RemoteLimits | None = None
) -> ModelFacts:
    """The facts of a model on a hub. The client's own timeouts count for each request.

    Raises:
        ModelFactsError: a file is missing or broken, access is refused, or the hub did not answer in time.
    """
    hub = _Hub(client, model, limits or RemoteLimits())
    try:
        async with asyncio.timeout(hub.limits.deadline_s):
            return await _read(hub)
    except TimeoutError as err:
        raise ModelFactsError(
            f"{model.files} did not answer within {hub.limits.deadline_s:g} s.", hint="Try again, or another hub."
        ) from err


async def _read(hub: _Hub) -> ModelFacts:
    config = await _json(hub, CONFIG_FILE, most_bytes=hub.limits.most_config_bytes)
    if config is None:
        raise ModelFactsError(f"{hub.model.files} has no {CONFIG_FILE}.", hint="Is this the repository of a model?")
    facts = facts_from_config(config, file=_name(hub.model, CONFIG_FILE))
    index = await _json(hub, INDEX_FILE, most_bytes=hub.limits.most_index_bytes)
    if index is None:
        tensors = await _header(hub, SINGLE_FILE)
        return facts if tensors is None else with_tensors(facts, tensors)
    names = shards_of_index(index, file=_name(hub.model, INDEX_FILE))
    limit = asyncio.Semaphore(hub.limits.at_once)
    try:
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(_shard(hub, name, limit)) for name in names]
    except ExceptionGroup as errors:
        raise _first(errors) from errors
    return with_tensors(facts, (tensor for task in reading for tensor in task.result()))


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """The first refusal: the others were cancelled by it, or say the same."""
    found: Exception = errors
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


async def _shard(hub: _Hub, name: str, limit: asyncio.Semaphore) -> tuple[TensorEntry, ...]:
    async with limit:
        tensors = await _header(hub, name)
    if tensors is None:
        raise ModelFactsError(f"{_name(hub.model, name)} is missing, though the index names it.")
    return tensors


async def _header(hub: _Hub, name: str) -> tuple[TensorEntry, ...] | None:
    """The tensors of one file; None where there is no such file."""
    start = await _bytes(hub, name, first=0, count=hub.limits.first_bytes)
    if start is None:
        return None
    file = _name(hub.model, name)
    length = header_length(start, file=file)
    body = start[LENGTH_BYTES : LENGTH_BYTES + length]
    if len(body) < length:
        first = LENGTH_BYTES + len(body)
        rest = await _bytes(hub, name, first=first, count=length - len(body))
        body += rest or b""
    if len(body) < length:
        raise ModelFactsError(f"{file} is cut off inside its header.")
    return parse_header(body, file=file)


async def _json(hub: _Hub, name: str, *, most_bytes: int) -> Mapping[str, Any] | None:
    text = await _bytes(hub, name, first=None, count=most_bytes)
    return None if text is None else parse_json_object(text, file=_name(hub.model, name))


async def _bytes(hub: _Hub, name: str, *, first: int | None, count: int) -> bytes | None:
    """A part of a file, or all of it; None where there is no such file. What breaks off is asked for again."""
    for attempt in range(1, hub.limits.tries + 1):
        try:
            return await _once(hub, name, first=first, count=count)
        except (httpx.RequestError, httpx.InvalidURL, _HubBusy) as err:
            if attempt == hub.limits.tries:
                raise ModelFactsError(
                    f"{_name(hub.model, name)} could not be read: {err or type(err).__name__}.",
                    hint="Try again, or another hub.",
                ) from err
        await asyncio.sleep(hub.limits.wait_s * attempt)
    raise AssertionError("every attempt returns or raises")


class _HubBusy(Exception):
    """The hub asked to come back later."""


async def _once(hub: _Hub, name: str, *, first: int | None, count: int) -> bytes | None:
    headers = {**hub.model.headers, "Accept-Encoding": "identity"}  # the bytes as they lie in the file
    if first is not None:
        headers["Range"] = f"bytes={first}-{first + count - 1}"
    address, params = _address(hub.model, name)
    async with hub.client.stream("GET", address, headers=headers, params=params, follow_redirects=True) as answer:
        if answer.status_code == 404:
            return None
        _check(answer, hub.model, name)
        skip = first if first and answer.status_code == 200 else 0  # this hub ignores Range
        return await _collect(answer, _name(hub.model, name), skip=skip or 0, count=count, is_part=first is not None)


def _check(answer: httpx.Response, model: RemoteModel, name: str) -> None:
    status = answer.status_code
    if status in _BUSY:
        raise _HubBusy(f"answered {status}")
    if status in (401, 403):
        raise ModelFactsError(
            f"{_name(model, name)}: access is refused ({status}).",
            hint="Accept the model's licence on its page, and give an access token.",
        )
    if status not in (200, 206):
        raise ModelFactsError(f"{_name(model, name)} could not be read: the hub answered {status}.")


async def _collect(answer: httpx.Response, file: str, *, skip: int, count: int, is_part: bool) -> bytes:
    """Read no more than `skip + count` bytes, and give the last of them."""
    if skip > MOST_SKIPPED_BYTES:
        raise ModelFactsError(f"{file}: this hub gives no parts of files.")
    kept = bytearray()
    async for piece in answer.aiter_bytes(64 * 1024):
        kept += piece
        if len(kept) >= skip + count:
            if not is_part and len(kept) > count:
                raise ModelFactsError(f"{file} is longer than {count} bytes.")
            break
    return bytes(kept[skip : skip + count])


def _address(model: RemoteModel, name: str) -> tuple[str, Mapping[str, str] | None]:
    if model.query is None:
        return f"{model.files}/{quote(name)}", None
    return model.files, {**model.query, model.file_key: name}


def _name(model: RemoteModel, name: str) -> str:
    return f"{model.files}/{name}"
