"""Markdown of answers: safe whatever an engine writes, and the same whether it came at once or token by token."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ui.answer_markdown import AnswerMarkdown
from ui.strings import Language

SAMPLE = """# Title

A paragraph with **bold**, `code` and a [link](https://example.org).

- one
- two

```python
def f(x):
    return x + 1
```

| a | b |
|---|---|
| 1 | 2 |

Last words."""


def rendered(answer: str) -> str:
    markdown = AnswerMarkdown(Language.EN)
    markdown.grow(answer)
    return "\n".join(markdown.blocks)


def grown(answer: str, step: int) -> str:
    markdown = AnswerMarkdown(Language.EN)
    for end in range(step, len(answer) + step, step):
        markdown.grow(answer[:end])
    return "\n".join(markdown.blocks)


def test_the_usual_markdown_is_rendered() -> None:
    html = rendered(SAMPLE)
    for part in (
        "<h1>Title</h1>",
        "<strong>bold</strong>",
        "<li>one</li>",
        "<table>",
        'class="k">def</span>',
        'rel="noopener noreferrer nofollow"',
    ):
        assert part in html


@pytest.mark.parametrize("odd", ["\u2028", "\x0c", "\x85", "\x1c", "\r", "\r\n"])
def test_only_markdowns_own_line_breaks_count(odd: str) -> None:
    answer = f"a{odd}b{odd}c{odd}d\n\nSecond\n\nThird"
    assert grown(answer, 1) == rendered(answer)


@pytest.mark.parametrize("step", [1, 3, 7])
def test_growing_token_by_token_gives_the_same(step: int) -> None:
    assert grown(SAMPLE, step) == rendered(SAMPLE)


def test_settled_blocks_are_not_sent_again() -> None:
    markdown = AnswerMarkdown(Language.EN)
    markdown.grow("First.\n\nSecond.\n\nThi")
    first = markdown.grow("First.\n\nSecond.\n\nThird.")
    assert first == 2
    assert len(markdown.blocks) == 3
    assert markdown.grow("First.\n\nSecond.\n\nThird.") == 3


def test_an_answer_that_ends_inside_a_fence_is_shown_as_code() -> None:
    assert '<div class="vp-code"' in rendered("```python\nx = 1")


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "![x](https://evil.example/pixel.png)",
        "```<script>\nalert(1)\n```",
        '[x](https://a" onmouseover="alert(1))',
        "<https://a.example/<script>>",
        "`<b>`",
    ],
)
def test_nothing_of_the_engines_becomes_live_html(attack: str) -> None:
    html = rendered(attack)
    assert "<script" not in html
    assert "<img" not in html
    assert not re.search(r"<[^>]+\son\w+=", html)
    assert "javascript:" not in re.sub(r">[^<]*<", "><", html)


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from("a *_`#-|>[]()<&\n!:/\"'1."), max_size=120))
def test_no_text_crashes_it_or_leaves_an_open_script(answer: str) -> None:
    html = rendered(answer)
    assert "<script" not in html
    assert not re.search(r"<[^>]+\son\w+=", html)
