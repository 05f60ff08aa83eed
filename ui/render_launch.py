"""The launch page as HTML fragments: presets to start, engines with their stages, reasons, commands and snippets."""

import signal
from collections.abc import Sequence

from markupsafe import Markup

from backend.engine.engine import Engine
from backend.engine.status import STARTABLE_STATES, EngineState, EngineStatus, Stage
from backend.launch.plan import LaunchSpec
from backend.launch.shelf import PresetShelf
from backend.launch.snippets import curl_snippet, python_snippet
from backend.panel import PresetOffer
from ui.icons import icon, state_icon
from ui.strings import Language, text


def render_presets(offers: Sequence[PresetOffer], shelf: PresetShelf, language: Language) -> str:
    """The shelf of presets, broken ones named at the end."""
    cards = [_preset_card(offer, language) for offer in offers]
    problems = [
        Markup('<div class="vp-card"><b>{}</b><div class="vp-muted">{}</div></div>').format(
            text("launch.broken_preset", language), problem
        )
        for problem in shelf.problems
    ]
    if not cards:
        cards = [Markup('<div class="vp-empty">{}</div>').format(text("launch.no_presets", language))]
    return Markup("<h2>{}</h2>{}").format(text("launch.presets", language), Markup("").join([*cards, *problems]))


def _preset_card(offer: PresetOffer, language: Language) -> Markup:
    preset = offer.preset
    words = text("launch.running" if offer.running else "launch.start", language)
    blocked = offer.running or bool(offer.obstacle)
    obstacle = Markup('<div class="vp-reason">{}: {}</div>').format(
        text("launch.not_prepared", language), offer.obstacle
    )
    return Markup(
        '<div class="vp-card" data-preset-card="{name}"><h3>{title}</h3><p class="vp-muted">{summary}</p>'
        '<p class="vp-facts"><span>{context}</span><span>{kind}</span></p>{obstacle}'
        '<div class="vp-row" style="margin-top:12px"><button class="vp-button is-primary" data-do="engine.start"'
        ' data-preset="{name}"{disabled}>{words}</button></div></div>'
    ).format(
        name=preset.name,
        title=preset.title.in_language(language),
        summary=preset.summary.in_language(language),
        context=text("launch.context", language, tokens=preset.context),
        kind=text("launch.on_cpu", language),
        obstacle=obstacle if offer.obstacle else "",
        disabled=Markup(" disabled") if blocked else "",
        words=words,
    )


def engine_title(engine: Engine, shelf: PresetShelf, language: Language) -> str:
    """What people call an engine: its preset's title in their language, else what it was started as."""
    if engine.spec is None:
        return engine.engine_id
    preset = next((preset for preset in shelf.presets if preset.name == engine.spec.preset), None)
    return preset.title.in_language(language) if preset else engine.spec.title


def render_no_engines(nothing_there: bool, language: Language) -> str:
    """The heading of the engines' column, and one sentence while there are none."""
    empty = Markup('<div class="vp-card vp-empty">{}</div>').format(text("launch.no_engines", language))
    return Markup("<h2>{}</h2>{}").format(text("launch.engines", language), empty if nothing_there else "")


def render_engine_frame(engine_id: str, spec: LaunchSpec | None, language: Language) -> str:
    """The lasting part of an engine's card; head and details are slots of their own, so that folds stay open."""
    folds = [
        Markup(
            '<details class="vp-fold" open><summary>{}</summary><pre class="vp-log" tabindex="0" data-log="{}"></pre></details>'
        ).format(text("launch.log", language), engine_id)
    ]
    if spec is not None:
        use = Markup("<div>{}</div>{}<div>{}</div>{}").format(
            text("launch.python", language),
            _snippet(python_snippet(spec), language),
            text("launch.curl", language),
            _snippet(curl_snippet(spec), language),
        )
        folds.append(_fold(text("launch.command", language), _snippet(spec.shell_line(), language)))
        folds.append(_fold(text("launch.use", language), use))
    return Markup(
        '<div class="vp-card" data-engine="{id}" style="margin-bottom:12px"><div data-slot="engine/{id}"></div>'
        '<div data-slot="engine/{id}/now"></div>{folds}</div>'
    ).format(id=engine_id, folds=Markup("").join(folds))


def _fold(title: str, body: Markup) -> Markup:
    return Markup('<details class="vp-fold"><summary>{}</summary>{}</details>').format(title, body)


def _snippet(code: str, language: Language) -> Markup:
    return Markup(
        '<div class="vp-snippet" data-copy-from><pre>{}</pre><button class="vp-button is-small" data-do="copy">{} {}</button></div>'
    ).format(code, Markup(icon("copy")), text("copy", language))


