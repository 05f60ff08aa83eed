"""From a preset to the exact command: pure planning, and the LaunchSpec that the page previews and the engine runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from backend.errors import LaunchError
from backend.failure.failure import LaunchContext
from backend.launch.adjustments import Adjustments
from backend.launch.container import (
    DRAFT_MODEL_MOUNT,
    MODEL_MOUNT,
    SERVER_MODULE,
    Container,
    remove_words,
    run_words,
)
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.models import LocalModel
from backend.launch.notes import Note
from backend.launch.preset import Preset
from backend.launch.spelling import Spelled, spell
from backend.launch.spelling_error import SpellingError
from backend.preview.shell import shell_text

__all__ = ["EngineTools", "GpuChoice", "LaunchSpec", "Listen", "engine_key", "plan"]

KEY_VARIABLE = "VLLM_API_KEY"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # an engine that listens everywhere is reached here
UUID_VERSION = (0, 32)
"""First version seen to accept UUIDs in CUDA_VISIBLE_DEVICES; 0.19.1 and 0.23.0 call int() on them and end."""


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
    ready_timeout_s: float | None = 600.0  # None: by model size and disk speed
    expected_ready_s: float | None = None  # the preset's hint, used until this engine has a run of its own
    reports_request_metrics: bool = False  # the probe shows --enable-per-request-metrics and the flag is passed
    secrets: frozenset[str] = frozenset()  # literal values never to be shown
    environment: str = ""  # id of the engine environment
    kind: EngineKind | None = None  # None in records of an earlier panel
    adjustments: Adjustments = Adjustments()  # what a person changed for this launch
    context: LaunchContext = LaunchContext()  # what was asked for, so that a failure can be explained
    gpus: tuple[str, ...] = ()  # UUIDs of the cards it was given; empty: the first ones, or none needed
    model_bytes: int | None = None  # of the weights
    cleanup: tuple[str, ...] = ()  # run after the end, whatever ended it; argv[0] is an absolute path
    notes: tuple[Note, ...] = ()  # what was translated or left out in spelling, for the page

    @property
    def base_url(self) -> str:
        """Where this machine reaches the engine, without a trailing slash: http://127.0.0.1:8100."""
        host = _LOOPBACK.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def shell_line(self) -> str:
        """The command as a shell line that runs as printed; secrets are variables to be exported before."""
        return shell_text(self.argv, self.env, cwd=self.cwd, secrets=self.secrets)


def engine_key(spec: LaunchSpec) -> SecretStr | None:
    """The key this engine asks of its clients; None where it asks none."""
    key = spec.env.get(KEY_VARIABLE)
    return SecretStr(key) if key else None


@dataclass(frozen=True)
class Listen:
    """Where the engine shall answer, and the key it shall ask for."""

    port: int
    host: str = "127.0.0.1"
    api_key: SecretStr | None = None


@dataclass(frozen=True)
class GpuChoice:
    """One card an engine is given."""

    uuid: str
    index: int | None = None  # as the driver counts, in the order of the PCI bus; None where it has no number


def plan(
    preset: Preset,
    model: LocalModel,
    *,
    tools: EngineTools,
    listen: Listen,
    adjustments: Adjustments = Adjustments(),  # noqa: B008 - frozen
    gpus: tuple[GpuChoice, ...] = (),
    draft: LocalModel | None = None,
) -> LaunchSpec:
    """The exact command for a preset on this environment. Pure: looks at nothing, starts nothing.

    `draft` is the folder of the model that guesses ahead, where the preset names one.

    Raises:
        SpellingError: this version cannot do what the preset asks for; names flag, reason and replacement.
        LaunchError: a changed value is out of bounds, or the number of cards differs from the preset's.
    """
    preset = preset.adjusted(adjustments)
    if adjustments.port is not None:
        listen = replace(listen, port=adjustments.port)
    if gpus and len(gpus) != preset.gpus:
        raise LaunchError(f"{preset.title.en} needs {preset.gpus} cards, not {len(gpus)}.")
    container = _container(preset, model, tools, listen, gpus, draft)
    spelled = spell(
        preset,
        tools,
        declared_quantization=model.quantization,
        draft=_draft_place(draft, container),
        dropped=adjustments.dropped_flags,
    )
    env = _environment(preset, tools, spelled, listen, () if container else gpus)
    return LaunchSpec(
        title=preset.title.en,
        preset=preset.name,
        argv=_argv(preset, model, tools, spelled, listen, container, env),
        env=env,
        host=listen.host,
        port=listen.port,
        served_model=preset.served_name,
        max_model_len=preset.context,
        ready_timeout_s=preset.ready_timeout_s,
        expected_ready_s=preset.expected_ready_s,
        reports_request_metrics=spelled.reports_request_metrics,
        secrets=frozenset({listen.api_key.get_secret_value()} if listen.api_key else ()),
        environment=tools.environment,
        kind=preset.engine,
        adjustments=adjustments,
        context=_context(preset, model, listen),
        gpus=tuple(gpu.uuid for gpu in gpus),
        model_bytes=model.weight_bytes,
        cleanup=remove_words(container) if container else (),
        notes=spelled.notes,
    )


