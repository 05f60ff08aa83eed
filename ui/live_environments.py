"""The environments page of one tab: the frames that bring it up to date."""

from backend.panel import Panel
from ui.live_slots import Frame, Slots
from ui.render_environments import (
    environment_title,
    render_environment,
    render_environment_frame,
    render_no_environments,
)
from ui.render_recipes import render_recipes
from ui.strings import Language


class EnvironmentFeed:
    """Renders what the environments' owner shows, and sends what differs."""

    def __init__(self, panel: Panel, *, slots: Slots) -> None:
        self._panel = panel
        self._slots = slots

    def frames(self, language: Language) -> list[Frame]:
        """All that changed since the last call."""
        views, offers = self._panel.environments.views, self._panel.environments.recipes()
        frames = self._slots.slot("recipes", render_recipes(offers, language))
        frames += self._slots.slot("environments/empty", render_no_environments(not views, language))
        frames += self._slots.list(
            "environments", [(view.environment.id, render_environment_frame(view, language)) for view in views]
        )
        for view in views:
            title = environment_title(view, offers, language)
            frames += self._slots.slot(f"environment/{view.environment.id}", render_environment(view, title, language))
        return frames
