"""What one tab has seen of its conversation, and the frames that bring it up to date."""

from collections.abc import Sequence
from typing import Any

from backend.changes import Changes
from backend.chat.chats import ChatRun, ConversationView, Message, MessageRole, RunState
from backend.panel import Panel
from backend.viewer import Viewer
from ui.answer_markdown import AnswerMarkdown
from ui.render_chat import render_empty_chat, render_foot, render_message_frame, render_reasoning
from ui.strings import Language

Frame = dict[str, Any]


class ChatFeed:
    """Sends the conversation once, then only what grows. While an answer grows the database is not asked."""

    def __init__(self, panel: Panel, viewer: Viewer) -> None:
        self._panel = panel
        self._viewer = viewer
        self._changes: Changes | None = None  # of the conversation
        self._ids: tuple[str, ...] | None = None  # messages the tab has; None: nothing drawn yet
        self._language: Language | None = None  # they were drawn in
        self._finished: Message | None = None  # the last ended answer that was sent whole
        self._empty = ""
        self._growing: _Growing | None = None
        self._seen = -1
        self._panel_seen = -1

    def wake(self) -> None:
        """Look again at once, as after a change of language."""
        if self._changes is not None:
            self._changes.notify()

    async def wait(self, timeout_s: float) -> None:
        """Until something of this conversation changed; engines that come and go change only the empty chat."""
        if self._ids is None or self._changes is None:
            return
        if self._ids:
            await self._changes.wait(self._seen, timeout_s)
        else:
            self._panel_seen = await self._panel.changes.wait(self._panel_seen, timeout_s)

    async def frames(self, language: Language) -> list[Frame]:
        """All that changed since the last call."""
        if self._changes is not None:
            self._seen = self._changes.version
            if (
                self._growing is not None
                and self._language is language
                and self._growing.run.state is RunState.STREAMING
            ):
                return [self._growing.frame(language)]
        view = await self._panel.chats.conversation(self._viewer)
        self._seen = view.version
        self._changes = self._panel.chats.changes_for(view.id)
        return self._catch_up(view, language)

    def _catch_up(self, view: ConversationView, language: Language) -> list[Frame]:
        ids = tuple(message.id for message in view.messages)
        known = self._ids if self._language is language else None
        frames: list[Frame] = []
        states = [engine.status.state for engine in self._panel.fleet.engines.values()]
        empty = render_empty_chat(states, language)
        finished = self._finish(view, language)
        if known is not None and ids[: len(known)] == known and (known or not ids) and (ids or empty == self._empty):
            frames += finished
            if len(ids) > len(known):
                frames.append(_messages("append", view.messages[len(known) :], view, language))
        else:
            frames.append({**_messages("chat", view.messages, view, language), "empty": empty})
        self._ids, self._empty, self._language = ids, empty, language
        run = self._panel.chats.live_run(view.id)
        if run is not None and (self._growing is None or self._growing.run is not run):
            self._growing = _Growing(run, language)
        return frames

    def _finish(self, view: ConversationView, language: Language) -> list[Frame]:
        """The last frame of an answer that has ended."""
        growing = self._growing
        if growing is None or growing.run.state is RunState.STREAMING:
            return []
        self._growing = None
        ended = next((message for message in view.messages if message.id == growing.run.id), None)
        if ended is None or ended == self._finished:
            return []
        self._finished = ended
        return [{"type": "grow", **_answer(ended, language), "from": 0, "answering": view.is_answering}]


class _Growing:
    """One answer in the making and how much of it the tab has."""

    def __init__(self, run: ChatRun, language: Language) -> None:
        self.run = run
        self._language = language
        self._markdown = AnswerMarkdown(language)
        self._reasoning = ""

    def frame(self, language: Language) -> Frame:
        if language is not self._language:
            self._language, self._markdown = language, AnswerMarkdown(language)
        message = self.run.message()
        first = self._markdown.grow(message.text)
        blocks = list(self._markdown.blocks)
        if message.reasoning:
            blocks.insert(0, render_reasoning(message.reasoning, language))
            first = 0 if message.reasoning != self._reasoning else first + 1
            self._reasoning = message.reasoning
        foot = render_foot(message, language)
        return {
            "type": "grow",
            "id": message.id,
            "from": first,
            "blocks": blocks[first:],
            "foot": foot,
            "answering": True,
        }


def _messages(kind: str, messages: Sequence[Message], view: ConversationView, language: Language) -> Frame:
    return {
        "type": kind,
        "messages": [_message(message, language) for message in messages],
        "answering": view.is_answering,
    }


def _message(message: Message, language: Language) -> Frame:
    frame = {"id": message.id, "role": message.role.value, "html": render_message_frame(message, language)}
    return frame if message.role is MessageRole.USER else {**frame, **_answer(message, language)}


def _answer(message: Message, language: Language) -> Frame:
    markdown = AnswerMarkdown(language)
    markdown.grow(message.text)
    blocks = list(markdown.blocks)
    if message.reasoning:
        blocks.insert(0, render_reasoning(message.reasoning, language))
    return {"id": message.id, "blocks": blocks, "foot": render_foot(message, language)}
