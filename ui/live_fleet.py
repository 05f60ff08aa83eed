"""The bar and the launch page of one tab: the frames that bring them up to date."""

from backend.engine.engine import Engine
from backend.panel import Panel
from backend.viewer import Viewer
from ui.live_slots import Frame, Slots
from ui.render_chat import render_chat_head
from ui.render_engine import (
    engine_title,
    render_care,
    render_engine_frame,
    render_engine_head,
    render_engine_now,
    render_no_engines,
)
from ui.render_fit import render_comparison
from ui.render_presets import preset_cards, render_shelf_head
from ui.render_runs import render_runs
from ui.render_status import render_status
from ui.strings import Language


class FleetFeed:
    """Renders fragments and sends those that differ from what the tab has."""

    def __init__(self, panel: Panel, viewer: Viewer, *, slots: Slots) -> None:
        self._panel = panel
        self._viewer = viewer
        self._slots = slots
        self._shelf_drawn: object = None  # what the preset cards were drawn from: they are many, and seldom change

    async def frames(self, language: Language, *, now: float) -> list[Frame]:
        """All that changed since the last call. `now` is wall-clock seconds."""
        engines = sorted(self._panel.fleet.engines.values(), key=lambda engine: -(engine.status.started_at or 0))
        frames = [
            *self._slots.slot("bar", render_status(self._panel, language, now=now)),
            *self._slots.slot("presets/head", render_shelf_head(language)),
            *self._presets(language),
            *self._slots.list(
                "engines", [(engine.engine_id, render_engine_frame(engine, language)) for engine in engines]
            ),
            *self._slots.slot("engines/empty", render_no_engines(not engines, language)),
        ]
        for engine in engines:
            frames += self._engine(engine, language, now=now)
        settings = await self._panel.chats.settings(self._viewer)
        return frames + self._slots.slot("chat/head", render_chat_head(self._choices(), settings.engine_id, language))

    def _presets(self, language: Language) -> list[Frame]:
        launcher = self._panel.launcher
        drawn = (launcher.revision, launcher.running(), language)
        if drawn == self._shelf_drawn:
            return []
        self._shelf_drawn = drawn
        return self._slots.list("presets", preset_cards(launcher.offers(), launcher.shelf, language))

    def _engine(self, engine: Engine, language: Language, *, now: float) -> list[Frame]:
        engine_id, last = engine.engine_id, engine.log.last_lines(1)
        title = engine_title(engine, self._panel.launcher.shelf, language)
        care = self._panel.fleet.care(engine_id)
        comparison = self._panel.comparisons.of(engine)
        return [
            *self._slots.slot(f"engine/{engine_id}", render_engine_head(engine, title, language)),
            *self._slots.slot(
                f"engine/{engine_id}/now", render_engine_now(engine, last[0] if last else "", language, now=now)
            ),
            *self._slots.slot(f"engine/{engine_id}/care", render_care(engine_id, care, language)),
            *self._slots.slot(f"engine/{engine_id}/fit", render_comparison(comparison, language) if comparison else ""),
            *self._slots.slot(f"engine/{engine_id}/runs", render_runs(engine_id, engine.runs, language)),
        ]

    def _choices(self) -> list[tuple[str, str]]:
        """What one can chat with: id and title."""
        return [(ready.engine_id, ready.title) for ready in self._panel.ready()]
