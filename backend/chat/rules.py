"""What may be sent, and to whom: the pure decisions of the chat."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from backend.chat.chat_engine import AnswerRequest, ChatEngine, Turn
from backend.chat.store import ChatSettings, Message, MessageRole, RunState
from backend.errors import ChatError

MAX_TEMPERATURE = 2.0
MAX_TOKENS = 1_000_000
MAX_ENGINE_ID_CHARS = 64


@dataclass(frozen=True)
class ChatLimits:
    """The bounds of everything that could grow or hang."""

    question_chars: int = 200_000
    system_prompt_chars: int = 32_000
    answer_bytes: int = 2_000_000
    runs: int = 256  # answers at a time, of all people
    save_interval_s: float = 1.0  # a kill -9 loses at most this much of an unfinished answer
    connect_timeout_s: float = 5.0
    silence_timeout_s: float = 600.0  # longest wait for the first or the next chunk: long prompts take minutes on a CPU
    gone_timeout_s: float = 30.0  # longest silence of an engine that is not ready any more
    end_timeout_s: float = 10.0  # for a stopped answer to be saved


def checked_text(text: str, limits: ChatLimits) -> str:
    """The message, fit to be stored and sent. Raises ChatError when it is empty or too long."""
    if not text.strip():
        raise ChatError("The message is empty.", hint="Write something first.")
    if len(text) > limits.question_chars:
        message = f"The message has {len(text):,} characters; at most {limits.question_chars:,} can be sent."
        raise ChatError(message, hint="Shorten it.")
    return _storable(text)


def checked_settings(settings: ChatSettings, limits: ChatLimits) -> ChatSettings:
    """The settings, fit to be stored. Raises ChatError naming the value and its range."""
    temperature, max_tokens, engine_id = settings.temperature, settings.max_tokens, settings.engine_id
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not math.isfinite(temperature) or not 0 <= temperature <= MAX_TEMPERATURE:
        raise ChatError(f"The temperature {temperature!r} is not a number from 0 to {MAX_TEMPERATURE:g}.")
    if max_tokens is not None:
        is_whole = isinstance(max_tokens, int) and not isinstance(max_tokens, bool)
        if not is_whole or not 1 <= max_tokens <= MAX_TOKENS:
            hint = "Leave it empty for as many as the context has room for."
            raise ChatError(f"Max tokens {max_tokens!r} is not a whole number from 1 to {MAX_TOKENS:,}.", hint=hint)
    if len(settings.system_prompt) > limits.system_prompt_chars:
        length, most = len(settings.system_prompt), limits.system_prompt_chars
        raise ChatError(f"The system prompt has {length:,} characters; at most {most:,} are allowed.")
    if engine_id is not None and not 0 < len(engine_id) <= MAX_ENGINE_ID_CHARS:
        raise ChatError(f"{engine_id[:MAX_ENGINE_ID_CHARS]!r} is not an engine's id.")
    return ChatSettings(_storable(settings.system_prompt), float(temperature), max_tokens, engine_id)


def choose_engine(ready: tuple[ChatEngine, ...], settings: ChatSettings) -> ChatEngine:
    """The chosen engine, or the first ready one where none was chosen. Raises ChatError where it cannot answer."""
    if not ready:
        raise ChatError("No engine is ready to answer.", hint="Start one on the Launch tab and wait until it is ready.")
    engine = next((each for each in ready if settings.engine_id in (None, each.engine_id)), None)
    if engine is None:
        titles = ", ".join(each.title for each in ready)
        raise ChatError("The engine chosen for this chat is not ready.", hint=f"Choose one that is: {titles}.")
    if settings.max_tokens is not None and engine.max_model_len is not None:
        most = engine.max_model_len - 1
        if settings.max_tokens > most:
            message = f"Max tokens {settings.max_tokens:,} is above what {engine.title} can write: {most:,}."
            raise ChatError(message, hint=f"Its context holds {engine.max_model_len:,} tokens, the question included.")
    return engine


def answer_request(settings: ChatSettings, messages: Iterable[Message], question: str) -> AnswerRequest:
    """What the engine is asked. Roles alternate, as many chat templates refuse anything else.

    A question whose answer failed before its first word is left out (it may be what was too long); one that was stopped
    or interrupted so early is put in front of the next question.
    """
    turns: list[Turn] = []
    unanswered: list[str] = []
    for message in messages:
        if message.role is MessageRole.USER:
            unanswered.append(message.text)
        elif message.text and unanswered:
            turns.append(Turn(MessageRole.USER, "\n\n".join(unanswered)))
            turns.append(Turn(MessageRole.ASSISTANT, message.text))
            unanswered.clear()
        elif message.state is RunState.FAILED and unanswered:
            unanswered.pop()
    turns.append(Turn(MessageRole.USER, "\n\n".join([*unanswered, question])))
    return AnswerRequest(settings.system_prompt, tuple(turns), settings.temperature, settings.max_tokens)


def _storable(text: str) -> str:
    """Without lone surrogates, which a browser can send but neither SQLite nor JSON over HTTP takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
