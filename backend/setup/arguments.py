"""What the person asked of setup: the command line, read the same way by bootstrap and by `python -m backend.setup`."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from backend.setup.recipe import RECIPES

COMMANDS = ("run", "prepare", "status", "install")

EPILOG = """\
Downloads come from the index pip is set up for. Where that is slow, as in many labs in China, name a mirror near you by
--index-url, VOLTA_INDEX_URL or pip's own PIP_INDEX_URL. Without a source of PyTorch's CPU wheels (--extra-index-url or
VOLTA_TORCH_INDEX_URL) the engine may get the CUDA build of torch: it works without a graphics card, but is 2.5 GB more to
download. VOLTA_HOME (or --home) chooses the state folder. Words after -- are passed on to app.py.

Further engines, as the panel's Environments page installs them:

  .venv/bin/python -m backend.setup install v100         vLLM 0.19.1 with dflash2, for Tesla V100 (5 GB download, 11 GB)
  .venv/bin/python -m backend.setup install cpu-0.19.1   the same version on the CPU, to try it without a card
"""


@dataclass(frozen=True)
class SetupArguments:
    """One call of setup."""

    command: str
    home: Path  # the state folder
    index_url: str | None
    torch_index_url: str | None
    assume_yes: bool
    with_dev: bool  # also what the tests need
    panel_only: bool  # leave the engine and its model alone
    is_announced: bool  # bootstrap has shown the plan, and it was agreed to
    repair: bool  # look at every installed file, not only at the list of packages
    app_arguments: tuple[str, ...]
    recipe: str = ""  # of the command install

    def words(self, *, is_announced: bool) -> tuple[str, ...]:
        """The same call for `python -m backend.setup`. The URLs are not among the words: they go by environment."""
        options = {
            "--yes": self.assume_yes,
            "--announced": is_announced,
            "--dev": self.with_dev,
            "--panel-only": self.panel_only,
            "--repair": self.repair,
        }
        chosen = [name for name, is_set in options.items() if is_set]
        what = (self.recipe,) if self.recipe else ()
        return (self.command, *what, *chosen, "--home", str(self.home), "--", *self.app_arguments)


def read_arguments(argv: Sequence[str], environ: Mapping[str, str]) -> SetupArguments:
    """argv over environment over defaults. Ends the process on --help and on unknown options, as argparse does."""
    words, app_arguments = _split(argv)
    parser = _parser()
    options = parser.parse_args(words)
    if (options.command == "install") != bool(options.recipe):
        parser.error(f"install takes one of: {', '.join(recipe.name for recipe in RECIPES)}; the others take none")
    chosen_home = options.home or environ.get("VOLTA_HOME")
    return SetupArguments(
        command=options.command,
        home=Path(chosen_home).expanduser().absolute() if chosen_home else default_home(environ),
        index_url=options.index_url or environ.get("VOLTA_INDEX_URL") or None,
        torch_index_url=options.extra_index_url or environ.get("VOLTA_TORCH_INDEX_URL") or None,
        assume_yes=options.yes or bool(environ.get("CI")),
        with_dev=options.dev,
        panel_only=options.panel_only,
        is_announced=options.announced,
        repair=options.repair,
        app_arguments=app_arguments,
        recipe=options.recipe or "",
    )


def default_home(environ: Mapping[str, str]) -> Path:
    """state_folder.default_root() without its library, which is not installed yet when setup starts."""
    data_home = environ.get("XDG_DATA_HOME", "").strip()
    base = Path(data_home) if data_home else Path(environ.get("HOME") or os.path.expanduser("~")) / ".local" / "share"  # noqa: PTH111
    return base / "volta-panel"


def _split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    words = list(argv)
    if "--" not in words:
        return words, ()
    at = words.index("--")
    return words[:at], tuple(words[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="setup",
        description="Prepare Volta Panel and its CPU engine, and start the panel.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "command",
        choices=COMMANDS,
        help="run: prepare, then start; prepare: only that; status: what is there; install: one more engine",
    )
    parser.add_argument("recipe", nargs="?", choices=[recipe.name for recipe in RECIPES], help="of install")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before downloading")
    parser.add_argument("--home", help="state folder (VOLTA_HOME)")
    parser.add_argument("--index-url", help="package index to download from (VOLTA_INDEX_URL)")
    parser.add_argument("--extra-index-url", help="further index, for PyTorch's CPU wheels (VOLTA_TORCH_INDEX_URL)")
    parser.add_argument("--panel-only", action="store_true", help="leave the CPU engine and its model alone")
    parser.add_argument("--announced", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dev", action="store_true", help="also install what the tests need")
    parser.add_argument(
        "--repair", action="store_true", help="check every installed file, and install again what is damaged"
    )
    return parser
