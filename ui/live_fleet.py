"""What one tab has seen of engines, cards and host, and the frames that bring it up to date."""

from collections.abc import Sequence
from typing import Any

from backend.panel import Panel
from backend.viewer import Viewer
from ui.render_chat import render_chat_head
from ui.render_launch import (
    engine_title,
    render_engine_frame,
    render_engine_head,
    render_engine_now,
    render_no_engines,
    render_presets,
)
from ui.render_status import render_status
from ui.strings import Language

Frame = dict[str, Any]
LOG_LINES_A_FRAME = 400


class FleetFeed:
    """Renders fragments and sends those that differ from what the tab has; logs go as deltas while they are watched."""

    def __init__(self, panel: Panel, viewer: Viewer) -> None:
        self._panel = panel
        self._viewer = viewer
        self._sent: dict[str, object] = {}
        self._watched: frozenset[str] = frozenset()
        self._log_cursors: dict[str, tuple[int | None, int]] = {}  # engine -> (run, cursor)

    def watch(self, engines: Sequence[str]) -> None:
        """The logs that can be seen on the page now."""
        self._watched = frozenset(engines)

    async def frames(self, language: Language, *, now: float) -> list[Frame]:
        """All that changed since the last call. `now` is wall-clock seconds."""
        engines = dict(sorted(self._panel.fleet.engines.items(), key=lambda item: -(item[1].status.started_at or 0)))
        frames = [
            *self._slot("bar", render_status(self._panel, language, now=now)),
            *self._slot("presets", render_presets(self._panel.offers(), self._panel.shelf, language)),
            *self._list(
                "engines", [(eid, render_engine_frame(eid, engine.spec, language)) for eid, engine in engines.items()]
            ),
            *self._slot("engines/empty", render_no_engines(not engines, language)),
        ]
        for engine_id, engine in engines.items():
            last = engine.log.last_lines(1)
            title = engine_title(engine, self._panel.shelf, language)
            line = last[0] if last else ""
            frames += self._slot(f"engine/{engine_id}", render_engine_head(engine_id, title, engine.status, language))
            frames += self._slot(f"engine/{engine_id}/now", render_engine_now(engine.status, line, language, now=now))
        settings = await self._panel.chats.settings(self._viewer)
        frames += self._slot("chat/head", render_chat_head(self._choices(language), settings.engine_id, language))
        return frames + self._logs()

    def _choices(self, language: Language) -> list[tuple[str, str]]:
        """Engines one can chat with: id and title."""
        engines = self._panel.fleet.ready_engines()
        return [(engine.engine_id, engine_title(engine, self._panel.shelf, language)) for engine in engines]

    def _slot(self, name: str, html: str) -> list[Frame]:
        if self._sent.get(name) == html:
            return []
        self._sent[name] = html
        return [{"type": "slot", "slot": name, "html": html}]

    def _list(self, name: str, items: list[tuple[str, str]]) -> list[Frame]:
        if self._sent.get(name) == items:
            return []
        self._sent[name] = items
        self._log_cursors.clear()  # a card drawn anew has an empty log
        return [{"type": "list", "list": name, "items": items}]

    def _logs(self) -> list[Frame]:
        frames = []
        for engine_id in self._watched:
            engine = self._panel.fleet.engines.get(engine_id)
            if engine is None:
                continue
            run, cursor = self._log_cursors.get(engine_id, (None, 0))
            fresh = run != engine.status.run
            part = engine.log.since(0 if fresh else cursor, LOG_LINES_A_FRAME)
            self._log_cursors[engine_id] = (engine.status.run, part.cursor)
            if part.lines or fresh:
                lines = [(line.number, line.text) for line in part.lines]
                frames.append(
                    {"type": "log", "engine": engine_id, "lines": lines, "skipped": part.skipped, "reset": fresh}
                )
        for engine_id in set(self._log_cursors) - self._watched:
            del self._log_cursors[engine_id]  # looked at again, it is sent anew
        return frames
