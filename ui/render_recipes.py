"""What the installer offers as HTML fragments, and the doors to environments that are there already."""

from collections.abc import Sequence

from markupsafe import Markup

from backend.environment.environment import EnvironmentKind
from backend.environment.views import RecipeOffer
from backend.setup.recipe import Recipe
from ui.numbers import disk_size
from ui.strings import Language, text

_RECIPE_WORDS = {"cpu": "env.recipe_cpu", "v100": "env.recipe_volta", "cpu-0.19.1": "env.recipe_older_cpu"}


def recipe_title(recipe: Recipe, language: Language) -> str:
    """A recipe's title in the page's language; its own where there are no words for it."""
    key = _RECIPE_WORDS.get(recipe.name)
    return text(key, language) if key else recipe.title


def render_recipes(offers: Sequence[RecipeOffer], language: Language) -> str:
    """What the installer offers, and the doors to environments that are there already."""
    cards = [_recipe(offer, language) for offer in offers]
    add = [
        Markup('<button class="vp-button is-small" data-do="env.form" data-kind="{}">{}</button>').format(
            kind.value, text(f"env.add_{kind.value}", language)
        )
        for kind in (EnvironmentKind.PYTHON, EnvironmentKind.DOCKER, EnvironmentKind.ADDRESS)
    ]
    return Markup(
        '<h2>{}</h2>{}<h2 class="vp-next">{}</h2><div class="vp-card"><p class="vp-muted">{}</p>'
        '<div class="vp-row vp-actions">{}</div></div>'
    ).format(
        text("env.install_heading", language),
        Markup("").join(cards),
        text("env.add_heading", language),
        text("env.add_info", language),
        Markup("").join(add),
    )


def recipe_needs(offer: RecipeOffer, language: Language) -> str:
    """What an installation takes: to download, on the disk, and what is free there."""
    return text(
        "env.needs",
        language,
        download=disk_size(offer.footprint.download_bytes),
        disk=disk_size(offer.footprint.disk_bytes),
        free=disk_size(offer.free_bytes),
    )


def _recipe(offer: RecipeOffer, language: Language) -> Markup:
    needs = recipe_needs(offer, language)
    trouble = offer.obstacle
    if offer.shortfall_bytes and not trouble:
        trouble = text("env.short", language, short=disk_size(offer.shortfall_bytes))
    words = text("env.installed" if offer.ready else "env.install", language)
    return Markup(
        '<div class="vp-card" data-recipe="{name}"><div class="vp-row"><h3>{title}</h3><span class="vp-push">'
        '<button class="vp-button is-small is-primary" data-do="env.install_form" data-recipe="{name}"{off}>{words}</button>'
        '</span></div><p class="vp-muted">{needs}</p>{trouble}</div>'
    ).format(
        name=offer.recipe.name,
        title=recipe_title(offer.recipe, language),
        off=Markup(" disabled") if offer.ready or trouble else "",
        words=words,
        needs="" if offer.ready else needs,
        trouble=reason(trouble) if trouble and not offer.ready else "",
    )


def reason(words: str, hint: str = "") -> Markup:
    """Why something is not as it should be, and what to do."""
    more = Markup('<div class="vp-hint">{}</div>').format(hint) if hint else Markup()
    return Markup('<div class="vp-reason"><div>{}</div>{}</div>').format(words, more)
