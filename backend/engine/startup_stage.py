"""How far a start has come, read from vLLM's own log lines. Pure: a line in, the progress out; never backwards."""

import re

from backend.engine.status import Stage, StageProgress

_ORDER = tuple(Stage)

_SIGNS: tuple[tuple[Stage, re.Pattern[str]], ...] = tuple(
    (stage, re.compile("|".join(signs)))
    for stage, signs in (
        (
            Stage.WARM_UP,  # in compiled mode this begins before the KV cache is sized, whose lines then change nothing
            (
                r"Warming up model|torch\.compile takes|Compiling a graph|Capturing CUDA graph|Graph capturing finished",
                r"init engine \(|Supported tasks:|Starting vLLM (?:API )?server|Application startup complete",
            ),
        ),
        (
            Stage.KV_CACHE,
            (r"[CG]PU KV cache size|Available KV cache memory", r"(?:Explicitly|Auto) set \(|GiB for KV cache"),
        ),
        (
            Stage.WEIGHTS,
            (r"Starting to load model|Loading \w+ checkpoint shards", r"Loading weights took|Model loading took"),
        ),
    )
)
_PERCENT = re.compile(r"(?:checkpoint shards|CUDA graphs?[^:]*):\s+(\d{1,3})%")


def advance(progress: StageProgress, line: str) -> StageProgress:
    """The progress after one more log line. Any line at all shows that the process has begun to import."""
    stage = next((stage for stage, pattern in _SIGNS if pattern.search(line)), Stage.IMPORTS)
    if _ORDER.index(stage) < _ORDER.index(progress.stage):
        return progress
    percent = _percent(line)
    if stage is not progress.stage:
        return StageProgress(stage, percent)
    if percent is None or (progress.percent is not None and percent < progress.percent):
        return progress
    return StageProgress(stage, percent)


def _percent(line: str) -> int | None:
    match = _PERCENT.search(line)
    return min(int(match.group(1)), 100) if match else None
