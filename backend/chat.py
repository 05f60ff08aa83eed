"""Chats: takes a person's message, has an engine answer it in the background, and keeps every word."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from backend.changes import Changes
from backend.chat_engine import ChatEngine, EngineLookup
from backend.chat_run import ChatRun
from backend.chat_store import ChatSettings, ChatStore, Message, MessageRole, RunState
from backend.viewer import Viewer

__all__ = [
    "ChatEngine",
    "ChatLimits",
    "ChatRun",
    "ChatSettings",
    "Chats",
    "ConversationView",
    "EngineLookup",
    "Message",
    "MessageRole",
    "RunState",
]


@dataclass(frozen=True)
class ChatLimits:
    """The bounds of everything that could grow or hang."""

    question_chars: int = 200_000
    system_prompt_chars: int = 32_000
    answer_bytes: int = 2_000_000
    runs: int = 256  # answers at a time, of all people
    save_interval_s: float = 1.0  # a kill -9 loses at most this much of an unfinished answer
    connect_timeout_s: float = 5.0
    silence_timeout_s: float = 600.0  # longest wait for the first or the next chunk: long prompts take minutes on a CPU
    stop_timeout_s: float = 5.0


DEFAULT_LIMITS = ChatLimits()


@dataclass(frozen=True)
class ConversationView:
    """A conversation as a page draws it, the answer in the making included."""

    id: str
    settings: ChatSettings
    messages: tuple[Message, ...]  # oldest first; only the last can be STREAMING

    @property
    def is_answering(self) -> bool:
        """An answer is being written: Stop is offered, sending is not."""
        return bool(self.messages) and self.messages[-1].state is RunState.STREAMING


class Chats:
    """All conversations. A conversation belongs to a browser until accounts exist.

    `changes` is the panel's own and is told when an answer starts or ends; the words of an answer go to
    changes_for(conversation_id) alone.
    """

    def __init__(
        self,
        store: ChatStore,
        engine_lookup: EngineLookup,
        *,
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
        limits: ChatLimits = DEFAULT_LIMITS,
    ) -> None: ...

    async def open(self) -> None:
        """Mark answers that were being written when the panel died as INTERRUPTED."""

    async def close(self) -> None:
        """Interrupt the running answers, save them, and close the connections to engines."""

    @property
    def running(self) -> int:
        """How many answers are being written now."""
        raise NotImplementedError

    async def conversation(self, viewer: Viewer) -> ConversationView:
        """The viewer's conversation; a new one on the first visit."""
        raise NotImplementedError

    async def send(self, viewer: Viewer, text: str, *, settings: ChatSettings | None = None) -> ChatRun:
        """Store the message, start the answer in the background and return at once.

        `settings`, where given, become the conversation's. Raises ChatError (nothing is stored then) when the text is
        empty or too long, an answer is still being written, a setting is out of range or no engine is ready.
        """
        raise NotImplementedError

    async def stop(self, viewer: Viewer) -> None:
        """End the running answer, keep what arrived, and free the engine. Nothing to do where none runs."""

    async def clear(self, viewer: Viewer) -> None:
        """Really delete the messages, stopping a running answer first; the settings stay."""

    async def update_settings(self, viewer: Viewer, settings: ChatSettings) -> None:
        """Replace the conversation's settings. Raises ChatError naming the value and its range."""

    def live_run(self, conversation_id: str) -> ChatRun | None:
        """The answer being written there. Take the id from conversation(viewer), never from a page."""
        raise NotImplementedError

    def changes_for(self, conversation_id: str) -> Changes:
        """Told on each chunk, state and setting of this conversation. Keep the object while waiting on it."""
        raise NotImplementedError
