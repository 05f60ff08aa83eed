"""Chats: takes a person's message, has an engine answer it in the background, and keeps every word."""

import asyncio
import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from backend.changes import Changes
from backend.chat.chat_engine import ChatEngine, EngineLookup
from backend.chat.rules import ChatLimits, answer_request, checked_settings, checked_text, choose_engine
from backend.chat.run import ChatRun
from backend.chat.store import ChatSettings, ChatStore, Conversation, Message, MessageRole, RunState
from backend.errors import ChatError, PanelError
from backend.state_folder import new_id
from backend.viewer import Role, Viewer, require

if TYPE_CHECKING:
    from backend.chat.engine_client import EngineClients

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

logger = logging.getLogger(__name__)

DEFAULT_LIMITS = ChatLimits()
UNUSED_AGE_S = 30 * 86_400
CONVERSATIONS_WATCHED = 4_096


@dataclass(frozen=True)
class ConversationView:
    """A conversation as a page draws it, the answer in the making included."""

    id: str
    settings: ChatSettings
    messages: tuple[Message, ...]  # oldest first; only the last can be STREAMING
    version: int  # of changes_for(id), from before the messages were read: waiting from it misses nothing
    has_earlier: bool = False  # older messages exist and are not read

    @property
    def is_answering(self) -> bool:
        """An answer is being written: Stop is offered, sending is not."""
        return bool(self.messages) and self.messages[-1].state is RunState.STREAMING


@dataclass(frozen=True)
class _Live:
    """A run and the two tasks behind it: one follows the stream, one saves and outlives it."""

    run: ChatRun
    engine: ChatEngine
    stream: asyncio.Task[None]
    keeper: asyncio.Task[None]


