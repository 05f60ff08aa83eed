"""What one answer took, from the engine's own figures or from our clock: blank where unknown, never wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import TypeAdapter, ValidationError

_TINY = 1e-9  # no real duration is below it, in s or ms
_ABSURD = 1e12  # no real duration or token count reaches it
_CLOCK_TOLERANCE_S = 0.050  # beyond this an engine's figures contradict what we saw, and are not shown


class TimingSource(StrEnum):
    """Where ttft_s, tpot_s and the rates come from."""

    ENGINE = "engine"  # the engine's own clock, by its final usage chunk
    MEASURED = "measured"  # the panel's clock, at the arrival of chunks


@dataclass(frozen=True)
class EngineFigures:
    """vLLM's per-request figures (--enable-per-request-metrics). Each is None where the engine does not know it."""

    time_to_first_token_ms: float | None = None  # from scheduled to first token: vLLM leaves the queue out
    mean_itl_ms: float | None = None  # (last - first token) / (output tokens - 1)
    queue_time_ms: float | None = None  # from queued to scheduled
    generation_time_ms: float | None = None  # from first to last token

    @classmethod
    def from_metrics(cls, metrics: object) -> "EngineFigures | None":
        """Figures of the `metrics` object of a usage chunk; nonsense in it is dropped, None when nothing is left."""
        if not isinstance(metrics, Mapping):
            return None
        figures = cls(
            time_to_first_token_ms=_positive(metrics.get("time_to_first_token_ms")),
            mean_itl_ms=_positive(metrics.get("mean_itl_ms")),
            queue_time_ms=_not_negative(metrics.get("queue_time_ms")),
            generation_time_ms=_not_negative(metrics.get("generation_time_ms")),
        )
        return None if figures == cls() else figures


@dataclass(frozen=True)
class RequestTiming:
    """Times are time.monotonic seconds of the panel; token counts come from `usage`, never from counting chunks."""

    sent: float
    first_token: float | None = None
    last_token: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None  # part of the prompt that was found in the prefix cache
    output_tokens: int | None = None
    engine: EngineFigures | None = None

    @property
    def source(self) -> TimingSource:
        """ENGINE where the engine's figures are there and fit inside what we saw."""
        return TimingSource.MEASURED if self._engine_ttft_s is None else TimingSource.ENGINE

    @property
    def ttft_s(self) -> float | None:
        """From asking to the first token, the engine's queue included. None before the first token."""
        return self.measured_ttft_s if self._engine_ttft_s is None else self._engine_ttft_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first. None below two tokens, or where their number is unknown."""
        measured = self.measured_tpot_s
        if measured is None or self._engine_ttft_s is None or self.engine is None:
            return measured
        return measured if self.engine.mean_itl_ms is None else self.engine.mean_itl_ms / 1000

    @property
    def prefill_tok_per_s(self) -> float | None:
        """Prompt tokens really computed (not cached) a second, the queue left out. None where the cache is unknown."""
        prompt, cached, prefill_s = token_count(self.prompt_tokens), token_count(self.cached_tokens), self.ttft_s
        if self._engine_ttft_s is not None and self.engine is not None:
            prefill_s = _seconds(self.engine.time_to_first_token_ms)
        if prompt is None or cached is None or prefill_s is None or cached >= prompt:
            return None
        return (prompt - cached) / prefill_s

    @property
    def decode_tok_per_s(self) -> float | None:
        """Output tokens a second after the first: 1 / tpot_s."""
        return None if self.tpot_s is None else 1 / self.tpot_s

    @property
    def queue_s(self) -> float | None:
        """How long the request waited inside the engine. None where the engine does not say."""
        return None if self._engine_ttft_s is None or self.engine is None else _seconds(self.engine.queue_time_ms)

    @property
    def total_s(self) -> float | None:
        """From asking to the last token, by the panel's clock. None before the first token."""
        return None if self.last_token is None else _positive(self.last_token - self.sent)

    @property
    def measured_ttft_s(self) -> float | None:
        """ttft_s by the panel's clock."""
        return None if self.first_token is None else _positive(self.first_token - self.sent)

    @property
    def measured_tpot_s(self) -> float | None:
        """tpot_s by the panel's clock: (last - first) / (n - 1)."""
        tokens = token_count(self.output_tokens)
        if self.first_token is None or self.last_token is None or tokens is None or tokens < 2:
            return None
        return _positive((self.last_token - self.first_token) / (tokens - 1))

    @property
    def _engine_ttft_s(self) -> float | None:
        """Queue and prefill as the engine saw them; None where either is unknown or longer than our own wait."""
        measured = self.measured_ttft_s
        if self.engine is None or self.engine.queue_time_ms is None or measured is None:
            return None
        prefill_s, queue_s = _seconds(self.engine.time_to_first_token_ms), _seconds(self.engine.queue_time_ms)
        if prefill_s is None or queue_s is None or prefill_s + queue_s > measured + _CLOCK_TOLERANCE_S:
            return None
        return prefill_s + queue_s

    def to_json(self) -> str:
        """One JSON object; differences between the times keep their meaning after a restart, the times do not."""
        return _JSON.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "RequestTiming | None":
        """What to_json wrote; None for anything else, as a chat must open whatever a field holds."""
        try:
            return _JSON.validate_json(text)
        except ValidationError:
            return None


_JSON = TypeAdapter(RequestTiming)


def _positive(value: object) -> float | None:
    number = _not_negative(value)
    return number if number is not None and number >= _TINY else None


def _not_negative(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _ABSURD else None  # false for NaN and for infinity


def token_count(tokens: object) -> int | None:
    """A number of tokens as an engine reported it, None where that is nonsense."""
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < _ABSURD else None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
