"""The environments page as HTML fragments: what can run engines, what can be installed, and how an installation goes."""

from collections.abc import Sequence

from markupsafe import Markup

from backend.environment.environment import EnvironmentKind, EnvironmentState, LackKey
from backend.environment.probe import EnvironmentProbe
from backend.environment.views import AttachedState, EnvironmentView, InstallProgress, InstallState, RecipeOffer
from backend.launch.engine_kind import EngineKind
from ui.icons import icon
from ui.numbers import disk_size
from ui.render_log import render_log
from ui.render_recipes import reason, recipe_title
from ui.strings import Language, text

LACK_WORDS = {
    LackKey.NO_SM70: "env.lack_no_sm_seventy",
    LackKey.NO_DFLASH2: "env.lack_no_dflash",
    LackKey.BROKEN_DFLASH2: "env.lack_broken_dflash",
    LackKey.CUDA13: "env.lack_cuda_thirteen",
    LackKey.CPU_BUILD: "env.lack_cpu_build",
    LackKey.NEW_VLLM: "env.lack_new_vllm",
    LackKey.NO_CARD: "env.lack_no_card",
    LackKey.NO_V100: "env.lack_no_volta_card",
    LackKey.NO_DRIVER: "env.lack_no_driver",
    LackKey.OLD_DRIVER: "env.lack_old_driver",
    LackKey.NO_FLAGS: "env.lack_no_flags",
}
_STATE_COLOURS = {
    EnvironmentState.INSTALLING: "starting",
    EnvironmentState.FAILED: "failed",
    EnvironmentState.READY: "ready",
    EnvironmentState.BROKEN: "failed",
}
_SERVER_COLOURS = {
    AttachedState.CHECKING: "starting",
    AttachedState.READY: "ready",
    AttachedState.UNREACHABLE: "unreachable",
}


def environment_title(view: EnvironmentView, offers: Sequence[RecipeOffer], language: Language) -> str:
    """What people call it: the name they gave it, else its recipe's title, else where it lies."""
    environment = view.environment
    if environment.title:
        return environment.title
    recipe = next((offer.recipe for offer in offers if offer.recipe.name == environment.recipe), None)
    if recipe is not None:
        return recipe_title(recipe, language)
    return environment.image or environment.address or str(environment.external_python or environment.id)


def render_environment_frame(view: EnvironmentView, language: Language) -> str:
    """The lasting part of a card; what changes is a slot, so that the log keeps its place."""
    name = view.environment.id
    log = Markup()
    if view.environment.kind is EnvironmentKind.MANAGED:
        log = Markup('<details class="vp-fold"><summary>{}</summary>{}</details>').format(
            text("env.log", language), render_log(f"install/{name}", language)
        )
    return Markup(
        '<div class="vp-card" data-environment="{id}"><div data-slot="environment/{id}"></div>{log}</div>'
    ).format(id=name, log=log)


def render_environment(view: EnvironmentView, title: str, language: Language) -> str:
    """Title, state, facts, what is missing, the installation, and the buttons."""
    body = [
        Markup('<div class="vp-row"><h3>{}</h3>{}<span class="vp-row vp-push">{}</span></div>').format(
            title, _state(view, language), _buttons(view, title, language)
        ),
        _facts(view, language),
    ]
    if view.environment.kind is EnvironmentKind.ADDRESS:
        body.append(_server(view, language))
    if view.install is not None:
        body.append(_installation(view.install, language))
    elif view.environment.reason:
        body.append(reason(view.environment.reason))
    if view.probe_error:
        body.append(reason(view.probe_error))
    if view.missing and view.engine_kinds - {EngineKind.CPU}:  # a CPU build is not meant for cards
        body.append(_missing(view, language))
    return Markup("").join(body)


def _state(view: EnvironmentView, language: Language) -> Markup:
    if view.server is not None:
        return _word(_SERVER_COLOURS[view.server.state], text(f"env.server_{view.server.state.value}", language))
    if view.install is not None:
        failed = view.install.state in (InstallState.FAILED, InstallState.INTERRUPTED)
        return _word("failed" if failed else "starting", text(f"env.install_{view.install.state.value}", language))
    state = view.environment.state
    return _word(_STATE_COLOURS[state], text(f"env.state_{state.value}", language))


def _word(colour: str, words: str) -> Markup:
    return Markup('<span class="vp-state is-{0}" data-state="{0}">{1}<span class="vp-word">{2}</span></span>').format(
        colour, Markup(icon(colour)), words
    )


