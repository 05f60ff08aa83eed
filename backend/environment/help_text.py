"""The --help text of an engine, read for its flags and the choices it lists for them."""

import re

_OPTION_LINE = re.compile(r"^ {2}(-{1,2}[A-Za-z].*)$")
_CHOICES = re.compile(r"\{([^{}]*)\}|\[('[^\]]*')\]")


def parse_help(text: str) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """The flags of an argparse --help and the choices it lists for them, from the lines that introduce an option.

    Such a line is indented by two; flags that a description mentions are indented further and are not taken for options.
    """
    flags: set[str] = set()
    choices: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        match = _OPTION_LINE.match(line)
        if match is None:
            continue
        names = _names(match.group(1))
        flags.update(names)
        listed = _CHOICES.search(_without_description(match.group(1)))
        if listed:
            words = (listed.group(1) or listed.group(2)).split(",")
            choices.update({name: tuple(word.strip().strip("'") for word in words) for name in names})
    return frozenset(flags), choices


def _names(option: str) -> tuple[str, ...]:
    """`--tensor-parallel-size N, -tp N  Number of …` -> ("--tensor-parallel-size", "-tp")."""
    shown = _CHOICES.sub("", _without_description(option))
    words = (part.strip().split(" ", 1)[0] for part in shown.split(","))
    return tuple(word for word in words if re.fullmatch(r"-{1,2}[A-Za-z][\w.-]*", word))


def _without_description(option: str) -> str:
    """argparse puts at least two spaces between an option and a description on the same line."""
    return option.split("  ", 1)[0]
