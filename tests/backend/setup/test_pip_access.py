"""How pip is called: the user's settings kept, what would misplace packages dropped."""

import sys
from pathlib import Path

from backend.setup.pip_access import PipAccess, access_from, extra_index_in, without_credentials

PYTHON = Path("/e/bin/python")


def test_pip_settings_of_the_user_are_kept() -> None:
    environ = PipAccess().environ(
        {"PIP_INDEX_URL": "https://mirror.example", "PIP_CERT": "/c.pem", "HTTPS_PROXY": "http://p"}
    )
    assert environ["PIP_INDEX_URL"] == "https://mirror.example"
    assert environ["PIP_CERT"] == "/c.pem"
    assert environ["HTTPS_PROXY"] == "http://p"


def test_what_would_put_packages_elsewhere_is_dropped() -> None:
    environ = PipAccess().environ(
        {"PYTHONPATH": "/other", "PIP_TARGET": "/other", "PIP_USER": "1", "VIRTUAL_ENV": "/v"}
    )
    assert not {"PYTHONPATH", "PIP_TARGET", "VIRTUAL_ENV"} & set(environ)
    assert environ["PIP_USER"] == "0"


def test_chosen_index_wins_and_is_not_on_the_command_line() -> None:
    access = PipAccess(
        "https://me:secret@mirror.example/simple", "https://me:secret@wheels.example", "https://set.example"
    )
    assert access.environ({"PIP_INDEX_URL": "https://old.example"})["PIP_INDEX_URL"] == access.index_url
    argv = access.install(PYTHON, "torch")
    assert argv[:4] == ("/e/bin/python", "-m", "pip", "install")
    assert "secret" not in " ".join(argv)
    further = access.environ({"PIP_EXTRA_INDEX_URL": "https://old.example"})["PIP_EXTRA_INDEX_URL"]
    assert further == "https://set.example https://me:secret@wheels.example"
    assert "--compile" in argv


def test_further_index_of_pips_settings_is_found_by_its_precedence() -> None:
    listed = "global.cert='/c.pem'\nglobal.extra-index-url='https://a.example https://b.example'\n"
    assert extra_index_in(listed) == "https://a.example https://b.example"
    assert extra_index_in(listed + "install.extra-index-url='https://c.example\\nhttps://d.example'\n") == (
        "https://c.example https://d.example"
    )
    assert extra_index_in(listed + ":env:.extra-index-url='https://e.example'\n") == "https://e.example"
    assert extra_index_in("") == ""


def test_pip_itself_is_asked_for_its_settings(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("[install]\nextra-index-url = https://lab.example/simple\n")
    access = access_from(Path(sys.executable), {"PIP_CONFIG_FILE": str(config)}, None, "https://wheels.example")
    assert access.environ({})["PIP_EXTRA_INDEX_URL"] == "https://lab.example/simple https://wheels.example"


def test_log_shows_no_password() -> None:
    assert (
        without_credentials("--extra-index-url https://me:secret@m.example/x")
        == "--extra-index-url https://***@m.example/x"
    )
