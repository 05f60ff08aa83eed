"""One answer being generated: owned by the backend, watched by pages, ended by the engine, a person or a fault."""

import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from backend.changes import Changes
from backend.chat.chat_engine import Piece, Usage
from backend.chat.request_timing import RequestTiming
from backend.chat.store import Conversation, Message, RunState
from backend.errors import ChatError

ABORTED = "abort"  # vLLM's finish_reason when it is told to end while it answers


class GrowingText:
    """Text that grows by small pieces: appending costs the piece, reading joins what is new."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.size_bytes = 0

    def append(self, text: str) -> None:
        """Add a piece; lone surrogates, which neither SQLite nor a socket takes, become question marks."""
        data = text.encode("utf-8", "replace")
        self.size_bytes += len(data)
        self._parts.append(data.decode("utf-8"))

    def __str__(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""


class ChatRun:
    """An answer in the making. One writer, the task that follows the stream; everyone else reads.

    STREAMING -> DONE | STOPPED | FAILED | INTERRUPTED; the first end counts, later ones are ignored.
    """

    def __init__(
        self,
        conversation: Conversation,
        answer: Message,
        *,
        changes: Changes,
        clock: Callable[[], float],
        max_bytes: int,
    ) -> None:
        self.conversation = conversation
        self.changes = changes  # told on each chunk and on the end
        self._answer = answer  # as it was stored when the run began
        self._clock = clock
        self._max_bytes = max_bytes
        self._state = RunState.STREAMING
        self._text = GrowingText()
        self._reasoning = GrowingText()
        self._finish_reason = ""
        self._error = ChatError("")
        self._sent: float | None = None
        self._heard: float | None = None
        self._first_token: float | None = None
        self._last_token: float | None = None
        self._usage = Usage()

    @property
    def id(self) -> str:
        """The id of the answer's message."""
        return self._answer.id

    @property
    def conversation_id(self) -> str:
        """Where the answer belongs."""
        return self.conversation.id

    @property
    def state(self) -> RunState:
        """Any state but STREAMING is final."""
        return self._state

    @property
    def text(self) -> str:
        """The answer so far. Only ever grows, so a page that has n characters needs text[n:]."""
        return str(self._text)

    @property
    def reasoning(self) -> str:
        """The reasoning so far, where the engine sends it apart. Only ever grows."""
        return str(self._reasoning)

    @property
    def timing(self) -> RequestTiming | None:
        """What it took so far. None before the request was sent."""
        if self._sent is None:
            return None
        return RequestTiming(
            sent=self._sent,
            first_token=self._first_token,
            last_token=self._last_token,
            prompt_tokens=self._usage.prompt_tokens,
            cached_tokens=self._usage.cached_tokens,
            output_tokens=self._usage.output_tokens,
            engine=self._usage.figures,
        )

    @property
    def silent_s(self) -> float:
        """For how long nothing came from the engine. 0 before the request was sent."""
        return 0.0 if self._heard is None else self._clock() - self._heard

    def message(self) -> Message:
        """The run as a message, as of now: text, timing, error, stop_reason and all."""
        return dataclasses.replace(
            self._answer,
            text=self.text,
            reasoning=self.reasoning,
            state=self._state,
            timing=self.timing,
            stop_reason=self._finish_reason,
            error=self._error.message,
            hint=self._error.hint,
        )

    async def follow(self, pieces: AsyncGenerator[Piece, None]) -> None:
        """Send the request and take its pieces until the run ends; never raises ChatError, `state` says how it went."""
        self._sent = self._heard = self._clock()
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    self._take(piece)
                    if self._state is not RunState.STREAMING:
                        return
        except ChatError as err:
            self.end(RunState.FAILED, err)
        else:
            self.end(RunState.FAILED, self._ended_early())

    def end(self, state: RunState, error: ChatError | None = None) -> None:
        """Make `state` the outcome, unless there is one already."""
        if self._state is not RunState.STREAMING:
            return
        self._state = RunState.DONE if self._is_whole else state
        self._error = error if error is not None and self._state is RunState.FAILED else self._error
        self.changes.notify()

    def report_unsaved(self, error: ChatError) -> None:
        """Tell the page that the answer exists only here."""
        self._error = error
        self.changes.notify()

    def _take(self, piece: Piece) -> None:
        self._heard = self._clock()
        if piece.is_token:
            self._last_token = self._heard
            self._first_token = self._last_token if self._first_token is None else self._first_token
        if piece.text:
            self._text.append(piece.text)
        if piece.reasoning:
            self._reasoning.append(piece.reasoning)
        self._finish_reason = piece.finish_reason or self._finish_reason
        self._usage = piece.usage or self._usage
        if self._text.size_bytes + self._reasoning.size_bytes > self._max_bytes:
            self.end(RunState.FAILED, ChatError(f"The answer passed {self._max_bytes:,} bytes and was cut there."))
        self.changes.notify()

    def _ended_early(self) -> ChatError:
        how = "ended while answering" if self._finish_reason == ABORTED else "ended the answer early"
        return ChatError(f"{self._answer.engine_title} {how}.", hint="What had arrived is kept.")

    @property
    def _is_whole(self) -> bool:
        """The engine said that it finished: whatever happens to the connection afterwards takes nothing away."""
        return self._finish_reason not in ("", ABORTED)
