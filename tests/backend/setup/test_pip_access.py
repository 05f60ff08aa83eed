"""How pip is called: the user's settings kept, what would misplace packages dropped."""

from pathlib import Path

from backend.setup.pip_access import PipAccess, without_credentials

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
    access = PipAccess("https://me:secret@mirror.example/simple", "https://wheels.example")
    assert access.environ({"PIP_INDEX_URL": "https://old.example"})["PIP_INDEX_URL"] == access.index_url
    argv = access.install(PYTHON, "torch")
    assert argv[:4] == ("/e/bin/python", "-m", "pip", "install")
    assert "secret" not in " ".join(argv)
    assert argv[argv.index("--extra-index-url") + 1] == "https://wheels.example"
    assert "--compile" in argv


def test_log_shows_no_password() -> None:
    assert (
        without_credentials("--extra-index-url https://me:secret@m.example/x")
        == "--extra-index-url https://***@m.example/x"
    )
