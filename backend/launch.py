"""From a preset to the exact command: pure planning, and the LaunchSpec that the page previews and the engine runs."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECRET_MARKERS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
REDACTED = "***"


@dataclass(frozen=True)
class LaunchSpec:
    """All that is needed to start one engine. What the preview shows is this very object."""

    title: str  # for people; the preset's title
    preset: str  # the preset's name, "" when not from a preset
    argv: tuple[str, ...]  # argv[0] is an absolute path
    env: Mapping[str, str] = field(default_factory=dict)  # added to a minimal environment, never to the panel's own
    cwd: str = "/"
    host: str = "127.0.0.1"
    port: int = 0  # where the engine listens
    served_model: str = ""  # the name clients use
    max_model_len: int | None = None  # tokens
    ready_timeout_s: float = 600.0
    expected_ready_s: float | None = None  # the preset's hint, used until this engine has a run of its own
    reports_request_metrics: bool = False  # the probe shows --enable-per-request-metrics and the flag is passed
    secrets: frozenset[str] = frozenset()  # literal values never to be shown

    @property
    def base_url(self) -> str:
        """Where the engine answers, without a trailing slash: http://127.0.0.1:8100."""
        return f"http://{self.host}:{self.port}"

    def shell_line(self) -> str:
        """The command as a shell line that runs as printed, secrets redacted."""
        assignments = [f"{name}={shlex.quote(self._shown(name, value))}" for name, value in sorted(self.env.items())]
        words = [shlex.quote(self._redact(word)) for word in self.argv]
        return " ".join([*assignments, *words])

    def _shown(self, name: str, value: str) -> str:
        if any(marker in name.upper() for marker in SECRET_MARKERS):
            return REDACTED
        return self._redact(value)

    def _redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        return text


def model_folder(models: Path, model_id: str) -> Path:
    """Where a model of this id lies."""
    return models / model_id
