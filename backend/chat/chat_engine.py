"""Engines as the chat sees them: who can answer, what is asked, and what comes back. Values only."""

from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr

from backend.chat.request_timing import EngineFigures
from backend.chat.store import MessageRole


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


@dataclass(frozen=True)
class Turn:
    """One message as an engine reads it."""

    role: MessageRole
    text: str


@dataclass(frozen=True)
class AnswerRequest:
    """What an engine is asked."""

    system_prompt: str
    turns: tuple[Turn, ...]
    temperature: float
    max_tokens: int | None


@dataclass(frozen=True)
class Usage:
    """Token counts and figures of the last chunk of a stream. None where the engine does not say."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    figures: EngineFigures | None = None


@dataclass(frozen=True)
class Piece:
    """What one chunk of a stream said."""

    text: str = ""
    reasoning: str = ""
    is_token: bool = False  # a token arrived with it, maybe one whose text is not complete yet
    finish_reason: str = ""
    usage: Usage | None = None
