"""Bound handlers: Gradio must see their inputs, their hints, and nothing of our own."""

import inspect
from typing import get_type_hints

from ui.handlers import bind


def plain(panel: str, words: str, request: int) -> str:
    return f"{panel} {words} {request}"


async def waiting(panel: str, words: str) -> str:
    return f"{panel} {words}"


async def test_collaborators_are_filled_in_and_the_rest_is_called() -> None:
    assert await bind(plain, "p")("w", 1) == "p w 1"
    assert await bind(waiting, "p")("w") == "p w"


def test_only_inputs_are_visible_with_their_hints() -> None:
    bound = bind(plain, "p")
    assert list(inspect.signature(bound).parameters) == ["words", "request"]
    assert get_type_hints(bound) == {"words": str, "request": int}
    assert inspect.isfunction(bound)
