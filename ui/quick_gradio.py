"""Imports gradio in half the time: import this module before anything that imports gradio.

At each import Gradio does two things for developers' editors only, together 1.5 of 2.6 CPU seconds. It parses the
source of each of its components to write type stubs (.pyi) beside itself, which two panels that start together do at
once; it passes over a class whose source file inspect cannot name, so for that time inspect names none of its classes.
And it renders the docstring of every event of every component; for that time its templates render nothing.
"""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import jinja2


class _NoTemplate:
    """Stands in for jinja2.Template, which Gradio uses for docstrings and stubs alone."""

    def __init__(self, source: str) -> None:
        self._source = source

    def render(self, **_: object) -> str:
        return self._source


@contextlib.contextmanager
def _no_developer_files() -> Iterator[None]:
    getfile, template = inspect.getfile, jinja2.Template

    def getfile_but_for_components(thing: Any) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("no type stubs at run time")
        return getfile(thing)

    inspect.getfile = getfile_but_for_components  # type: ignore[assignment]
    jinja2.Template = _NoTemplate  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        inspect.getfile = getfile
        jinja2.Template = template  # type: ignore[misc]


with _no_developer_files():
    import gradio  # noqa: F401
