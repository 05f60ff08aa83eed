"""The always-visible status bar as an HTML fragment: engines, host, and one entry a card or the reason why there is none."""

from markupsafe import Markup

from backend.engine.status import EngineState
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuView, NoDriver
from backend.host import HostSnapshot
from backend.panel import Panel
from backend.reading import Missing
from ui.icons import icon
from ui.numbers import gib, percent, with_unit
from ui.render_engine import engine_title, render_state
from ui.strings import Language, text

_CARD_COLOURS = {
    GpuCardState.STARTING: "stopped",
    GpuCardState.OK: "ready",
    GpuCardState.LOST: "failed",
    GpuCardState.HUNG: "unknown",
    GpuCardState.DENIED: "unknown",
    GpuCardState.NO_POWER: "failed",
    GpuCardState.NEEDS_RESET: "failed",
    GpuCardState.UNBOUND: "unknown",
    GpuCardState.FAILED: "failed",
}
"""The state colour of a card."""


def render_status(panel: Panel, language: Language, *, now: float) -> str:
    """Engine chips, host meters and the GPU strip."""
    return Markup('<div class="vp-chips" id="vp-engines">{}</div><div class="vp-meters">{}{}</div>').format(
        _chips(panel, language), _host(panel.host.snapshot(), language), _gpus(panel.gpus.view(), language, now=now)
    )


def _chips(panel: Panel, language: Language) -> Markup:
    chips = [
        Markup('<span class="vp-chip" data-chip="{}">{}<b>{}</b>{}</span>').format(
            engine_id,
            render_state(engine.status.state, language),
            engine_title(engine, panel.launcher.shelf, language),
            _uptime(engine.status.ready_at, engine.status.state, language),
        )
        for engine_id, engine in panel.fleet.engines.items()
        if engine.spec is not None and engine.status.state is not EngineState.STOPPED
    ]
    if not chips:
        return Markup('<span class="vp-muted">{}</span>').format(text("bar.no_engine", language))
    return Markup("").join(chips)


def _uptime(ready_at: float | None, state: EngineState, language: Language) -> Markup:
    if ready_at is None or state not in (EngineState.READY, EngineState.UNREACHABLE):
        return Markup()
    return Markup('<span class="vp-unit vp-up">{} <time data-since="{}"></time></span>').format(
        text("bar.up", language), round(ready_at)
    )


def _host(host: HostSnapshot | None, language: Language) -> Markup:
    if host is None:
        return Markup()
    meters = []
    if not isinstance(host.cpu_percent, Missing):
        meters.append(
            _meter("cpu", text("bar.cpu", language), with_unit(f"{host.cpu_percent:.0f}", "%"), round(host.cpu_percent))
        )
    if not isinstance(host.memory_used_bytes, Missing) and not isinstance(host.memory_total_bytes, Missing):
        used, total = host.memory_used_bytes, host.memory_total_bytes
        words = Markup('{} <span class="vp-unit">/</span> {}').format(f"{used / 2**30:.1f}", gib(total))
        meters.append(_meter("memory", text("bar.memory", language), words, percent(used, total)))
    if not isinstance(host.disk_free_bytes, Missing):
        meters.append(_meter("disk", text("bar.disk_free", language), gib(host.disk_free_bytes), None))
    return Markup("").join(meters)


def _meter(name: str, label: str, words: Markup, filled: int | None) -> Markup:
    track = (
        Markup('<span class="vp-track"><i style="width:{}%"></i></span>').format(filled) if filled is not None else ""
    )
    return Markup(
        '<span class="vp-meter is-{}" data-meter="{}"><span class="vp-muted">{}</span>{}<span>{}</span></span>'
    ).format(name, name, label, track, words)


def _gpus(view: GpuView, language: Language, *, now: float) -> Markup:
    if view.no_driver is not None:
        return _no_driver(view.no_driver, language)
    return Markup("").join(_card(card, language, now=now) for card in view.cards)


def _no_driver(gap: NoDriver, language: Language) -> Markup:
    return Markup(
        '<span class="vp-meter" data-meter="gpu" title="{}"><span class="vp-state is-stopped">{}</span><span>{}</span></span>'
    ).format(gap.sentence, Markup(icon("stopped")), text(f"gap.{gap.gap.value}", language))


def _card(card: GpuCard, language: Language, *, now: float) -> Markup:
    kind = _CARD_COLOURS[card.state]
    name = card.snapshot.name if card.snapshot else card.target
    if card.state is not GpuCardState.OK or card.snapshot is None:
        words = text(f"card.{card.state.value}", language)
        age = _last_seen(card, language)
        return Markup(
            '<span class="vp-meter" data-meter="gpu" title="{}"><span class="vp-state is-{}">{}</span>'
            "<span>{}</span><span>{}</span>{}</span>"
        ).format(
            card.detail or name, kind, Markup(icon("failed" if kind == "failed" else "unreachable")), name, words, age
        )
    return _reading(card, language)


def _last_seen(card: GpuCard, language: Language) -> Markup:
    if card.snapshot is None:
        return Markup()
    return Markup('<span class="vp-unit">{} <time data-since="{}"></time></span>').format(
        text("card.last_seen", language), round(card.snapshot.taken_at)
    )


def _reading(card: GpuCard, language: Language) -> Markup:
    assert card.snapshot is not None
    snapshot = card.snapshot
    used, total = snapshot.memory_used_bytes, snapshot.memory_total_bytes
    parts = [Markup('<span class="vp-muted" title="{}">GPU {}</span>').format(snapshot.name, snapshot.index)]
    if isinstance(used, Missing) or isinstance(total, Missing):
        parts.append(
            Markup('<span class="vp-muted">{} {}</span>').format(
                text("bar.vram", language), text("bar.unknown", language)
            )
        )
    else:
        parts.append(Markup('<span class="vp-track"><i style="width:{}%"></i></span>').format(percent(used, total)))
        parts.append(
            Markup('<span>{} <span class="vp-unit">/</span> {}</span>').format(f"{used / 2**30:.1f}", gib(total))
        )
    temperatures = [
        t for t in (snapshot.core_temperature_c, snapshot.memory_temperature_c) if not isinstance(t, Missing)
    ]
    if temperatures:
        parts.append(Markup("<span>{}</span>").format(with_unit("/".join(str(t) for t in temperatures), "°C")))
    return Markup('<span class="vp-meter" data-meter="gpu">{}</span>').format(Markup("").join(parts))
