"""Dialogs as HTML: presets to view, edit and import, environments to add and install. Each form is one action."""

from collections.abc import Sequence

from markupsafe import Markup

from backend.environment.environment import EnvironmentKind
from backend.environment.views import RecipeOffer
from ui.render_recipes import recipe_needs, recipe_title
from ui.strings import Language, text


def dialog(title: str, body: Markup, language: Language) -> str:
    """A dialog's frame: its title, its body, and a way out."""
    return Markup(
        '<div class="vp-row"><h3>{}</h3><button class="vp-button is-small vp-push" data-close>{}</button></div>{}'
    ).format(title, text("dialog.close", language), body)


def form(action: str, fields: Markup, submit: str, *, data: Markup | str = "") -> Markup:
    """A form that sends its fields as one action; what the panel refuses is said above its button."""
    return Markup(
        '<form data-form="{}"{} autocomplete="off">{}<div class="vp-form-error" role="alert"></div>'
        '<div class="vp-row vp-actions"><button type="submit" class="vp-button is-primary">{}</button></div></form>'
    ).format(action, data, fields, submit)


def text_field(
    name: str, label: str, *, info: str = "", kind: str = "text", value: str = "", focus: bool = False
) -> Markup:
    """One line of input with its label."""
    return Markup(
        '<label class="vp-field"><span>{}</span><input type="{}" name="{}" value="{}"{} spellcheck="false" autocomplete="{}">{}</label>'
    ).format(
        label,
        kind,
        name,
        value,
        Markup(" autofocus") if focus else "",
        "new-password" if kind == "password" else "off",
        _info(info),
    )


def text_area(
    name: str, label: str, *, value: str = "", info: str = "", rows: int = 18, readonly: bool = False
) -> Markup:
    """Several lines of input, in a monospaced face."""
    return Markup(
        '<label class="vp-field"><span>{}</span><textarea name="{}" rows="{}" spellcheck="false"{}>{}</textarea>{}</label>'
    ).format(label, name, rows, Markup(" readonly") if readonly else Markup(" autofocus"), value, _info(info))


def _info(words: str) -> Markup:
    return Markup('<small class="vp-muted">{}</small>').format(words) if words else Markup()


def render_preset_view(name: str, words: str, language: Language) -> str:
    """A shipped preset, to read."""
    body = text_area("text", text("preset.text", language), value=words, readonly=True)
    return dialog(text("preset.view_title", language, name=name), body, language)


def render_preset_editor(name: str, words: str, language: Language) -> str:
    """A preset of the lab's own, to change."""
    area = text_area("text", text("preset.text", language), value=words, info=text("preset.edit_info", language))
    data = Markup(' data-replacing="{}"').format(name)
    body = form("preset.save", area, text("preset.save", language), data=data)
    return dialog(text("preset.edit_title", language, name=name), body, language)


def render_import(language: Language) -> str:
    """Where a command, a config.env or a preset is pasted."""
    area = text_area("text", text("preset.text", language), info=text("preset.import_info", language), rows=10)
    file = Markup('<label class="vp-field"><span>{}</span><input type="file" data-fills="text"></label>').format(
        text("preset.import_file", language)
    )
    body = form("preset.import", area + file, text("preset.import_read", language))
    return dialog(text("preset.import_title", language), body, language)


def render_import_check(words: str, notes: Sequence[str], language: Language) -> str:
    """What became of the import, to check and save; what was changed or left out stands above it."""
    listed = Markup()
    if notes:
        listed = Markup('<div class="vp-missing"><span class="vp-muted">{}</span><ul>{}</ul></div>').format(
            text("preset.import_notes", language), Markup("").join(Markup("<li>{}</li>").format(note) for note in notes)
        )
    area = text_area("text", text("preset.text", language), value=words, info=text("preset.edit_info", language))
    body = listed + form("preset.save", area, text("preset.save", language))
    return dialog(text("preset.check_title", language), body, language)


def render_environment_form(kind: EnvironmentKind, language: Language) -> str:
    """What has to be said to add a Python, an image or a server."""

    def words(key: str) -> str:
        return text(key, language)

    fields = {
        EnvironmentKind.PYTHON: text_field(
            "path", words("env.field_python"), info=words("env.field_python_info"), focus=True
        ),
        EnvironmentKind.DOCKER: text_field(
            "image", words("env.field_image"), info=words("env.field_image_info"), focus=True
        ),
        EnvironmentKind.ADDRESS: text_field(
            "address", words("env.field_address"), info=words("env.field_address_info"), kind="url", focus=True
        )
        + text_field("key", words("env.field_key"), info=words("env.field_key_info"), kind="password"),
    }[kind]
    title = text_field("title", words("env.field_title"))
    data = Markup(' data-kind="{}"').format(kind.value)
    return dialog(
        words(f"env.add_{kind.value}"), form("env.add", fields + title, words("env.add"), data=data), language
    )


def render_install_form(offer: RecipeOffer, language: Language) -> str:
    """Where an installation may be told of mirrors."""
    fields = text_field("index", text("env.mirror", language), info=text("env.mirror_info", language), kind="url")
    fields += text_field("extra", text("env.extra_index", language), kind="url")
    fields = Markup('<p class="vp-muted">{}</p>').format(recipe_needs(offer, language)) + fields
    data = Markup(' data-recipe="{}"').format(offer.recipe.name)
    return dialog(
        recipe_title(offer.recipe, language),
        form("env.install", fields, text("env.install", language), data=data),
        language,
    )
