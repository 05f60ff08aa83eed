"""The logs that one tab looks at, sent as deltas: of engines, and of installations."""

from collections.abc import Sequence

from backend.engine.log_tail import LogTail
from backend.panel import Panel
from ui.live_slots import Frame, Slots

LINES_A_FRAME = 400
INSTALL_PREFIX = "install/"  # a log of this name is an environment's installation


class LogFeed:
    """Holds a cursor for each log that can be seen on the page now."""

    def __init__(self, panel: Panel, *, slots: Slots) -> None:
        self._panel = panel
        self._slots = slots
        self._redrawn = slots.redrawn
        self._watched: frozenset[str] = frozenset()
        self._cursors: dict[str, tuple[int | None, int]] = {}  # log -> (run, cursor)

    def watch(self, names: Sequence[str]) -> None:
        """The logs that can be seen on the page now."""
        self._watched = frozenset(names)

    def frames(self) -> list[Frame]:
        """The lines that came since the last call."""
        if self._redrawn != self._slots.redrawn:
            self._redrawn = self._slots.redrawn
            self._cursors.clear()  # a card drawn anew has an empty log
        for name in set(self._cursors) - self._watched:
            del self._cursors[name]  # looked at again, it is sent anew
        return [frame for name in sorted(self._watched) for frame in self._lines_of(name)]

    def _lines_of(self, name: str) -> list[Frame]:
        found = self._find(name)
        if found is None:
            return []
        tail, run = found
        seen_run, cursor = self._cursors.get(name, (-1, 0))
        fresh = name not in self._cursors or seen_run != run
        part = tail.since(0 if fresh else cursor, LINES_A_FRAME)
        self._cursors[name] = (run, part.cursor)
        if not part.lines and not fresh:
            return []
        lines = [(line.number, line.text) for line in part.lines]
        return [{"type": "log", "engine": name, "lines": lines, "skipped": part.skipped, "reset": fresh}]

    def _find(self, name: str) -> tuple[LogTail, int | None] | None:
        """A log and the run it is of."""
        if name.startswith(INSTALL_PREFIX):
            tail = self._panel.environments.install_log(name.removeprefix(INSTALL_PREFIX))
            return None if tail is None else (tail, None)
        engine = self._panel.fleet.engines.get(name)
        return None if engine is None else (engine.log, engine.status.run)
