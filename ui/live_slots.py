"""What one tab has been sent, so that only what differs is sent again."""

from typing import Any

Frame = dict[str, Any]


class Slots:
    """The last content of each slot and list of one tab."""

    def __init__(self) -> None:
        self._sent: dict[str, object] = {}
        self._redrawn = 0

    @property
    def redrawn(self) -> int:
        """Grows when a list was sent: what its items hold besides slots, such as a log, is empty again."""
        return self._redrawn

    def slot(self, name: str, html: str) -> list[Frame]:
        """The frame that fills a slot; none where the tab has it already."""
        if self._sent.get(name) == html:
            return []
        self._sent[name] = html
        return [{"type": "slot", "slot": name, "html": html}]

    def list(self, name: str, items: "list[tuple[str, str]]") -> "list[Frame]":
        """The frame that makes a list of keyed fragments; none where the tab has it already."""
        if self._sent.get(name) == items:
            return []
        self._sent[name] = items
        self._redrawn += 1
        return [{"type": "list", "list": name, "items": items}]
