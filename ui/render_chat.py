"""The chat as HTML fragments: messages, the notes and numbers under an answer, the chat's head."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from backend.chat.chats import Message, MessageRole, RunState
from backend.chat.request_timing import RequestTiming, TimingSource
from backend.engine.status import EngineState
from ui.icons import icon
from ui.numbers import duration, rate
from ui.strings import Language, text


def render_message_frame(message: Message, language: Language) -> Markup:
    """The outer part of a message. An answer's blocks and foot are filled in by the page."""
    if message.role is MessageRole.USER:
        return Markup('<div class="vp-text"><span class="vp-hidden">{}: </span>{}</div>').format(
            text("chat.you", language), message.text
        )
    return Markup('<div class="vp-answer vp-blocks" lang=""></div><div class="vp-foot"></div>')


def render_reasoning(reasoning: str, language: Language) -> str:
    """What the model thought, folded apart from its answer."""
    return Markup('<details class="vp-fold"><summary>{}</summary><div class="vp-reasoning">{}</div></details>').format(
        text("chat.thinking", language), reasoning
    )


def render_foot(message: Message, language: Language) -> str:
    """What stands under an answer: how it ended, if not well, and its numbers."""
    parts = [_ending(message, language)]
    if message.state is RunState.STREAMING:
        waiting = "" if message.text or message.reasoning else text("chat.waiting", language)
        parts.append(
            Markup('<div class="vp-timing"><span class="vp-cursor"></span> {} {}</div>').format(
                waiting, _numbers(message.timing, language) if message.timing and message.text else ""
            )
        )
    elif message.timing is not None:
        parts.append(_timing_line(message, message.timing, language))
    return Markup("").join(parts)


def _ending(message: Message, language: Language) -> Markup:
    note = Markup('<p class="vp-note{}">{} <span>{}</span></p>')
    if message.error:
        words = Markup("<b>{}.</b> {} {}").format(text("chat.failed", language), message.error, message.hint)
        return note.format(" is-failed", Markup(icon("warning")), words)
    key = {RunState.STOPPED: "chat.stopped", RunState.INTERRUPTED: "chat.interrupted"}.get(message.state)
    if message.state is RunState.DONE and message.stop_reason == "length":
        key = "chat.cut"
    return note.format("", Markup(icon("stopped")), text(key, language)) if key else Markup()


def _numbers(timing: RequestTiming, language: Language) -> Markup:
    figures = [
        ("ttft", timing.ttft_s, duration),
        ("tpot", timing.tpot_s, duration),
        ("prefill", timing.prefill_tok_per_s, rate),
        ("decode", timing.decode_tok_per_s, rate),
    ]
    spans = [
        Markup('<span data-figure="{}">{} <b>{}</b></span>').format(name, text(f"timing.{name}", language), show(value))
        for name, value, show in figures
        if value is not None
    ]
    if timing.prompt_tokens is not None and timing.output_tokens is not None:
        spans.append(
            Markup('<span data-figure="tokens">{} → {} {}</span>').format(
                timing.prompt_tokens, timing.output_tokens, text("timing.tokens", language)
            )
        )
    return Markup("").join(spans)


def _timing_line(message: Message, timing: RequestTiming, language: Language) -> Markup:
    numbers = _numbers(timing, language)
    if not numbers:
        return Markup('<div class="vp-timing"></div>')
    source = "timing.source_engine" if timing.source is TimingSource.ENGINE else "timing.source_measured"
    more = [escape(text(source, language))]
    if timing.cached_tokens is not None:
        more.append(escape(text("timing.cached", language, tokens=timing.cached_tokens)))
    if timing.queue_s is not None:
        more.append(Markup("{} {}").format(text("timing.queue", language), duration(timing.queue_s)))
    if timing.total_s is not None:
        more.append(Markup("{} {}").format(text("timing.total", language), duration(timing.total_s)))
    if message.engine_title:
        more.append(escape(message.engine_title))
    return Markup(
        '<details class="vp-timing" data-source="{}"><summary>{}</summary>'
        '<div class="vp-more vp-facts">{}<div>{}</div></div></details>'
    ).format(
        timing.source.value,
        numbers,
        Markup("").join(Markup("<span>{}</span>").format(part) for part in more),
        text("timing.explain", language),
    )


def render_notice(words: str) -> str:
    """Why a message or a setting was not taken, above the composer."""
    return Markup('<p class="vp vp-note is-failed" role="alert">{} <span>{}</span></p>').format(
        Markup(icon("warning")), words
    )


def render_empty_chat(states: Sequence[EngineState], language: Language) -> str:
    """One sentence and one button for a chat without messages."""
    if EngineState.READY in states:
        return Markup('<div class="vp-empty"><p>{}</p></div>').format(text("chat.empty", language))
    starting = EngineState.STARTING in states
    words = text("chat.empty_starting" if starting else "chat.empty_no_engine", language)
    return Markup(
        '<div class="vp-empty"><p>{}</p><button class="vp-button is-primary" data-do="tab" data-tab="launch">{}</button></div>'
    ).format(words, text("chat.go_launch", language))


def render_chat_head(engines: Sequence[tuple[str, str]], chosen: str | None, language: Language) -> str:
    """Which engine answers (of these ids and titles), and the button that empties the chat."""
    options = [Markup('<option value="">{}</option>').format(text("chat.any_engine", language))]
    for engine_id, title in engines:
        options.append(
            Markup('<option value="{}"{}>{}</option>').format(
                engine_id, Markup(" selected") if engine_id == chosen else "", title
            )
        )
    return Markup(
        '<div class="vp-chat-head"><label>{} <select data-change="chat.engine">{}</select></label>'
        '<button class="vp-button is-small vp-push" data-do="chat.clear">{}</button></div>'
    ).format(text("chat.engine", language), Markup("").join(options), text("chat.clear", language))
