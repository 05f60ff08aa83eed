"""From a preset to the exact command: pure planning, and the LaunchSpec that the page previews and the engine runs."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from backend.launch.models import LocalModel
from backend.launch.preset import Flag, Preset

REQUEST_METRICS_FLAG = "--enable-per-request-metrics"
CACHED_TOKENS_FLAG = "--enable-prompt-tokens-details"
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


@dataclass(frozen=True)
class EngineTools:
    """What planning needs to know of an engine environment."""

    python: Path  # its interpreter
    flags: frozenset[str]  # what its own --help lists, such as "--enable-per-request-metrics"; empty when not probed


@dataclass(frozen=True)
class Listen:
    """Where the engine shall answer, and the key it shall ask for."""

    port: int
    host: str = "127.0.0.1"
    api_key: SecretStr | None = None


def plan(preset: Preset, model: LocalModel, *, tools: EngineTools, listen: Listen) -> LaunchSpec:
    """The exact command for a preset on this environment. Pure: looks at nothing, starts nothing."""
    metrics = REQUEST_METRICS_FLAG in tools.flags
    optional = [flag for flag in (REQUEST_METRICS_FLAG, CACHED_TOKENS_FLAG) if flag in tools.flags]
    argv = (
        *(str(tools.python), "-P", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model.folder), "--served-model-name", preset.served_name),
        *("--host", listen.host, "--port", str(listen.port)),
        *("--dtype", preset.dtype, "--max-model-len", str(preset.context)),
        *(("--enforce-eager",) if preset.eager else ()),
        *_spell(preset.flags),
        *optional,
    )
    return LaunchSpec(
        title=preset.title.en,
        preset=preset.name,
        argv=argv,
        env=_environment(preset, listen),
        host=listen.host,
        port=listen.port,
        served_model=preset.served_name,
        max_model_len=preset.context,
        ready_timeout_s=preset.ready_timeout_s or 600.0,
        expected_ready_s=preset.expected_ready_s,
        reports_request_metrics=metrics,
        secrets=frozenset({listen.api_key.get_secret_value()} if listen.api_key else ()),
    )


def _spell(flags: Mapping[str, Flag]) -> tuple[str, ...]:
    """Flags as argv words: true is the bare flag, false its --no- form."""
    words: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return tuple(words)


def _environment(preset: Preset, listen: Listen) -> dict[str, str]:
    """What the engine gets besides its minimal environment: no hub, no usage reports, a bounded KV cache."""
    fixed = {
        "VLLM_CPU_KVCACHE_SPACE": f"{preset.kv_cache_gib:g}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    key = {"VLLM_API_KEY": listen.api_key.get_secret_value()} if listen.api_key else {}
    return {**fixed, **preset.env, **key}
