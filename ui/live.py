"""The one WebSocket of a tab: pushes what changed, takes actions. Every connection holds cursors, never a queue."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from backend.errors import PanelError
from backend.panel import Panel
from backend.viewer import Role, Viewer, require
from ui.action import Action
from ui.actions import ACTIONS
from ui.live_chat import ChatFeed
from ui.live_environments import EnvironmentFeed
from ui.live_fleet import FleetFeed
from ui.live_log import LogFeed
from ui.live_slots import Slots
from ui.strings import Language, template, text
from ui.visitor import is_same_origin, language_of, viewer_of

log = logging.getLogger(__name__)

Frame = dict[str, Any]
SEND_TIMEOUT_S = 10.0  # a reader this slow is dropped; its page connects anew and asks for the present state
BEAT_S = 10.0
FLEET_INTERVAL_S = 0.1
CHAT_INTERVAL_S = 0.05  # a flush per token costs a core at high rates, and nobody reads faster
MAX_MESSAGE_CHARACTERS = 1_300_000  # a question may have 200,000 characters, and JSON may spell each with six
MAX_ACTIONS = 8  # of one tab at a time
POLICY_VIOLATION = 1008
_SCRIPT_WORDS = (
    "copied",
    "copy_failed",
    "bar.reconnecting",
    "launch.log_skipped",
    "log.nothing_matches",
    "preset.nothing_matches",
    "dialog.cancel",
    "dialog.file_large",
    "unit.s",
    "unit.min",
    "unit.h",
    "unit.d",
)


async def serve_live(panel: Panel, websocket: WebSocket) -> None:
    """Serve one tab until it leaves."""
    viewer = viewer_of(websocket.cookies)
    if viewer is None or not is_same_origin(websocket.headers):
        await websocket.close(POLICY_VIOLATION)
        return
    await websocket.accept()
    language = language_of(websocket.cookies, websocket.headers, default=panel.settings.language)
    tab = LiveTab(panel, viewer, websocket=websocket, language=language)
    try:
        await tab.run()
    except* _TabLeft as group:
        log.debug("a tab left: %s", group.exceptions)


class _TabLeft(Exception):
    """The page is gone, or reads too slowly to be served."""


class LiveTab:
    """One connected tab: three loops that end together."""

    def __init__(self, panel: Panel, viewer: Viewer, *, websocket: WebSocket, language: Language) -> None:
        self._panel = panel
        self._viewer = viewer
        self._websocket = websocket
        self._language = language
        self._send_lock = asyncio.Lock()
        slots = Slots()
        self._fleet = FleetFeed(panel, viewer, slots=slots)
        self._environments = EnvironmentFeed(panel, slots=slots)
        self._logs = LogFeed(panel, slots=slots)
        self._chat = ChatFeed(panel, viewer)
        self._actions: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await self._send([self._words()])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._receive())
            tasks.create_task(self._push_fleet())
            tasks.create_task(self._push_chat())

    async def _push_fleet(self) -> None:
        seen = -1
        while True:
            seen = await self._panel.changes.wait(seen, BEAT_S)
            frames = [
                *await self._fleet.frames(self._language, now=time.time()),
                *self._environments.frames(self._language),
                *self._logs.frames(),
            ]
            await self._send(frames, beat=True)
            await asyncio.sleep(FLEET_INTERVAL_S)

    async def _push_chat(self) -> None:
        while True:
            frames = await self._chat.frames(self._language)
            await self._send(frames)
            if any(frame["type"] == "grow" and frame["blocks"] for frame in frames):  # words came: the next may wait
                await asyncio.sleep(CHAT_INTERVAL_S)
            await self._chat.wait(BEAT_S)

    async def _send(self, frames: list[Frame], *, beat: bool = False) -> None:
        if not frames and not beat:
            return
        words = json.dumps(frames, ensure_ascii=False, separators=(",", ":"))
        try:
            async with self._send_lock, asyncio.timeout(SEND_TIMEOUT_S):
                await self._websocket.send_text(words)
        except (WebSocketDisconnect, TimeoutError, RuntimeError) as err:  # starlette's words for a closed socket
            raise _TabLeft(repr(err)) from err

    async def _receive(self) -> None:
        while True:
            event = await self._websocket.receive()
            if event["type"] == "websocket.disconnect":
                raise _TabLeft(f"code {event.get('code')}")
            words = event.get("text") or ""
            message = _decoded(words)
            if message is None:
                log.warning("a page sent a message of %s characters that is not a small JSON object", len(words))
                await self._toast(text("error.message", self._language))
            else:
                await self._take(message)

    async def _take(self, message: Mapping[str, Any]) -> None:
        if isinstance(message.get("watch"), list):
            self._logs.watch([str(name) for name in message["watch"][:32]])
            self._panel.changes.notify()
        if str(message.get("language")) in set(Language):
            self._language = Language(str(message["language"]))
            self._chat.wake()
            await self._send([self._words()])
            self._panel.changes.notify()
        if "do" in message:
            self._start_action(str(message["do"]), message)

    def _start_action(self, name: str, message: Mapping[str, Any]) -> None:
        """Run beside the loops: stopping an engine takes seconds, and the page goes on showing how."""
        action = ACTIONS.get(name)
        if action is None or len(self._actions) >= MAX_ACTIONS:
            log.warning("action %r refused: %s", name[:40], "not known" if action is None else "too many at once")
            action = _REFUSAL
        task = asyncio.create_task(self._act(action, {**message, "language_now": self._language}))
        self._actions.add(task)
        task.add_done_callback(self._actions.discard)

    async def _act(self, action: Action, message: Mapping[str, Any]) -> None:
        try:
            require(self._viewer, action.role)
            frames = await action.act(self._panel, self._viewer, message) or []
        except PanelError as err:
            frames = [_refusal_frame(str(err), message)]
        except Exception:  # the edge of the page: whatever failed, the person is told and the log has it all
            log.exception("an action failed")
            frames = [_refusal_frame(text("error.unexpected", self._language), message)]
        try:
            await self._send(frames)
        except _TabLeft as err:
            log.info("a tab left before its action had ended: %s", err)

    async def _toast(self, words: str) -> None:
        await self._send([_toast_frame(words)])

    def _words(self) -> Frame:
        words = {key: template(key, self._language) for key in _SCRIPT_WORDS}
        return {"type": "words", "language": self._language.value, "now": time.time(), "words": words}


def _decoded(words: str) -> dict[str, Any] | None:
    """A page's message; None for anything but a small JSON object."""
    if len(words) > MAX_MESSAGE_CHARACTERS:
        return None
    try:
        message = json.loads(words)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _toast_frame(words: str) -> Frame:
    return {"type": "toast", "kind": "error", "text": words}


def _refusal_frame(words: str, message: Mapping[str, Any]) -> Frame:
    """What was refused is said where it was asked: in the dialog whose form it was, else as a note in the corner."""
    return {"type": "dialog_error", "text": words} if message.get("form") is True else _toast_frame(words)


async def _refuse(*_: object) -> None:
    raise PanelError("The panel did not take this action.", hint="Reload the page and try again.")


_REFUSAL = Action(_refuse, Role.MEMBER)
