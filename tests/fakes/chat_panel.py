"""A panel with nothing but chats, to be killed: sends one message and tells how much of the answer has arrived.

    python tests/fakes/chat_panel.py DATABASE ENGINE_URL QUESTION [SAVE_INTERVAL_S]

Prints "<time.monotonic> <characters>" on each change, and "<state>" when the answer has ended and is saved.
"""

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from backend.changes import Changes  # noqa: E402
from backend.chat.chats import ChatEngine, ChatLimits, Chats  # noqa: E402
from backend.chat.store import ChatStore  # noqa: E402
from backend.database import Database  # noqa: E402
from backend.viewer import Role, Viewer  # noqa: E402

VIEWER = Viewer("local", Role.ADMIN, "the-browser")


class OneEngine:
    """Knows one engine, always ready."""

    def __init__(self, base_url: str) -> None:
        self._engine = ChatEngine("engine", "Small", base_url, "model")

    def ready(self) -> tuple[ChatEngine, ...]:
        return (self._engine,)


async def main(database_path: str, base_url: str, question: str, save_interval_s: str = "1.0") -> None:
    database = Database(Path(database_path))
    await database.open()
    limits = ChatLimits(save_interval_s=float(save_interval_s))
    chats = Chats(ChatStore(database), OneEngine(base_url), changes=Changes(), limits=limits)
    await chats.open()
    run = await chats.send(VIEWER, question)
    seen = 0
    while chats.live_run(run.conversation_id) is not None:
        sys.stdout.write(f"{time.monotonic()} {len(run.text)}\n")
        sys.stdout.flush()
        seen = await run.changes.wait(seen, timeout_s=1)
    sys.stdout.write(f"{run.state}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
