"""Conversations and their messages in SQLite. Every read and write names the owner: nobody sees another's chat."""

from dataclasses import dataclass
from enum import StrEnum

from backend.database import Database
from backend.request_timing import RequestTiming


class MessageRole(StrEnum):
    """Who wrote a message."""

    USER = "user"
    ASSISTANT = "assistant"


class RunState(StrEnum):
    """How an answer stands. A user's message is DONE from the start."""

    STREAMING = "streaming"
    DONE = "done"  # the engine finished it; see stop_reason
    STOPPED = "stopped"  # by a person
    FAILED = "failed"  # see error and hint
    INTERRUPTED = "interrupted"  # the panel ended while it was being written; what had arrived is kept


@dataclass(frozen=True)
class ChatSettings:
    """What a person can set for a conversation. Checked by Chats, not here."""

    system_prompt: str = ""
    temperature: float = 0.7
    max_tokens: int | None = None  # None: as many as the context leaves room for
    engine_id: str | None = None  # None: the first ready engine


@dataclass(frozen=True)
class Message:
    """One message, as stored or as it grows. Text of an engine is untrusted: the page escapes it."""

    id: str
    role: MessageRole
    text: str
    state: RunState
    created_at: float  # time.time
    reasoning: str = ""  # what the model thought before answering, where the engine tells it apart
    timing: RequestTiming | None = None  # answers only; partly blank while streaming
    stop_reason: str = ""  # the engine's finish_reason: "stop", "length" (ran into the token limit), ""
    error: str = ""  # one plain sentence; "" unless FAILED or not saved
    hint: str = ""  # what to do about the error
    engine_title: str = ""  # who answered


@dataclass(frozen=True)
class Conversation:
    """One conversation without its messages."""

    id: str
    owner: str  # the browser's id until accounts exist
    settings: ChatSettings
    created_at: float


class ChatStore:
    """Reads and writes conversations, always of one owner."""

    def __init__(self, database: Database) -> None:
        self._database = database
