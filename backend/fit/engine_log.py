"""An engine's own figures, read from its log: what its weights took, what it left for KV cache, the tokens that hold.

Every worker of a tensor-parallel engine logs its own; of several the one with least room counts.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from backend.fit.element import GIB

ROUNDING_BYTES = GIB // 200  # engines log GiB with two decimals
MOST_LINE = 4096  # characters of a line that are looked at
_HINTS = ("GiB", " GB", "token", "block")  # most lines have none of them
_NUMBER = r"(-?\d{1,12}(?:\.\d{1,6})?)"
_COUNT = r"([\d,]{1,20})"


@dataclass(frozen=True)
class EngineFigures:
    """What a start logged. None: it did not say. Sizes in bytes, as exact as the log's rounding."""

    weights_bytes: int | None = None  # of one card
    kv_bytes: int | None = None  # available for KV cache on one card
    kv_tokens: int | None = None  # "KV cache size: N tokens"
    context: int | None = None  # tokens a request, of the line about concurrency
    concurrency: float | None = None  # requests of that length at once
    graphs_bytes: int | None = None  # taken by CUDA graphs
    graphs_estimated_bytes: int | None = None  # set aside for them
    block_size: int | None = None  # tokens, where the engine changed it
    needed_bytes: int | None = None  # where it refused: KV cache that one request needs
    longest_context: int | None = None  # where it refused: what it thinks would fit
    free_bytes: int | None = None  # where it refused: free on the card at the start
    total_bytes: int | None = None  # of the card
    blocks: int | None = None  # of the pool, where it says

    @property
    def is_complete(self) -> bool:
        """True once the KV cache is planned: nothing of interest follows but CUDA graphs."""
        return self.kv_tokens is not None


def read_figures(lines: Iterable[str]) -> EngineFigures:
    """The figures in these lines of a log. Later lines of one start add to earlier ones."""
    figures = EngineFigures()
    for line in lines:
        figures = with_line(figures, line)
    return figures


def with_line(figures: EngineFigures, line: str) -> EngineFigures:
    """These figures and what one more line says."""
    text = line[:MOST_LINE]
    if not any(hint in text for hint in _HINTS):
        return figures
    for pattern, take in _LINES:
        found = pattern.search(text)
        if found is not None:
            figures = take(figures, found)
    return figures


def gib(text: str) -> int:
    """Bytes of a number of GiB as engines write it."""
    return round(float(text) * GIB)


def _count(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _least(known: int | None, seen: int) -> int:
    return seen if known is None else min(known, seen)


def _most(known: int | None, seen: int) -> int:
    return seen if known is None else max(known, seen)


def _weights(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, weights_bytes=_most(figures.weights_bytes, gib(found[1])))


def _kv_memory(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, kv_bytes=_least(figures.kv_bytes, gib(found[1])))


def _kv_tokens(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, kv_tokens=_least(figures.kv_tokens, _count(found[1])))


def _concurrency(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, context=_count(found[1]), concurrency=float(found[2]))


def _graphs(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, graphs_bytes=_most(figures.graphs_bytes, gib(found[1])))


def _graphs_estimated(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, graphs_estimated_bytes=_most(figures.graphs_estimated_bytes, gib(found[1])))


def _graph_pool(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(
        figures,
        graphs_bytes=_most(figures.graphs_bytes, gib(found[1])),
        graphs_estimated_bytes=_most(figures.graphs_estimated_bytes, gib(found[2])),
    )


def _block_size(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, block_size=_count(found[1]))


def _refused(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    """How much a request needs, and how much there is."""
    return replace(figures, needed_bytes=gib(found[2]), kv_bytes=gib(found[3]), context=_count(found[1]))


def _longest(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, longest_context=_count(found[1]))


def _free(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, free_bytes=_least(figures.free_bytes, gib(found[1])), total_bytes=gib(found[2]))


def _blocks(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    return replace(figures, blocks=_least(figures.blocks, _count(found[1])))


def _profile(figures: EngineFigures, found: re.Match[str]) -> EngineFigures:
    """One long line of older engines."""
    return replace(
        figures,
        total_bytes=gib(found[1]),
        weights_bytes=_most(figures.weights_bytes, gib(found[2])),
        kv_bytes=_least(figures.kv_bytes, gib(found[3])),
    )


_Take = Callable[[EngineFigures, re.Match[str]], EngineFigures]
_LINES: tuple[tuple[re.Pattern[str], _Take], ...] = (
    (re.compile(rf"(?:Model loading took|Loading model weights took) {_NUMBER} (?:GiB|GB)"), _weights),
    (re.compile(rf"Available KV cache memory: {_NUMBER} GiB"), _kv_memory),
    (re.compile(rf"(?:Explicitly|Auto) set \({_NUMBER}/[\d.]+\) GiB for KV cache"), _kv_memory),
    (re.compile(rf"reserved {_NUMBER} GiB memory for KV Cache as specified"), _kv_memory),
    (re.compile(rf"\b[A-Z][A-Z +a-z]{{1,15}} KV cache size: {_COUNT} tokens"), _kv_tokens),
    (re.compile(rf"Maximum concurrency for {_COUNT} tokens per request: {_NUMBER}x"), _concurrency),
    (re.compile(rf"Graph capturing finished in \d+ secs?, took {_NUMBER} GiB"), _graphs),
    (re.compile(rf"Estimated CUDA graph memory: {_NUMBER} GiB"), _graphs_estimated),
    (re.compile(rf"CUDA graph pool memory: {_NUMBER} GiB \(actual\), {_NUMBER} GiB \(estimated\)"), _graph_pool),
    (re.compile(rf"Setting attention block size to {_COUNT} tokens"), _block_size),
    (re.compile(rf"Setting kv cache block size to {_COUNT} for"), _block_size),
    (
        re.compile(
            rf"max seq len \({_COUNT}\), \(?{_NUMBER} GiB KV cache is needed, which is larger than the available "
            rf"KV cache memory \({_NUMBER} GiB"
        ),
        _refused,
    ),
    (re.compile(rf"estimated maximum model length is {_COUNT}"), _longest),
    (re.compile(rf"Free memory on device \S{{1,20}} ?\({_NUMBER}/{_NUMBER} GiB\)"), _free),
    (re.compile(rf"# (?:GPU|CPU|cuda|cpu) blocks: {_COUNT}"), _blocks),
    (
        re.compile(
            rf"total_gpu_memory \({_NUMBER}GiB\).{{1,80}}model weights take {_NUMBER}GiB.{{1,200}}"
            rf"reserved for KV Cache is {_NUMBER}GiB"
        ),
        _profile,
    ),
)
