"""Engines as HTML fragments: state, stages, failure, notices, how each is cared for, command and snippets."""

import re
import signal

from markupsafe import Markup

from backend.engine.care import Care
from backend.engine.engine import Engine
from backend.engine.status import STARTABLE_STATES, EngineState, EngineStatus, Stage
from backend.launch.notes import note_words
from backend.launch.plan import LaunchSpec
from backend.launch.shelf import PresetShelf
from backend.launch.snippets import curl_snippet, python_snippet
from backend.reading import Missing
from ui.icons import icon, state_icon
from ui.render_failure import render_failure
from ui.render_log import render_log
from ui.strings import STRINGS, Language, text


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


def render_engine_frame(engine: Engine, language: Language) -> str:
    """The lasting part of an engine's card; what changes is in slots of its own, so that folds stay open."""
    engine_id, spec = engine.engine_id, engine.spec
    log = render_log(engine_id, language, download=f"engines/{engine_id}/log")
    folds = [
        Markup('<details class="vp-fold" open><summary>{}</summary>{}</details>').format(
            text("launch.log", language), log
        ),
        Markup('<div data-slot="engine/{}/runs"></div>').format(engine_id),
    ]
    if spec is not None:
        use = Markup("<div>{}</div>{}<div>{}</div>{}").format(
            text("launch.python", language),
            render_snippet(python_snippet(spec), language),
            text("launch.curl", language),
            render_snippet(curl_snippet(spec), language),
        )
        notes = Markup("").join(
            Markup('<p class="vp-muted">{}</p>').format(note_words(note, language)) for note in spec.notes
        )
        folds.append(_fold(text("launch.command", language), notes + render_snippet(spec.shell_line(), language)))
        folds.append(_fold(text("launch.use", language), use))
    return Markup(
        '<div class="vp-card vp-engine" data-engine="{id}"><div data-slot="engine/{id}"></div>'
        '<div data-slot="engine/{id}/now"></div><div data-slot="engine/{id}/fit"></div>'
        '<div data-slot="engine/{id}/care"></div>{folds}</div>'
    ).format(id=engine_id, folds=Markup("").join(folds))


def _fold(title: str, body: Markup) -> Markup:
    return Markup('<details class="vp-fold"><summary>{}</summary>{}</details>').format(title, body)


def render_snippet(code: str, language: Language) -> Markup:
    """Code with a button that copies it."""
    return Markup(
        '<div class="vp-snippet" data-copy-from><pre>{}</pre>'
        '<button type="button" class="vp-button is-small" data-do="copy">{} {}</button></div>'
    ).format(code, Markup(icon("copy")), text("copy", language))


def render_engine_head(engine: Engine, title: str, language: Language) -> str:
    """Title, state and buttons of an engine's card. Apart from what moves, or a click on a button would get lost."""
    status = engine.status
    return Markup(
        '<div class="vp-row"><h3>{title}</h3>{state}<span class="vp-row vp-push">{buttons}</span></div>'
        '<p class="vp-facts">{facts}</p>'
    ).format(
        title=title,
        state=render_state(status.state, language),
        facts=_facts(engine, language),
        buttons=_buttons(engine.engine_id, title, status, language),
    )


def render_engine_now(engine: Engine, last_line: str, language: Language, *, now: float) -> str:
    """What moves in an engine's card: stages, elapsed time, the newest log line; why it failed, or why it is slow."""
    status = engine.status
    body = Markup()
    if status.state is EngineState.STARTING or (status.state is EngineState.FAILED and status.progress):
        body += _stages(status, language)
    if status.state is EngineState.STARTING:
        body += _elapsed(status, language, now=now) + Markup('<div class="vp-nowline">{}</div>').format(last_line)
    if status.stop_phase is not None:
        body += Markup('<p class="vp-muted">{}</p>').format(text(f"stop.{status.stop_phase.value}", language))
    for notice in status.notices:
        words = text(f"notice.{notice.key.value}", language, **notice.values)
        body += Markup('<div class="vp-notice">{} {}</div>').format(Markup(icon("warning")), words)
    if status.state is EngineState.FAILED and status.failure is not None:
        body += render_failure(status.failure, engine.engine_id, language)
    elif status.reason and status.state not in (EngineState.READY, EngineState.STOPPING):
        body += Markup('<div class="vp-reason"><div>{}</div><div class="vp-hint">{}</div></div>').format(
            status.reason, status.hint
        )
    if status.restart_at is not None:
        body += Markup('<p class="vp-muted">{} <time data-until="{}"></time></p>').format(
            text("launch.next_try", language), round(status.restart_at)
        )
    if status.gave_up is not None:
        body += Markup('<p class="vp-muted">{}</p>').format(text(f"gave_up.{status.gave_up.value}", language))
    return body


