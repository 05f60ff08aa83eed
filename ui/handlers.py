"""Binds a handler's own collaborators, so that Gradio sees a plain function of its inputs."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints


def bind(handler: Callable[..., Awaitable[Any] | Any], *collaborators: Any) -> Callable[..., Awaitable[Any]]:
    """The handler with its first arguments filled in.

    functools.partial would do, were it not that Gradio reads type hints of functions only: it would not see that a
    handler wants the gr.Request.
    """
    parameters = list(inspect.signature(handler).parameters.values())[len(collaborators) :]
    hints = get_type_hints(handler)

    @functools.wraps(handler)
    async def bound(*inputs: Any) -> Any:
        result = handler(*collaborators, *inputs)
        return await result if inspect.isawaitable(result) else result

    bound.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    bound.__annotations__ = {
        parameter.name: hints[parameter.name] for parameter in parameters if parameter.name in hints
    }
    del bound.__wrapped__  # inspect would look through to the unbound handler
    return bound
