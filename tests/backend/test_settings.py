"""Settings: their order, and what is refused."""

from pathlib import Path

import pytest

from backend.errors import SettingsError
from backend.settings import read_settings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("VOLTA_PORT", "VOLTA_HOST", "VOLTA_LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VOLTA_HOME", str(tmp_path))
    return tmp_path


def test_argv_wins_over_environment_over_file_over_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings([]).port == 7860
    (home / "settings.yaml").write_text("port: 7001\nlanguage: zh\n")
    assert read_settings([]).port == 7001
    monkeypatch.setenv("VOLTA_PORT", "7002")
    assert read_settings([]).port == 7002
    settings = read_settings(["--port", "7003"])
    assert (settings.port, settings.language) == (7003, "zh")


def test_home_on_argv_decides_which_file_is_read(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "settings.yaml").write_text("port: 7009\n")
    settings = read_settings(["--home", str(other)])
    assert (settings.port, settings.state_folder.root) == (7009, other)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "lab-server"])
def test_binding_beyond_loopback_is_refused_with_the_reason(host: str) -> None:
    with pytest.raises(SettingsError, match="there are no accounts yet") as caught:
        read_settings(["--host", host])
    assert host in str(caught.value)
    assert "ssh -L" in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_is_accepted(host: str) -> None:
    assert read_settings(["--host", host]).host == host


def test_unknown_key_in_the_file_is_named(home: Path) -> None:
    (home / "settings.yaml").write_text("prot: 7001\n")
    with pytest.raises(SettingsError, match="unknown setting 'prot'"):
        read_settings([])


@pytest.mark.parametrize("content", ["- a\n", "port: [", "\xff\xfe", "port: many\n"])
def test_broken_file_is_an_error_naming_it(home: Path, content: str) -> None:
    (home / "settings.yaml").write_bytes(content.encode("latin-1"))
    with pytest.raises(SettingsError):
        read_settings([])


def test_secret_file_that_others_can_read_is_refused(home: Path) -> None:
    secrets = home / "secrets.json"
    secrets.write_text('{"engine_api_key": "sk-very-secret"}')
    secrets.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_settings([])
    secrets.chmod(0o600)
    key = read_settings([]).engine_api_key
    assert key is not None
    assert key.get_secret_value() == "sk-very-secret"


def test_secret_is_never_in_an_error_or_a_repr(home: Path) -> None:
    secrets = home / "secrets.json"
    secrets.write_text('{"engine_api_key": ["sk-very-secret"]}')
    secrets.chmod(0o600)
    with pytest.raises(SettingsError) as caught:
        read_settings([])
    assert "sk-very-secret" not in str(caught.value)
    secrets.write_text('{"engine_api_key": "sk-very-secret"}')
    assert "sk-very-secret" not in repr(read_settings([]))


def test_secret_in_the_plain_file_is_refused(home: Path) -> None:
    (home / "settings.yaml").write_text("engine_api_key: x\n")
    with pytest.raises(SettingsError, match=r"secrets\.json"):
        read_settings([])


def test_root_path_must_be_a_plain_prefix() -> None:
    assert read_settings(["--root-path", "/volta"]).root_path == "/volta"
    with pytest.raises(SettingsError, match="/volta"):
        read_settings(["--root-path", "volta/"])
