"""The shelf of presets as HTML fragments: one small card each, what it needs, and what can be done with it."""

from collections.abc import Sequence

from markupsafe import Markup

from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Preset
from backend.launch.shelf import PresetShelf
from backend.launcher import Obstacle, PresetOffer
from ui.numbers import tokens
from ui.strings import Language, text


def render_shelf_head(language: Language) -> str:
    """Heading, search and the import button; apart from the cards, so that what was typed stays."""
    return Markup(
        '<div class="vp-row"><h2>{heading}</h2><button class="vp-button is-small vp-push" data-do="preset.import_form">{add}</button></div>'
        '<input type="search" class="vp-search" data-search="presets" placeholder="{search}" aria-label="{search}">'
    ).format(
        heading=text("launch.presets", language),
        add=text("preset.import", language),
        search=text("preset.search", language),
    )


def preset_cards(offers: Sequence[PresetOffer], shelf: PresetShelf, language: Language) -> list[tuple[str, str]]:
    """Every preset as (key, HTML), those that can be started first; broken files at the end, named."""
    ordered = sorted(
        offers,
        key=lambda offer: (offer.obstacle is not None, not offer.own, offer.preset.engine is not EngineKind.VOLTA),
    )
    cards = [(f"preset/{offer.preset.name}", _card(offer, language)) for offer in ordered]
    cards += [(f"problem/{number}", _problem(problem, language)) for number, problem in enumerate(shelf.problems)]
    if not cards:
        cards = [("none", Markup('<div class="vp-empty">{}</div>').format(text("launch.no_presets", language)))]
    return cards


def _problem(problem: str, language: Language) -> str:
    return Markup('<div class="vp-card"><b>{}</b><div class="vp-muted">{}</div></div>').format(
        text("launch.broken_preset", language), problem
    )


def _card(offer: PresetOffer, language: Language) -> str:
    preset = offer.preset
    return Markup(
        '<div class="vp-card vp-preset" data-preset-card="{name}" data-words="{words}"><div class="vp-row"><h3>{title}</h3>'
        '<span class="vp-push">{start}</span></div><p class="vp-muted">{summary}</p><p class="vp-facts">{facts}</p>{obstacle}{menu}</div>'
    ).format(
        name=preset.name,
        words=_searchable(preset),
        title=preset.title.in_language(language),
        start=_start_button(offer, language),
        summary=preset.summary.in_language(language),
        facts=Markup("").join(Markup("<span>{}</span>").format(fact) for fact in _facts(offer, language)),
        obstacle=_obstacle(offer, language),
        menu=_menu(offer, language),
    )


def _searchable(preset: Preset) -> str:
    """What the search looks through, in both languages."""
    words = (
        preset.name,
        preset.title.en,
        preset.title.zh,
        preset.model.name,
        preset.card.name if preset.card else "CPU",
    )
    return " ".join(words).lower()


def _start_button(offer: PresetOffer, language: Language) -> Markup:
    words = text("launch.running" if offer.running else "launch.start", language)
    blocked = offer.running or offer.obstacle is not None
    return Markup(
        '<button class="vp-button is-small is-primary" data-do="engine.start" data-preset="{}"{}>{}</button>'
    ).format(offer.preset.name, Markup(" disabled") if blocked else "", words)


def _facts(offer: PresetOffer, language: Language) -> list[str | Markup]:
    preset = offer.preset
    facts: list[str | Markup] = [text("launch.context", language, tokens=tokens(preset.context))]
    if preset.card is None:
        facts.append(text("launch.on_cpu", language))
    else:
        key = "preset.cards_one" if preset.gpus == 1 else "preset.cards_many"
        facts.append(text(key, language, count=preset.gpus, card=preset.card.name))
    if preset.quantization != "none":
        facts.append(preset.quantization.upper())
    if preset.model.verified is None and (preset.model.huggingface or preset.model.modelscope):
        facts.append(
            Markup('<span title="{}">{}</span>').format(
                text("preset.unverified_info", language), text("preset.unverified", language)
            )
        )
    return facts


def _obstacle(offer: PresetOffer, language: Language) -> Markup:
    match offer.obstacle:
        case None:
            return Markup()
        case Obstacle.ENVIRONMENT:
            words = text(f"preset.needs_{offer.preset.engine.value}", language)
            button = Markup(' <button class="vp-link" data-do="tab" data-tab="environments">{}</button>').format(
                text("preset.get_environment", language)
            )
        case Obstacle.MODEL:
            words, button = text("preset.needs_model", language, model=offer.preset.model.name), Markup()
        case _:
            words, button = f"{text('launch.not_prepared', language)}: {offer.obstacle_words}", Markup()
    return Markup('<p class="vp-obstacle" title="{}">{}{}</p>').format(offer.obstacle_words, words, button)


def _menu(offer: PresetOffer, language: Language) -> Markup:
    title = offer.preset.title.in_language(language)
    entries = [
        ("launch.form", ""),
        ("preset.edit" if offer.own else "preset.view", ""),
        ("preset.copy", ""),
        ("preset.export", ""),
    ]
    if offer.own:
        entries.append(("preset.delete", text("preset.delete_sure", language, title=title)))
    buttons = [
        Markup('<button class="vp-link" data-do="{}" data-preset="{}"{}>{}</button>').format(
            action,
            offer.preset.name,
            Markup(' data-confirm="{}"').format(sure) if sure else "",
            text("form.configure" if action == "launch.form" else action, language),
        )
        for action, sure in entries
    ]
    return Markup('<p class="vp-menu">{}</p>').format(Markup("").join(buttons))