def render_care(engine_id: str, care: Care, language: Language) -> str:
    """Whether it starts at boot and again after a crash: two boxes to tick."""
    boxes = [
        Markup(
            '<label class="vp-check"><input type="checkbox" data-change="engine.care" data-engine="{}" data-care="{}"{}> {}</label>'
        ).format(engine_id, name, Markup(" checked") if ticked else "", text(f"launch.{name}", language))
        for name, ticked in (("autostart", care.autostart), ("restart_on_crash", care.restart_on_crash))
    ]
    return Markup('<div class="vp-row vp-care">{}</div>').format(Markup("").join(boxes))


def render_state(state: EngineState, language: Language) -> Markup:
    """Icon and word of a state, in its colour."""
    return Markup('<span class="vp-state is-{}" data-state="{}">{}<span class="vp-word">{}</span></span>').format(
        state.value, state.value, Markup(state_icon(state)), text(f"state.{state.value}", language)
    )


def _facts(engine: Engine, language: Language) -> Markup:
    status = engine.status
    facts: list[Markup | str] = []
    if status.run is not None:
        facts.append(text("launch.run", language, number=status.run))
    if status.state in (EngineState.READY, EngineState.UNREACHABLE) and status.ready_at is not None:
        facts.append(
            Markup('{} <time data-since="{}"></time>').format(text("launch.uptime", language), round(status.ready_at))
        )
        if status.started_at is not None:
            facts.append(text("launch.ready_after", language, seconds=round(status.ready_at - status.started_at)))
    facts += _memory_facts(status, language)
    if engine.spec is not None:
        changes = changes_words(engine.spec, language)
        if changes:
            facts.append(text("launch.changed", language, changes=changes))
    if status.restarts:
        facts.append(text("launch.restarts", language, count=status.restarts))
    if status.adopted and status.state not in STARTABLE_STATES:
        facts.append(text("launch.adopted", language))
    if status.state is EngineState.FAILED and status.returncode is not None:
        facts.append(_exit(status.returncode, language))
    return Markup("").join(Markup("<span>{}</span>").format(fact) for fact in facts)


def _memory_facts(status: EngineStatus, language: Language) -> list[Markup]:
    """Only while it runs, and only what was read: blank beats wrong."""
    if status.state in STARTABLE_STATES:
        return []
    facts = []
    for key, reading in (("launch.memory", status.memory_bytes), ("launch.gpu_memory", status.gpu_memory_bytes)):
        if reading is not None and not isinstance(reading, Missing):
            size = f"{reading / 2**30:.1f} GiB" if reading >= 2**29 else f"{reading / 2**20:.0f} MiB"
            facts.append(Markup("{}").format(text(key, language, size=size)))
    return facts


def changes_words(spec: LaunchSpec, language: Language) -> str:
    """What was changed about the preset for this launch: "context 896", by the names that the form has."""
    changed = [
        f"{_field_name(name, language)} {value}{' GiB' if name.endswith('_gib') else ''}"
        for name, value in spec.adjustments.changes().items()
    ]
    changed += [f"--{flag}" for flag in spec.adjustments.flags]  # names alone: a value may be long, or a secret
    changed += list(spec.adjustments.env)
    changed += [f"- --{flag}" for flag in spec.adjustments.dropped_flags]
    return ", ".join(changed)


def _field_name(name: str, language: Language) -> str:
    key = f"field.{name}"
    if key not in STRINGS:
        return name.replace("_", " ")
    label = re.sub(r"\s*[(（].*", "", text(key, language))  # the unit in brackets goes with the field alone
    return label if label.isupper() or label[:2].isupper() else label[:1].lower() + label[1:]


def _exit(returncode: int, language: Language) -> str:
    if returncode >= 0:
        return text("launch.exit_code", language, code=returncode)
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = str(-returncode)
    return text("launch.signal", language, signal=name)


def _buttons(engine_id: str, title: str, status: EngineStatus, language: Language) -> Markup:
    state = status.state
    if state in STARTABLE_STATES:
        again = _button("engine.restart", engine_id, text("launch.start", language))
        sure = Markup(' data-confirm="{}"').format(text("launch.remove_sure", language, title=title))
        return again + _button("engine.remove", engine_id, text("launch.remove", language), more=sure)
    off = Markup(" disabled") if state is EngineState.STOPPING else Markup()
    buttons = _button("engine.stop", engine_id, text("launch.stop", language), more=off)
    if state in (EngineState.READY, EngineState.UNREACHABLE):
        info = Markup(' title="{}"').format(text("launch.restart_info", language))
        buttons = _button("engine.restart", engine_id, text("launch.restart", language), more=info) + buttons
    if state is EngineState.READY:
        tab = Markup(' data-tab="chat"')
        buttons = _button("chat.with", engine_id, text("launch.chat", language), more=tab) + buttons
    return buttons


def _button(action: str, engine_id: str, words: str, *, more: Markup | str = "") -> Markup:
    return Markup('<button class="vp-button is-small" data-do="{}" data-engine="{}"{}>{}</button>').format(
        action, engine_id, more, words
    )


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
