"""One answer being generated: owned by the backend, watched by pages, ended by the engine, a person or a fault."""

from backend.changes import Changes
from backend.chat_store import Message, RunState


class ChatRun:
    """An answer in the making. One writer, the task that streams it; everyone else reads.

    STREAMING -> DONE | STOPPED | FAILED | INTERRUPTED
    """

    id: str  # of the answer's Message
    conversation_id: str
    changes: Changes  # notified on each chunk and on the end

    @property
    def state(self) -> RunState:
        """Any state but STREAMING is final."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The answer so far. Only ever grows, so a page that has n characters needs text[n:]."""
        raise NotImplementedError

    @property
    def reasoning(self) -> str:
        """The reasoning so far, where the engine sends it apart. Only ever grows."""
        raise NotImplementedError

    def message(self) -> Message:
        """The run as a message, as of now: text, timing, error, stop_reason and all."""
        raise NotImplementedError