def render_engine_head(engine_id: str, title: str, status: EngineStatus, language: Language) -> str:
    """Title, state and buttons of an engine's card. Apart from what moves, or a click on a button would get lost."""
    return Markup(
        '<div class="vp-row"><h3>{title}</h3>{state}<span class="vp-facts">{facts}</span>'
        '<span class="vp-row vp-push">{buttons}</span></div>'
    ).format(
        title=title,
        state=render_state(status.state, language),
        facts=_facts(status, language),
        buttons=_buttons(engine_id, status.state, language),
    )


def render_engine_now(status: EngineStatus, last_line: str, language: Language, *, now: float) -> str:
    """What moves in an engine's card: stages, elapsed time, the newest log line; the reason where it failed."""
    body = Markup()
    if status.state is EngineState.STARTING or (status.state is EngineState.FAILED and status.progress):
        body += _stages(status, language)
    if status.state is EngineState.STARTING:
        body += _elapsed(status, language, now=now) + Markup('<div class="vp-nowline">{}</div>').format(last_line)
    if status.reason and status.state is not EngineState.READY:
        hint = Markup('<div class="vp-hint"><b>{}.</b> {}</div>').format(text("launch.do_this", language), status.hint)
        body += Markup('<div class="vp-reason"><div>{}</div>{}</div>').format(
            status.reason, hint if status.hint else ""
        )
    return body


def render_state(state: EngineState, language: Language) -> Markup:
    """Icon and word of a state, in its colour."""
    return Markup('<span class="vp-state is-{}" data-state="{}">{}<span class="vp-word">{}</span></span>').format(
        state.value, state.value, Markup(state_icon(state)), text(f"state.{state.value}", language)
    )


def _facts(status: EngineStatus, language: Language) -> Markup:
    facts: list[Markup | str] = []
    if status.run is not None:
        facts.append(text("launch.run", language, number=status.run))
    if status.state in (EngineState.READY, EngineState.UNREACHABLE) and status.ready_at is not None:
        facts.append(
            Markup('{} <time data-since="{}"></time>').format(text("launch.uptime", language), round(status.ready_at))
        )
        if status.started_at is not None:
            facts.append(text("launch.ready_after", language, seconds=round(status.ready_at - status.started_at)))
    if status.adopted and status.state not in STARTABLE_STATES:
        facts.append(text("launch.adopted", language))
    if status.state is EngineState.FAILED and status.returncode is not None:
        facts.append(_exit(status.returncode, language))
    return Markup("").join(Markup("<span>{}</span>").format(fact) for fact in facts)


def _exit(returncode: int, language: Language) -> str:
    if returncode >= 0:
        return text("launch.exit_code", language, code=returncode)
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = str(-returncode)
    return text("launch.signal", language, signal=name)


def _buttons(engine_id: str, state: EngineState, language: Language) -> Markup:
    button = Markup('<button class="vp-button is-small" data-do="{}" data-engine="{}"{}>{}</button>')
    if state in STARTABLE_STATES:
        return button.format("engine.remove", engine_id, "", text("launch.remove", language))
    stop = button.format(
        "engine.stop",
        engine_id,
        Markup(" disabled") if state is EngineState.STOPPING else "",
        text("launch.stop", language),
    )
    if state is EngineState.READY:
        chat = button.format("chat.with", engine_id, Markup(' data-tab="chat"'), text("launch.chat", language))
        return chat + stop
    return stop


def _stages(status: EngineStatus, language: Language) -> Markup:
    stages = list(Stage)
    now = stages.index(status.progress.stage) if status.progress else 0
    mark = "is-broken" if status.state is EngineState.FAILED else "is-now"
    items = []
    for number, stage in enumerate(stages):
        words = text(f"stage.{stage.value}", language)
        if number == now and status.progress and status.progress.percent is not None:
            words = f"{words} {status.progress.percent} %"
        kind = "is-done" if number < now else mark if number == now else ""
        items.append(Markup('<li class="{}" data-stage="{}">{}</li>').format(kind, stage.value, words))
    return Markup('<ol class="vp-stages">{}</ol>').format(Markup("").join(items))


def _elapsed(status: EngineStatus, language: Language, *, now: float) -> Markup:
    begun = status.started_at or status.since
    facts = [Markup('{} <time data-since="{}"></time>').format(text("launch.elapsed", language), round(begun))]
    if status.expected_ready_s:
        key = "launch.longer" if now - begun > status.expected_ready_s else "launch.expected"
        facts.append(Markup("{}").format(text(key, language, seconds=round(status.expected_ready_s))))
    return Markup('<p class="vp-facts">{}</p>').format(
        Markup("").join(Markup("<span>{}</span>").format(f) for f in facts)
    )