def _facts(view: EnvironmentView, language: Language) -> Markup:
    facts: list[Markup | str] = [text(f"env.kind_{view.environment.kind.value}", language)]
    if view.probe is not None:
        facts += _versions(view.probe, language)
        facts += [text(f"env.runs_{kind.value}", language) for kind in sorted(view.engine_kinds)]
    if view.disk_bytes is not None:
        facts.append(text("env.on_disk", language, size=disk_size(view.disk_bytes)))
    lines = [_fact_line(facts)]
    if view.probe is not None and view.probe.torch_archs:
        archs = " ".join(view.probe.torch_archs)
        lines.append(Markup('<p class="vp-muted">{} {}</p>').format(text("env.archs", language), archs))
    if view.probing:
        lines.append(Markup('<p class="vp-muted">{}…</p>').format(text("env.looking", language)))
    elif view.probe is not None:
        lines.append(
            Markup('<p class="vp-muted">{} <time data-since="{}"></time> {}</p>').format(
                text("env.looked", language), round(view.probe.taken_at), text("env.ago", language)
            )
        )
    elif view.environment.state is EnvironmentState.READY and view.server is None:
        lines.append(Markup('<p class="vp-muted">{}</p>').format(text("env.never_looked", language)))
    return Markup("").join(lines)


def _versions(probe: EnvironmentProbe, language: Language) -> list[Markup | str]:
    facts: list[Markup | str] = []
    if probe.vllm:
        facts.append(f"vLLM {probe.vllm}")
    facts.append(f"torch {probe.torch}")
    facts.append(text("env.cuda", language, version=probe.cuda) if probe.cuda else text("env.cpu_build", language))
    facts.append(f"Python {probe.python}")
    facts.append(text("env.flags", language, count=len(probe.flags)))
    return facts


def _fact_line(facts: Sequence[Markup | str]) -> Markup:
    return Markup('<p class="vp-facts">{}</p>').format(
        Markup("").join(Markup("<span>{}</span>").format(fact) for fact in facts)
    )


def _server(view: EnvironmentView, language: Language) -> Markup:
    server = view.server
    if server is None:
        return Markup()
    lines = [Markup("<p><code>{}</code></p>").format(server.address)]
    if server.models:
        facts: list[Markup | str] = [
            text("env.serves", language, models=", ".join(model.id for model in server.models[:4]))
        ]
        if server.version:
            facts.append(f"vLLM {server.version}")
        lines.append(_fact_line(facts))
    if server.reason:
        lines.append(reason(server.reason))
    return Markup("").join(lines)


def _installation(progress: InstallProgress, language: Language) -> Markup:
    lines = []
    if progress.steps:
        done = max(0, progress.step - 1) * 100 // progress.steps
        step = text("env.step", language, step=progress.step, steps=progress.steps, title=progress.title)
        lines.append(
            Markup(
                '<p>{}</p><div class="vp-progress" role="progressbar" aria-valuenow="{}"><i style="width:{}%"></i></div>'
            ).format(step, done, done)
        )
    if progress.state is InstallState.RUNNING:
        facts: list[Markup | str] = []
        if progress.started_at is not None:
            facts.append(
                Markup('{} <time data-since="{}"></time>').format(
                    text("launch.elapsed", language), round(progress.started_at)
                )
            )
        if progress.fetched_bytes is not None:
            facts.append(text("env.fetched", language, size=disk_size(progress.fetched_bytes)))
        if progress.disk_bytes is not None:
            facts.append(text("env.on_disk", language, size=disk_size(progress.disk_bytes)))
        lines.append(_fact_line(facts))
        lines.append(Markup('<div class="vp-nowline">{}</div>').format(progress.doing))
    if progress.reason:
        lines.append(reason(progress.reason, progress.hint))
    return Markup("").join(lines)


def _missing(view: EnvironmentView, language: Language) -> Markup:
    items = [
        Markup("<li>{}{}</li>").format(
            text(LACK_WORDS[lack.key], language),
            Markup(' <span class="vp-muted">({})</span>').format(lack.detail) if lack.detail else "",
        )
        for lack in view.missing
    ]
    return Markup('<div class="vp-missing"><span class="vp-muted">{}</span><ul>{}</ul></div>').format(
        text("env.missing", language), Markup("").join(items)
    )


def _buttons(view: EnvironmentView, title: str, language: Language) -> Markup:
    buttons = []
    if view.install is not None and view.install.state in (InstallState.RUNNING, InstallState.QUEUED):
        return _button("env.cancel", view, text("env.cancel", language))
    if view.install is not None and view.install.state is InstallState.CANCELLING:
        return Markup()
    if view.install is not None:
        buttons.append(_button("env.resume", view, text("env.resume", language), primary=True))
    elif view.environment.kind is not EnvironmentKind.ADDRESS and not view.probing:
        buttons.append(_button("env.probe", view, text("env.look_again", language)))
    buttons.append(
        _button("env.remove", view, text("env.remove", language), sure=text("env.remove_sure", language, title=title))
    )
    return Markup("").join(buttons)


def _button(action: str, view: EnvironmentView, words: str, *, primary: bool = False, sure: str = "") -> Markup:
    return Markup('<button class="vp-button is-small{}" data-do="{}" data-environment="{}"{}>{}</button>').format(
        " is-primary" if primary else "",
        action,
        view.environment.id,
        Markup(' data-confirm="{}"').format(sure) if sure else "",
        words,
    )


def render_no_environments(nothing_there: bool, language: Language) -> str:
    """The heading of the list, and one sentence while it is empty."""
    empty = Markup('<div class="vp-card vp-empty">{}</div>').format(text("env.none", language))
    return Markup("<h2>{}</h2>{}").format(text("env.heading", language), empty if nothing_there else "")
