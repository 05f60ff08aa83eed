"""The command line of setup: order of sources, and what is passed on."""

import re
from pathlib import Path

import pytest

from backend.setup.arguments import read_arguments
from backend.state_folder import default_root


def test_default_home_is_the_one_the_panel_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for environ in ({"HOME": str(tmp_path)}, {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}):
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert read_arguments(["run"], environ).home == default_root()


def test_option_wins_over_environment() -> None:
    environ = {"VOLTA_HOME": "/env", "VOLTA_INDEX_URL": "https://env.example/simple", "HOME": "/h"}
    by_environment = read_arguments(["prepare"], environ)
    assert (by_environment.home, by_environment.index_url) == (Path("/env"), "https://env.example/simple")
    options = ["prepare", "--home", "/argv", "--index-url", "https://argv.example/simple"]
    by_option = read_arguments(options, environ)
    assert (by_option.home, by_option.index_url) == (Path("/argv"), "https://argv.example/simple")


def test_words_after_two_dashes_go_to_the_panel_untouched() -> None:
    arguments = read_arguments(["run", "--yes", "--", "--port", "7000", "--", "x"], {"HOME": "/h"})
    assert arguments.assume_yes
    assert arguments.app_arguments == ("--port", "7000", "--", "x")


def test_continuous_integration_is_not_asked() -> None:
    assert read_arguments(["run"], {"HOME": "/h", "CI": "true"}).assume_yes
    assert not read_arguments(["run"], {"HOME": "/h"}).assume_yes


def test_passed_on_words_mean_the_same_call() -> None:
    options = [
        "run",
        "--dev",
        "--repair",
        "--panel-only",
        "--home",
        "/x",
        "--index-url",
        "https://u:p@m.example",
        "--",
        "-v",
    ]
    arguments = read_arguments(options, {"HOME": "/h"})
    words = arguments.words(is_announced=True)
    again = read_arguments(words, {"HOME": "/elsewhere", "VOLTA_INDEX_URL": "https://u:p@m.example"})
    assert (again.command, again.home, again.with_dev, again.repair) == ("run", Path("/x"), True, True)
    assert (again.panel_only, again.is_announced, again.app_arguments) == (True, True, ("-v",))
    assert again.index_url == arguments.index_url
    assert not any("m.example" in word for word in words), "a URL that may hold a password is visible in ps"


def test_install_names_a_recipe_and_passes_it_on() -> None:
    arguments = read_arguments(["install", "v100", "--yes"], {"HOME": "/h"})
    assert (arguments.command, arguments.recipe, arguments.assume_yes) == ("install", "v100", True)
    again = read_arguments(arguments.words(is_announced=False), {"HOME": "/h"})
    assert (again.command, again.recipe) == ("install", "v100")


@pytest.mark.parametrize(
    "argv",
    [[], ["fly"], ["run", "--prot", "1"], ["run", "--pan"], ["install"], ["install", "h100"], ["run", "v100"]],
)
def test_unknown_commands_and_options_end_with_code_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read_arguments(argv, {"HOME": "/h"})
    assert caught.value.code == 2


def test_help_says_where_downloads_come_from_and_names_no_host(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_arguments(["--help"], {"HOME": "/h"})
    text = capsys.readouterr().out
    for name in ("--index-url", "VOLTA_INDEX_URL", "PIP_INDEX_URL", "VOLTA_HOME", "VOLTA_TORCH_INDEX_URL"):
        assert name in text
    assert not re.search(r"https?://|\.org|\.cn|\.com", text)
