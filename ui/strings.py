"""Looks up the words of the page in English and Chinese. The words themselves are in ui/words/, a module a page."""

from enum import StrEnum

from ui.words import bar, chat, environments, form, forms, launch, shared


class Language(StrEnum):
    """A language of the page."""

    EN = "en"
    ZH = "zh"


LANGUAGE_NAMES = {Language.EN: "English", Language.ZH: "中文"}

_PAGES = (shared, bar, launch, chat, environments, form, forms)
STRINGS: dict[str, tuple[str, str]] = {key: words for page in _PAGES for key, words in page.WORDS.items()}


def template(key: str, language: Language) -> str:
    """The words for a key in a language, {names} still in them."""
    english, chinese = STRINGS[key]
    return chinese if language is Language.ZH else english


def text(key: str, language: Language, **values: object) -> str:
    """The words for a key in a language, with {names} filled in."""
    return template(key, language).format(**values)


def preferred_language(accept_language: str) -> Language:
    """The page's language for a browser's Accept-Language header: Chinese if it comes before English."""
    for part in accept_language.lower().split(","):
        tag = part.split(";")[0].strip()
        if tag.startswith("zh"):
            return Language.ZH
        if tag.startswith("en"):
            return Language.EN
    return Language.EN
