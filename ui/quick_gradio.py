"""Imports gradio in half the time: import this module before anything that imports gradio.

At each import Gradio parses the source of each of its components to write type stubs (.pyi) beside itself: 1.3 of
2.6 CPU seconds, and a write into site-packages that two starting panels do at once. It passes over a class whose
source file inspect cannot name, so for that time inspect names none of its classes.
"""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def _no_stub_files() -> Iterator[None]:
    getfile = inspect.getfile

    def getfile_but_for_components(thing: Any) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("no type stubs at run time")
        return getfile(thing)

    inspect.getfile = getfile_but_for_components  # type: ignore[assignment]
    try:
        yield
    finally:
        inspect.getfile = getfile


with _no_stub_files():
    import gradio  # noqa: F401
