"""Engines as the chat sees them, and the one place that speaks to them: the only importer of openai."""

from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr


@dataclass(frozen=True)
class ChatEngine:
    """One engine that is ready to answer."""

    engine_id: str
    title: str  # for people
    base_url: str  # without a trailing slash and without /v1
    served_model: str
    api_key: SecretStr | None = None
    max_model_len: int | None = None  # tokens
    reports_request_metrics: bool = False  # its final usage chunk carries `metrics`


class EngineLookup(Protocol):
    """Whatever knows the engines."""

    def ready(self) -> tuple[ChatEngine, ...]:
        """The engines that can answer now, in the order to offer them. Quick: called for every message."""
