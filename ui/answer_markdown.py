"""Markdown of an answer to safe HTML, block by block, so that a growing answer is not parsed anew at each token.

An engine's text is untrusted: raw HTML is shown as text, and only http, https and mailto links become links.
"""

import itertools
import re
from collections.abc import Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from ui.icons import icon
from ui.strings import Language, text

HIGHLIGHT_MAX_CHARACTERS = 40_000  # beyond it code is shown plain: highlighting would hold up everybody's answers
_SAFE_LINKS = ("http://", "https://", "mailto:")


def _validate_link(url: str) -> bool:
    return url.strip().lower().startswith(_SAFE_LINKS)


def _render_link_open(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    tokens[index].attrSet("target", "_blank")
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return renderer.renderToken(tokens, index, options, env)


def _render_fence(_: RendererHTML, tokens: Sequence[Token], index: int, __: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    return _code_block(token.content, token.info.strip().split(" ")[0], env["language"])


def _render_image(_: RendererHTML, tokens: Sequence[Token], index: int, __: OptionsDict, ___: EnvType) -> str:
    """An image address in an answer is not fetched: it would tell another host what is being read here."""
    return str(escape(tokens[index].content))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.validateLink = _validate_link  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _render_link_open)
    parser.add_render_rule("fence", _render_fence)
    parser.add_render_rule("code_block", _render_fence)
    parser.add_render_rule("image", _render_image)
    return parser


def _code_block(code: str, name: str, language: Language) -> str:
    return Markup(
        '<div class="vp-code" data-copy-from><div class="vp-code-head"><span>{name}</span>'
        '<button class="vp-button is-small" data-do="copy">{icon} {copy}</button></div><pre>{code}</pre></div>'
    ).format(name=name, icon=Markup(icon("copy")), copy=text("copy", language), code=Markup(_highlighted(code, name)))


@lru_cache(maxsize=256)
def _highlighted(code: str, name: str) -> str:
    if not name or len(code) > HIGHLIGHT_MAX_CHARACTERS:
        return str(escape(code))
    try:
        lexer = get_lexer_by_name(name, stripnl=False)
    except ClassNotFound:
        return str(escape(code))
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


class AnswerMarkdown:
    """The blocks of one growing answer. Only the last block is parsed anew at each step.

    A link whose address comes in a later block stays plain until the answer is drawn whole at its end.
    """

    def __init__(self, language: Language) -> None:
        self._language = language
        self._blocks: list[str] = []
        self._settled_blocks = 0
        self._settled_characters = 0
        self._seen = 0

    @property
    def blocks(self) -> tuple[str, ...]:
        """The HTML of each top-level block."""
        return tuple(self._blocks)

    def grow(self, answer: str) -> int:
        """Take the whole answer so far, which must begin with what was taken before. Returns the first changed block."""
        first_changed = self._settled_blocks
        if len(answer) == self._seen:
            return len(self._blocks)
        self._seen = len(answer)
        tail = answer[self._settled_characters :]
        starts, rendered = _top_level_blocks(tail, self._language)
        del self._blocks[self._settled_blocks :]
        self._blocks += rendered
        if len(rendered) > 1:
            self._settled_characters += _offset_of_line(tail, starts[-1])
            self._settled_blocks += len(rendered) - 1
        return first_changed


def _offset_of_line(source: str, number: int) -> int:
    """Where a line begins, as markdown-it counts lines: str.splitlines breaks at further characters."""
    offset = 0
    for match in itertools.islice(re.finditer(r"\r\n?|\n", source), number):
        offset = match.end()
    return offset


def _top_level_blocks(source: str, language: Language) -> tuple[list[int], list[str]]:
    """First line and HTML of each top-level block."""
    parser = _parser()
    env: dict[str, object] = {"language": language}
    tokens = parser.parse(source, env)
    starts: list[int] = []
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            starts.append(token.map[0] if token.map else 0)
            groups.append([])
        groups[-1].append(token)
    return starts, [parser.renderer.render(group, parser.options, env) for group in groups]
