"""Conversations and their messages in SQLite. Every read and write names the owner: nobody sees another's chat."""

import sqlite3
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from backend.chat.request_timing import RequestTiming
from backend.database import Database
from backend.errors import PanelError
from backend.state_folder import new_id

MESSAGES_READ = 1_000
CHARS_READ = 20_000_000


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
    max_tokens: int | None = 512  # None: as many as the context leaves room for
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


@dataclass(frozen=True)
class History:
    """The newest messages of a conversation, oldest first."""

    messages: tuple[Message, ...]
    has_earlier: bool  # older ones exist and were left out: a bound on what is read at once


class ChatStore:
    """Reads and writes conversations, always of one owner."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_conversation(self, owner: str) -> Conversation:
        """The owner's newest conversation; a new one where there is none."""
        fresh = Conversation(new_id(), owner, ChatSettings(), time.time())
        return await self._database.run(lambda connection: _find(connection, owner) or _create(connection, fresh))

    async def history(self, conversation: Conversation) -> History:
        """The newest messages, at most MESSAGES_READ of them and about CHARS_READ characters."""
        return await self._database.run(lambda connection: _history(connection, conversation))

    async def add(self, conversation: Conversation, *messages: Message) -> None:
        """Append messages, all or none."""
        await self._database.run(lambda connection: _add(connection, conversation, messages))

    async def save(self, conversation: Conversation, message: Message) -> None:
        """Bring a stored message up to date; nothing happens where it was deleted."""
        await self._database.run(lambda connection: _save(connection, conversation, message))

    async def save_settings(self, conversation: Conversation, settings: ChatSettings) -> None:
        """Replace the conversation's settings."""
        await self._database.run(lambda connection: _save_settings(connection, conversation, settings))

    async def clear(self, conversation: Conversation) -> None:
        """Delete the messages for good: overwritten in the file, gone from its write-ahead log."""
        await self._database.run(lambda connection: _clear(connection, conversation))
        await self._database.empty_log()

    async def forget_unused(self, older_than_s: float) -> int:
        """Delete conversations in which nothing was ever written or set: passing browsers leave one each."""
        before = time.time() - older_than_s
        return await self._database.run(lambda connection: _forget_unused(connection, before))

    async def interrupt_streaming(self) -> int:
        """Mark every answer that is still STREAMING as INTERRUPTED: nobody writes them any more. Returns how many."""
        return await self._database.run(_interrupt_streaming)


_OWNED = "EXISTS (SELECT 1 FROM conversations WHERE id = ? AND owner = ?)"


def _identity(conversation: Conversation) -> tuple[str, str]:
    """The parameters of _OWNED."""
    return conversation.id, conversation.owner


def _find(connection: sqlite3.Connection, owner: str) -> Conversation | None:
    row = connection.execute(
        "SELECT id, owner, system_prompt, temperature, max_tokens, engine_id, created_at FROM conversations"
        " WHERE owner = ? ORDER BY created_at DESC, rowid DESC LIMIT 1",
        (owner,),
    ).fetchone()
    return None if row is None else Conversation(row[0], row[1], ChatSettings(*row[2:6]), row[6])


def _create(connection: sqlite3.Connection, conversation: Conversation) -> Conversation:
    settings = conversation.settings
    connection.execute(
        "INSERT INTO conversations (id, owner, system_prompt, temperature, max_tokens, engine_id, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            conversation.id,
            conversation.owner,
            settings.system_prompt,
            settings.temperature,
            settings.max_tokens,
            settings.engine_id,
            conversation.created_at,
        ),
    )
    return conversation


def _history(connection: sqlite3.Connection, conversation: Conversation) -> History:
    rows = connection.execute(
        f"SELECT {', '.join(_MESSAGE_COLUMNS)} FROM messages"
        f" WHERE conversation_id = ? AND {_OWNED} ORDER BY number DESC",
        (conversation.id, *_identity(conversation)),
    )
    newest_first: list[Message] = []
    chars = 0
    for row in rows:
        message = _message(row)
        chars += len(message.text) + len(message.reasoning)
        if newest_first and (len(newest_first) == MESSAGES_READ or chars > CHARS_READ):
            return History(tuple(reversed(newest_first)), has_earlier=True)
        newest_first.append(message)
    return History(tuple(reversed(newest_first)), has_earlier=False)


def _add(connection: sqlite3.Connection, conversation: Conversation, messages: tuple[Message, ...]) -> None:
    owned = connection.execute(f"SELECT 1 WHERE {_OWNED}", _identity(conversation)).fetchone()
    if owned is None:
        raise PanelError("This conversation does not exist any more.", hint="Reload the page.")
    columns = ("conversation_id", *_MESSAGE_COLUMNS)
    statement = f"INSERT INTO messages ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    connection.executemany(statement, [(conversation.id, *_row(message)) for message in messages])


def _save(connection: sqlite3.Connection, conversation: Conversation, message: Message) -> None:
    assignments = ", ".join(f"{name} = ?" for name in _MESSAGE_COLUMNS)
    statement = f"UPDATE messages SET {assignments} WHERE id = ? AND conversation_id = ? AND {_OWNED}"
    connection.execute(statement, (*_row(message), message.id, conversation.id, *_identity(conversation)))


def _save_settings(connection: sqlite3.Connection, conversation: Conversation, settings: ChatSettings) -> None:
    connection.execute(
        "UPDATE conversations SET system_prompt = ?, temperature = ?, max_tokens = ?, engine_id = ?"
        " WHERE id = ? AND owner = ?",
        (
            settings.system_prompt,
            settings.temperature,
            settings.max_tokens,
            settings.engine_id,
            conversation.id,
            conversation.owner,
        ),
    )


def _clear(connection: sqlite3.Connection, conversation: Conversation) -> None:
    connection.execute(
        f"DELETE FROM messages WHERE conversation_id = ? AND {_OWNED}",
        (conversation.id, *_identity(conversation)),
    )


def _interrupt_streaming(connection: sqlite3.Connection) -> int:
    statement = "UPDATE messages SET state = ? WHERE state = 'streaming'"  # spelt out: only so is the index used
    return connection.execute(statement, (RunState.INTERRUPTED,)).rowcount


def _forget_unused(connection: sqlite3.Connection, before: float) -> int:
    statement = (
        "DELETE FROM conversations WHERE created_at < ? AND system_prompt = ''"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation_id = conversations.id)"
    )
    return connection.execute(statement, (before,)).rowcount


_MESSAGE_COLUMNS = (
    "id",
    "role",
    "text",
    "state",
    "created_at",
    "reasoning",
    "timing",
    "stop_reason",
    "error",
    "hint",
    "engine_title",
)
"""The columns of a message in the order of Message's fields."""


def _row(message: Message) -> tuple[str | float | None, ...]:
    timing = None if message.timing is None else message.timing.to_json()
    values = (getattr(message, name) for name in _MESSAGE_COLUMNS)
    return tuple(timing if name == "timing" else value for name, value in zip(_MESSAGE_COLUMNS, values, strict=True))


def _message(row: tuple[str, ...]) -> Message:
    fields: dict[str, Any] = dict(zip(_MESSAGE_COLUMNS, row, strict=True))
    fields["role"] = MessageRole(fields["role"])
    fields["state"] = RunState(fields["state"])
    fields["timing"] = None if fields["timing"] is None else RequestTiming.from_json(fields["timing"])
    return Message(**fields)
