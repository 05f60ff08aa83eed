"""The launch form as a dialog: fields on the left, what they come to on the right."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from backend.environment.environment import EnvironmentState
from backend.environment.views import EnvironmentView, RecipeOffer
from backend.gpu.snapshot import GpuCard, GpuCardState
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Preset
from backend.reading import Missing
from ui.launch_form import EVERYWHERE, FieldKind, FormField, fields_for
from ui.numbers import GIB
from ui.render_environments import environment_title
from ui.render_forms import dialog
from ui.strings import Language, text

MODEL_LIST = "vp-models"


def render_launch_form(
    preset: Preset,
    values: Mapping[str, str],
    language: Language,
    *,
    views: Sequence[EnvironmentView],
    offers: Sequence[RecipeOffer],
    cards: Sequence[GpuCard],
    models: Sequence[str],
) -> str:
    """The whole dialog. What the values come to is filled in by the panel, now and at each change."""
    known = fields_for(preset)
    basic = [_field(field, values.get(field.name, ""), language) for field in known if field.basic]
    more = [_field(field, values.get(field.name, ""), language) for field in known if not field.basic]
    chooser = _environments(preset, values.get("environment", ""), views, offers, language)
    body = Markup(
        '<form class="vp-launch-form" data-form="launch.start" data-live="launch.consider" data-preset="{name}"'
        ' autocomplete="off"><div class="vp-form-fields"><div class="vp-fields">{chooser}{basic}</div>{cards}'
        '<details class="vp-fold" data-more><summary>{all}</summary><div class="vp-fields">{more}</div></details>{models}'
        '<input type="hidden" name="dropped" value=""></div>'
        '<div class="vp-form-result"><section data-slot="form/fit"></section><section data-slot="form/findings"></section>'
        '<section data-slot="form/command"></section></div><div class="vp-form-foot"><div class="vp-form-error" role="alert">'
        '</div><div class="vp-row vp-actions" data-slot="form/buttons"></div></div></form>'
    ).format(
        name=preset.name,
        chooser=chooser,
        basic=Markup("").join(basic),
        cards=_cards(preset, cards, language),
        all=text("form.all", language),
        more=Markup("").join(more),
        models=_model_names(models),
    )
    title = text("form.title", language, title=preset.title.in_language(language))
    return dialog(title, body, language)


def render_form_buttons(refused: bool, has_errors: bool, language: Language) -> str:
    """Launch, or launch anyway: what the panel believes will fail may still be tried."""
    words = text("form.launch_anyway" if has_errors else "form.launch", language)
    return Markup('<button type="submit" class="vp-button{}"{}>{}</button>').format(
        "" if has_errors else " is-primary", Markup(" disabled") if refused else "", words
    )


def _model_names(models: Sequence[str]) -> Markup:
    """What the model's field proposes: the models on this machine."""
    options = Markup("").join(Markup('<option value="{}"></option>').format(name) for name in models)
    return Markup('<datalist id="{}">{}</datalist>').format(MODEL_LIST, options)


def _field(field: FormField, value: str, language: Language) -> Markup:
    control = _control(field, value, language)
    return Markup(
        '<label class="vp-field{wide}" data-field="{name}"><span>{label}</span>{control}<small class="vp-muted">{cost}</small></label>'
    ).format(
        wide=" is-wide" if field.kind is FieldKind.LINES else "",
        name=field.name,
        label=text(f"field.{field.name}", language),
        control=control,
        cost=text(f"field.{field.name}_cost", language),
    )


def _control(field: FormField, value: str, language: Language) -> Markup:
    match field.kind:
        case FieldKind.LINES:
            return Markup('<textarea name="{}" rows="2" spellcheck="false">{}</textarea>').format(field.name, value)
        case FieldKind.SECRET:
            return Markup('<input type="password" name="{}" autocomplete="new-password">').format(field.name)
        case FieldKind.TEXT:
            proposals = Markup(' list="{}"').format(MODEL_LIST) if field.name == "model" else ""
            return Markup('<input type="text" name="{}" value="{}" spellcheck="false"{}>').format(
                field.name, value, proposals
            )
        case FieldKind.CHOICE | FieldKind.SWITCH:
            return _select(field, value, language)
        case _:
            empty = text("form.auto" if field.name == "port" else "form.as_engine", language)
            return Markup(
                '<input type="number" name="{}" value="{}" step="{}" min="{}" max="{}" placeholder="{}">'
            ).format(field.name, value, field.step or "any", field.least, field.most, empty)


