"""Labels of Gradio components that follow the live language switch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.strings import Language, text


@dataclass(frozen=True)
class _Labelled:
    component: Any
    keys: Mapping[str, str]  # property -> key of the string table


class Labels:
    """Remembers which property of which component shows which string, while the page is built."""

    def __init__(self) -> None:
        self._labelled: list[_Labelled] = []

    def follow(self, component: Any, **keys: str) -> Any:
        """Let the component's properties show these strings from now on. Returns the component."""
        self._labelled.append(_Labelled(component, keys))
        return component

    @property
    def components(self) -> list[Any]:
        """The outputs of updates()."""
        return [labelled.component for labelled in self._labelled]

    def updates(self, language: Language) -> list[Any]:
        """An update for each component, in the order of `components`."""
        return [
            gr.update(**{name: text(key, language) for name, key in labelled.keys.items()})
            for labelled in self._labelled
        ]