class Chats:
    """All conversations. A conversation belongs to a browser until accounts exist.

    `changes` is the panel's own and is told when an answer starts or ends; the words of an answer go to
    changes_for(conversation_id) alone. Belongs to one event loop.
    """

    def __init__(
        self,
        store: ChatStore,
        engine_lookup: EngineLookup,
        *,
        changes: Changes,
        clock: Callable[[], float] = time.monotonic,
        limits: ChatLimits = DEFAULT_LIMITS,
    ) -> None:
        self._store = store
        self._engine_lookup = engine_lookup
        self._changes = changes
        self._clock = clock
        self._limits = limits
        self._clients: asyncio.Task[EngineClients] | None = None  # from open() on
        self._live: dict[str, _Live] = {}  # by conversation; also ended runs that could not be saved
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._changes_by_conversation: dict[str, Changes] = {}  # the newest CONVERSATIONS_WATCHED
        self._starting = 0
        self._is_closing = False

    async def open(self) -> None:
        """Mark answers that were being written when the panel died as INTERRUPTED; what had arrived is kept."""
        interrupted = await self._store.interrupt_streaming()
        forgotten = await self._store.forget_unused(UNUSED_AGE_S)
        self._clients = asyncio.create_task(self._load_clients())
        logger.info("chats opened: %d answers interrupted, %d unused conversations removed", interrupted, forgotten)

    async def close(self) -> None:
        """Interrupt the running answers, save them, and close the connections to engines."""
        self._is_closing = True
        await self._end(*self._live.values(), state=RunState.INTERRUPTED)
        if self._clients is not None:
            await (await self._clients).close()

    @property
    def running(self) -> int:
        """How many answers are being written now."""
        return sum(live.run.state is RunState.STREAMING for live in self._live.values())

    async def conversation(self, viewer: Viewer) -> ConversationView:
        """The viewer's conversation; a new one on the first visit."""
        require(viewer, Role.MEMBER)
        conversation = await self._store.open_conversation(viewer.browser)
        version = self.changes_for(conversation.id).version
        run = self.live_run(conversation.id)  # taken before the read: a run that ends meanwhile still tells its end
        history = await self._store.history(conversation)
        messages = history.messages
        if run is not None:
            messages = tuple(run.message() if message.id == run.id else message for message in messages)
        return ConversationView(conversation.id, conversation.settings, messages, version, history.has_earlier)

    async def settings(self, viewer: Viewer) -> ChatSettings:
        """The settings of the viewer's conversation, without reading its messages."""
        require(viewer, Role.MEMBER)
        return (await self._store.open_conversation(viewer.browser)).settings

    async def send(self, viewer: Viewer, text: str, *, settings: ChatSettings | None = None) -> ChatRun:
        """Store the message, start the answer in the background and return at once.

        `settings`, where given, become the conversation's. Raises ChatError (nothing is stored then) when the text is
        empty or too long, an answer is still being written, a setting is out of range or no engine is ready.
        """
        require(viewer, Role.MEMBER)
        text = checked_text(text, self._limits)
        settings = None if settings is None else checked_settings(settings, self._limits)
        conversation = await self._store.open_conversation(viewer.browser)
        async with self._lock(conversation.id):
            self._check_free(conversation.id)
            conversation = replace(conversation, settings=settings or conversation.settings)
            ready = self._engine_lookup.ready()
            engine = choose_engine(ready, conversation.settings)
            if settings is not None:
                await self._store.save_settings(conversation, settings)
            self._starting += 1
            try:
                run = await self._start(conversation, text, engine)
            finally:
                self._starting -= 1
        await (await self._engine_clients()).keep_only({each.engine_id for each in ready})
        return run

    async def stop(self, viewer: Viewer) -> None:
        """End the running answer, keep what arrived, and free the engine. Nothing to do where none runs."""
        require(viewer, Role.MEMBER)
        conversation = await self._store.open_conversation(viewer.browser)
        await self._stop(conversation)

    async def end_answers(self, engine_id: str) -> None:
        """End the answers of an engine that is about to be stopped: it waits for its open streams before it exits."""
        lives = [live for live in self._live.values() if live.engine.engine_id == engine_id]
        await self._end(*lives, state=RunState.FAILED)

    async def clear(self, viewer: Viewer) -> None:
        """Really delete the messages, stopping a running answer first; the settings stay."""
        require(viewer, Role.MEMBER)
        conversation = await self._store.open_conversation(viewer.browser)
        async with self._lock(conversation.id):
            await self._stop(conversation)
            await self._store.clear(conversation)
            self._live.pop(conversation.id, None)
        self.changes_for(conversation.id).notify()

    async def update_settings(self, viewer: Viewer, settings: ChatSettings) -> None:
        """Replace the conversation's settings. Raises ChatError naming the value and its range."""
        require(viewer, Role.MEMBER)
        checked = checked_settings(settings, self._limits)
        conversation = await self._store.open_conversation(viewer.browser)
        await self._store.save_settings(conversation, checked)
        self.changes_for(conversation.id).notify()

    def live_run(self, conversation_id: str) -> ChatRun | None:
        """The answer being written there (or just ended and not saved yet: look at its state).

        Take the id from conversation(viewer), never from a page.
        """
        live = self._live.get(conversation_id)
        return None if live is None else live.run

    def changes_for(self, conversation_id: str) -> Changes:
        """Told on each chunk, state and setting of this conversation. Ask for it anew before each wait."""
        run = self.live_run(conversation_id)
        changes = self._changes_by_conversation.pop(conversation_id, None) if run is None else run.changes
        if changes is None:  # never a version that was seen before, as a forgotten conversation may come back
            changes = Changes(first_version=time.monotonic_ns())
        self._changes_by_conversation[conversation_id] = changes
        if len(self._changes_by_conversation) > CONVERSATIONS_WATCHED:
            del self._changes_by_conversation[next(iter(self._changes_by_conversation))]
        return changes

    def _lock(self, conversation_id: str) -> asyncio.Lock:
        """Sending and clearing take turns within a conversation: two tabs may do it at once."""
        return self._locks.setdefault(conversation_id, asyncio.Lock())

    def _check_free(self, conversation_id: str) -> None:
        if self._is_closing:
            raise ChatError("The panel is ending.", hint="Send it again when the panel is back.")
        run = self.live_run(conversation_id)
        if run is not None and run.state is RunState.STREAMING:
            raise ChatError("The last answer is still being written.", hint="Wait for its end, or stop it.")
        running = self.running + self._starting
        if running >= self._limits.runs:
            raise ChatError(f"{running} answers are being written already.", hint="Try again in a moment.")

    async def _load_clients(self) -> "EngineClients":
        """The clients, loaded off the loop after the start: openai takes 0.4 s, and the first page must not wait."""
        module = await asyncio.to_thread(importlib.import_module, "backend.chat.engine_client")
        clients: EngineClients = module.EngineClients(
            connect_timeout_s=self._limits.connect_timeout_s, silence_timeout_s=self._limits.silence_timeout_s
        )
        await clients.warm_up()
        return clients

    async def _engine_clients(self) -> "EngineClients":
        if self._clients is None:
            raise ChatError("The chats are not open.")
        return await asyncio.shield(self._clients)

    async def _start(self, conversation: Conversation, text: str, engine: ChatEngine) -> ChatRun:
        clients = await self._engine_clients()
        history = await self._store.history(conversation)
        request = answer_request(conversation.settings, history.messages, text)
        now = time.time()
        question = Message(new_id(), MessageRole.USER, text, RunState.DONE, now)
        answer = Message(new_id(), MessageRole.ASSISTANT, "", RunState.STREAMING, now, engine_title=engine.title)
        await self._store.add(conversation, question, answer)
        run = ChatRun(
            conversation,
            answer,
            changes=self.changes_for(conversation.id),
            clock=self._clock,
            max_bytes=self._limits.answer_bytes,
        )
        stream = asyncio.create_task(run.follow(clients.stream(engine, request)))
        keeper = asyncio.create_task(self._keep(run, engine, stream))
        self._live[conversation.id] = _Live(run, engine, stream, keeper)
        run.changes.notify()
        self._changes.notify()
        return run

    async def _keep(self, run: ChatRun, engine: ChatEngine, stream: asyncio.Task[None]) -> None:
        """Save what has arrived about once a second, and the whole at the end; leave an engine that is gone."""
        saved = run.message()
        while not stream.done():
            await asyncio.wait((stream,), timeout=self._limits.save_interval_s)
            message = run.message()
            if message != saved and not stream.done() and await self._save(run, message):
                saved = message
            if run.silent_s > self._limits.gone_timeout_s and engine not in self._engine_lookup.ready():
                # told to end, vLLM 0.32 may keep a stream open in silence for as long as the client does
                run.end(RunState.FAILED, ChatError(f"{engine.title} ended while answering.", hint="See its log."))
                stream.cancel()
        if stream.cancelled():
            run.end(RunState.INTERRUPTED)  # the event loop ends; a stopped run has its outcome already
        elif stream.exception() is not None:
            logger.error("answer %s: reading the stream failed", run.id, exc_info=stream.exception())
            run.end(RunState.FAILED, ChatError("The panel failed while reading the answer.", hint="See its log."))
        if await self._save(run, run.message()):
            self._live.pop(run.conversation_id, None)
        run.changes.notify()
        self._changes.notify()

    async def _save(self, run: ChatRun, message: Message) -> bool:
        try:
            await self._store.save(run.conversation, message)
        except PanelError as err:
            logger.warning("answer %s was not saved: %s", run.id, err)
            run.report_unsaved(ChatError(f"The answer is not saved: {err.message}", hint=err.hint))
            return False
        return True

    async def _stop(self, conversation: Conversation) -> None:
        live = self._live.get(conversation.id)
        if live is not None:
            await self._end(live, state=RunState.STOPPED)

    async def _end(self, *lives: _Live, state: RunState) -> None:
        """Give the runs their outcome, cancel their requests, and wait until they are saved."""
        for live in lives:
            live.run.end(state, ChatError(f"{live.engine.title} was stopped while answering."))
            live.stream.cancel()
        if lives:
            await asyncio.wait([live.keeper for live in lives], timeout=self._limits.end_timeout_s)