def _container(
    preset: Preset,
    model: LocalModel,
    tools: EngineTools,
    listen: Listen,
    gpus: tuple[GpuChoice, ...],
    draft: LocalModel | None,
) -> Container | None:
    if tools.image is None:
        return None
    drafts = ((draft.folder, DRAFT_MODEL_MOUNT),) if draft else ()
    return Container(
        name=f"volta-{preset.name}-{listen.port}",
        image=tools.image,
        docker=tools.docker,
        host=listen.host,
        port=listen.port,
        gpus=tuple(gpu.uuid for gpu in gpus),
        needs_gpu=preset.gpus > 0,
        mounts=((model.folder, MODEL_MOUNT), *drafts),
    )


def _draft_place(draft: LocalModel | None, container: Container | None) -> str | None:
    if draft is None:
        return None
    return DRAFT_MODEL_MOUNT if container else str(draft.folder)


def _argv(
    preset: Preset,
    model: LocalModel,
    tools: EngineTools,
    spelled: Spelled,
    listen: Listen,
    container: Container | None,
    env: Mapping[str, str],
) -> tuple[str, ...]:
    if container is not None:
        start = run_words(container, env)
        folder, host = MODEL_MOUNT, "0.0.0.0"  # inside; docker publishes it on listen.host only
    elif tools.python is not None:
        start = (str(tools.python), "-P", "-m", SERVER_MODULE)
        folder, host = str(model.folder), listen.host
    else:
        raise LaunchError(f"The environment {tools.environment or 'chosen'} has neither a Python nor an image.")
    return (
        *start,
        *("--model", folder, "--served-model-name", preset.served_name),
        *("--host", host, "--port", str(listen.port)),
        *spelled.options,
    )


def _environment(
    preset: Preset, tools: EngineTools, spelled: Spelled, listen: Listen, gpus: tuple[GpuChoice, ...]
) -> dict[str, str]:
    """What the engine gets besides its minimal environment: no hub, no usage reports, its cards, its key."""
    fixed = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1"}
    key = {KEY_VARIABLE: listen.api_key.get_secret_value()} if listen.api_key else {}
    return {**fixed, **preset.env, **spelled.env, **_visible(tools, gpus), **key}


def _visible(tools: EngineTools, gpus: tuple[GpuChoice, ...]) -> dict[str, str]:
    """The cards the engine may see: by UUID where it understands that, else by number in the driver's own order."""
    if not gpus:
        return {}
    if tools.version is not None and tools.version >= UUID_VERSION:
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in gpus)}
    nameless = next((gpu for gpu in gpus if gpu.index is None), None)
    if nameless is not None:
        note = Note("uuid_not_understood", {"version": tools.title, "value": nameless.uuid})
        raise SpellingError(note, flag="CUDA_VISIBLE_DEVICES")
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _context(preset: Preset, model: LocalModel, listen: Listen) -> LaunchContext:
    return LaunchContext(
        context=preset.context,
        memory_utilization=preset.memory_utilization,
        max_sequences=preset.max_sequences,
        batched_tokens=preset.max_batched_tokens,
        kv_cache_gib=preset.kv_cache_gib,
        dtype=preset.dtype,
        gpus=preset.gpus,
        port=listen.port,
        quantization=preset.quantization,
        engine=preset.engine.value,
        model=str(model.folder),
        eager=preset.eager,
    )