def _select(field: FormField, value: str, language: Language) -> Markup:
    choices = [(choice, _choice_words(field, choice, language)) for choice in field.choices or ("on", "off")]
    if field.name == "host":
        choices.insert(0, ("", text("field.host_loopback", language)))
    elif not value:
        choices.insert(0, ("", text("form.as_engine", language)))
    return _options(field.name, choices, value)


def _choice_words(field: FormField, choice: str, language: Language) -> str:
    if choice in ("on", "off"):
        return text(f"form.{choice}", language)
    return text("field.host_all", language) if choice == EVERYWHERE else choice


def _options(name: str, choices: Sequence[tuple[str, str]], value: str) -> Markup:
    options = [
        Markup('<option value="{}"{}>{}</option>').format(choice, Markup(" selected") if choice == value else "", words)
        for choice, words in choices
    ]
    return Markup('<select name="{}">{}</select>').format(name, Markup("").join(options))


def _environments(
    preset: Preset, value: str, views: Sequence[EnvironmentView], offers: Sequence[RecipeOffer], language: Language
) -> Markup:
    """The environments that could run it; the panel picks the newest where none is named."""
    choices = [("", text("form.auto", language))]
    for view in views:
        if preset.engine in view.engine_kinds and view.environment.state is EnvironmentState.READY:
            version = f" (vLLM {view.probe.vllm})" if view.probe and view.probe.vllm else ""
            choices.append((view.environment.id, environment_title(view, offers, language) + version))
    return Markup(
        '<label class="vp-field" data-field="environment"><span>{}</span>{}<small class="vp-muted">{}</small></label>'
    ).format(
        text("field.environment", language),
        _options("environment", choices, value),
        text("field.environment_cost", language),
    )


def _cards(preset: Preset, cards: Sequence[GpuCard], language: Language) -> Markup:
    """Every card by its identity, with what is free on it now."""
    if preset.engine is EngineKind.CPU or not cards:
        return Markup()
    boxes = [_card(card, language) for card in cards]
    return Markup(
        '<fieldset class="vp-field" data-field="cards"><span>{}</span>{}<small class="vp-muted">{}</small></fieldset>'
    ).format(text("field.cards", language), Markup("").join(boxes), text("field.cards_cost", language))


def _card(card: GpuCard, language: Language) -> Markup:
    snapshot = card.snapshot
    if snapshot is None or card.state is not GpuCardState.OK:
        name = snapshot.name if snapshot else card.target
        return Markup('<label class="vp-check"><input type="checkbox" disabled> {} <b>{}</b></label>').format(
            name, text(f"card.{card.state.value}", language)
        )
    return Markup(
        '<label class="vp-check" title="{uuid}"><input type="checkbox" name="card/{uuid}"> GPU {index} {name}: '
        '<span data-slot="form/card/{uuid}"></span></label>'
    ).format(uuid=snapshot.uuid, index=snapshot.index, name=snapshot.name)


def card_slots(cards: Sequence[GpuCard], language: Language) -> dict[str, str]:
    """What is free on each card now, by the slot that shows it."""
    slots: dict[str, str] = {}
    for snapshot in (card.snapshot for card in cards):
        if snapshot is None:
            continue
        used, total = snapshot.memory_used_bytes, snapshot.memory_total_bytes
        free = text("bar.unknown", language)
        if not isinstance(used, Missing) and not isinstance(total, Missing):
            free = text("field.card_free", language, free=f"{(total - used) / GIB:.1f}", total=f"{total / GIB:.1f}")
        slots[f"form/card/{snapshot.uuid}"] = Markup("{}").format(free)
    return slots
