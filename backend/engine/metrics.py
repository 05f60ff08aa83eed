"""What a ready engine says of itself at /metrics: scraped in the background, read by the names old and new vLLM use."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx

SCRAPE_DEADLINE_S = 2.0
MOST_BYTES = 1024 * 1024
MOST_REFUSALS = 3  # answers other than 200 until this run is not asked any more

_KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")  # the latter up to 0.10
_PREEMPTIONS = ("vllm:num_preemptions_total",)
_OFFLOADED = (  # two spellings of the same; 0.32 has both
    ("vllm:kv_offload_load_bytes_total", "vllm:kv_offload_store_bytes_total"),
    ("vllm:kv_offload_total_bytes_total",),
)
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_NAMES = (
    _RUNNING,
    f"{_WAITING}{{",
    f"{_WAITING} ",
    *_KV_USE,
    *_PREEMPTIONS,
    *(name for names in _OFFLOADED for name in names),
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MetricsSample:
    """One scrape. None: this engine does not tell. Sums over the engine's data-parallel ranks, `kv_use` the fullest."""

    taken_at: float  # on the clock of who asked
    running: int | None = None  # requests
    waiting: int | None = None
    kv_use: float | None = None  # 0 to 1
    preemptions: float | None = None  # since the engine started
    offloaded_bytes: float | None = None  # moved between cards and host memory since then


def parse_metrics(text: str, *, taken_at: float) -> MetricsSample:
    """Read the text of /metrics, which may be another program's. Raises ValueError where a line of ours is malformed."""
    from prometheus_client.parser import text_string_to_metric_families  # 30 ms that the first page must not wait for

    values: dict[str, list[float]] = {}
    own = "\n".join(line for line in text.splitlines() if line.startswith(_NAMES))  # of 600 lines: parsing is slow
    for family in text_string_to_metric_families(own + "\n"):
        for sample in family.samples:
            values.setdefault(sample.name, []).append(sample.value)
    totals = {name: sum(found) for name, found in values.items()}
    running, waiting = totals.get(_RUNNING), totals.get(_WAITING)
    offloaded = _offloaded_bytes(totals)
    return MetricsSample(
        taken_at,
        running=None if running is None else int(running),
        waiting=None if waiting is None else int(waiting),
        kv_use=max((use for name in _KV_USE for use in values.get(name, ())), default=None),
        preemptions=_first(totals.get(name) for name in _PREEMPTIONS),
        offloaded_bytes=offloaded,
    )


class MetricsProbe:
    """One scrape at a time; the last sample is read, never awaited. Needs a running event loop from ask() on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: httpx.AsyncClient | None = None
        self._scrape: asyncio.Task[None] | None = None
        self._sample: MetricsSample | None = None
        self._refusals = 0

    @property
    def latest(self) -> MetricsSample | None:
        """The last sample; None before the first and after a scrape that failed."""
        return self._sample

    @property
    def is_idle(self) -> bool:
        """Whether no scrape is under way."""
        return self._scrape is None or self._scrape.done()

    def ask(self, *, now: float) -> None:
        """Begin a scrape, unless one is under way or this engine has no metrics."""
        if self._refusals < MOST_REFUSALS and self.is_idle:
            self._scrape = asyncio.create_task(self._take(now))

    async def close(self) -> None:
        """Drop the scrape under way and the connection."""
        if self._scrape is not None:
            self._scrape.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._scrape
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _take(self, now: float) -> None:
        self._sample = None
        try:
            async with asyncio.timeout(SCRAPE_DEADLINE_S):
                text = await self._fetch()
            if text is not None:
                self._sample = await asyncio.to_thread(parse_metrics, text, taken_at=now)
        except (httpx.HTTPError, TimeoutError, ValueError) as err:
            log.debug("%s: %s", self._url, err)

    async def _fetch(self) -> str | None:
        """The whole answer; None when it is refused or too long."""
        if self._client is None:
            # as for /health: plain HTTP on this machine, no proxy and no certificates
            self._client = httpx.AsyncClient(trust_env=False, verify=False, timeout=SCRAPE_DEADLINE_S)
        async with self._client.stream("GET", self._url) as response:
            if response.status_code != httpx.codes.OK:
                self._refusals += 1
                return None
            self._refusals = 0
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    log.warning("%s answers more than %d bytes and is not read", self._url, MOST_BYTES)
                    return None
        return body.decode(errors="replace")


def _offloaded_bytes(totals: Mapping[str, float]) -> float | None:
    known = [[totals[name] for name in names if name in totals] for names in _OFFLOADED]
    return max((sum(found) for found in known if found), default=None)


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)
