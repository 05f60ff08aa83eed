"""What the panel was told to do, read once: argv over VOLTA_* variables over settings.yaml over defaults."""

import argparse
import ipaddress
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import (
    SettingsError as PydanticSettingsError,
)

from backend.errors import SettingsError
from backend.state_folder import StateFolder, default_root

SETTINGS_FILE = "settings.yaml"
SECRET_NAMES = frozenset({"engine_api_key"})


class Settings(BaseSettings):
    """Every setting, its default and what it means. Frozen: a change needs a restart."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="VOLTA_",
        cli_kebab_case=True,
        cli_prog_name="app.py",
        cli_implicit_flags=True,
    )

    home: Path = Field(default_factory=default_root, description="State folder: chats, engines, environments, models")
    host: str = Field(default="127.0.0.1", description="Address to listen on; only loopback until accounts exist")
    port: int = Field(default=7860, ge=1, le=65535, description="Port to listen on")
    root_path: str = Field(default="", description="Path prefix behind a reverse proxy, such as /volta")
    allowed_hosts: tuple[str, ...] = Field(default=(), description="Further Host names a reverse proxy may send")
    language: Literal["auto", "en", "zh"] = Field(default="auto", description="Language of a first visit")
    open_browser: Literal["auto", "yes", "no"] = Field(default="auto", description="auto: where there is a desktop")
    engine_port_start: int = Field(default=8100, ge=1024, le=65_000, description="First port tried for an engine")
    stop_engines_on_exit: bool = Field(default=False, description="Stop every engine when the panel ends")
    engine_api_key: SecretStr | None = Field(
        default=None, description="Key that engines ask of their clients; better kept in secrets.json than in argv"
    )
    hub_endpoint: str = Field(
        default="https://huggingface.co", description="Hugging Face, or a mirror of it, asked for sizes of models"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="The panel's own log")

    @field_validator("host")
    @classmethod
    def _only_loopback(cls, host: str) -> str:
        if not is_loopback(host):
            raise ValueError(
                f"refusing to listen on {host}: there are no accounts yet, so everybody who reaches that address could "
                "start programs on this machine. Use 127.0.0.1 and an SSH tunnel: ssh -L 7860:127.0.0.1:7860 THIS-HOST"
            )
        return host

    @field_validator("hub_endpoint")
    @classmethod
    def _web_address(cls, address: str) -> str:
        if not address.startswith(("https://", "http://")) or "@" in address:
            raise ValueError(f"hub endpoint {address!r} must begin with https:// or http:// and hold no password")
        return address

    @field_validator("root_path")
    @classmethod
    def _plain_prefix(cls, prefix: str) -> str:
        if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
            raise ValueError(f"root path {prefix!r} must start with / and not end with it, such as /volta")
        return prefix

    @property
    def state_folder(self) -> StateFolder:
        return StateFolder(self.home.expanduser().absolute())

    @property
    def address(self) -> str:
        """What to type into a browser on this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.root_path}/"


def is_loopback(host: str) -> bool:
    """Whether a bind address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_settings(argv: Sequence[str]) -> Settings:
    """All settings for this process.

    Raises:
        SettingsError: a value is refused, a key is unknown, or secrets.json can be read by others.
    """
    root = StateFolder(_home(argv).expanduser().absolute())
    file_values, secret_values = _file_values(root.root / SETTINGS_FILE), _secret_values(root.secrets)

    class FromThisProcess(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                CliSettingsSource(settings_cls, cli_parse_args=list(argv)),
                env_settings,
                InitSettingsSource(settings_cls, init_kwargs=secret_values),
                InitSettingsSource(settings_cls, init_kwargs=file_values),
            )

    try:
        return FromThisProcess()
    except ValidationError as err:
        raise SettingsError(_explain(err), hint="See app.py --help for every setting.") from err
    except PydanticSettingsError as err:
        raise SettingsError(f"A setting cannot be read: {err}.", hint="See app.py --help for every setting.") from err


def _home(argv: Sequence[str]) -> Path:
    """The state folder must be known before the settings file in it can be read."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--home")
    chosen = parser.parse_known_args(list(argv))[0].home or os.environ.get("VOLTA_HOME")
    return Path(chosen) if chosen else default_root()


def _file_values(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        raise SettingsError(f"{path} cannot be read: {err}") from err
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path} must hold 'name: value' lines, not {type(values).__name__}.")
    if "home" in values:
        raise SettingsError(f"{path} names 'home', but lies in it.", hint="Set it by --home or VOLTA_HOME.")
    misplaced = SECRET_NAMES & set(values)
    if misplaced:
        raise SettingsError(f"{path} holds the secret {min(misplaced)!r}.", hint="Move it to secrets.json (mode 0600).")
    return values


def _secret_values(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise SettingsError(f"{path} has mode {mode:04o}: others can read it.", hint=f"Run: chmod 600 {path}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        raise SettingsError(
            f"{path} cannot be read as JSON.", hint="Its content is not shown here, as it holds secrets."
        ) from err
    if not isinstance(values, dict) or not set(values) <= SECRET_NAMES:
        raise SettingsError(f"{path} may hold only: {', '.join(sorted(SECRET_NAMES))}.")
    return values


def _explain(err: ValidationError) -> str:
    """One line a refused setting; never the value of a secret."""
    lines = []
    for problem in err.errors(include_url=False):
        name = ".".join(str(part) for part in problem["loc"])
        value = "***" if name in SECRET_NAMES else repr(problem["input"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown setting {name!r}.")
        else:
            lines.append(f"{name.replace('_', '-')} = {value}: {problem['msg'].removeprefix('Value error, ')}.")
    return " ".join(lines)
