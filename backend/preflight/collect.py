"""The thin edge: reads the model's files, the port, the driver and the processes on the cards, and builds a Situation."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pydantic import SecretStr

from backend.environment.views import EnvironmentView
from backend.errors import PanelError
from backend.fit.estimate import FitEstimate
from backend.fit.model_facts import CONFIG_FILE, ModelFacts, facts_from_config
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuView
from backend.host import HostSnapshot, MemoryBound
from backend.launch.adjustments import Adjustments
from backend.launch.engine_tools import EngineTools
from backend.launch.models import LocalModel
from backend.launch.preset import Preset
from backend.preflight.capability import capability_of
from backend.preflight.context_limit import context_limit
from backend.preflight.engine_models import read_engine_models
from backend.preflight.model_files import look_at_folder
from backend.preflight.ports import LOOPBACK, ask_port, port_user
from backend.preflight.situation import (
    CardSituation,
    CardUser,
    HostSituation,
    ListenSituation,
    ModelSituation,
    OffloadDisk,
    Situation,
)
from backend.reading import Missing, MissingReason, value_or_none

MOST_USERS = 64  # processes of one card
_VERSION_FILE = Path("proc/driver/nvidia/version")
_DISK_FOLDER, _DISK_SIZE = "LMCACHE_LOCAL_DISK", "LMCACHE_MAX_LOCAL_DISK_SIZE"  # of LMCache; the size is in GB


@dataclass(frozen=True)
class Surroundings:
    """What the panel knows by itself while a launch is considered."""

    cards: GpuView
    host: HostSnapshot | None
    views: Sequence[EnvironmentView]
    system_prompt: str
    api_key: SecretStr | None
    engine_pids: Mapping[int, str] = field(default_factory=dict)  # the panel's own engines by process
    served_names: tuple[str, ...] = ()  # of engines that run


def collect(
    preset: Preset,
    *,
    tools: EngineTools,
    model: LocalModel | None,
    facts: ModelFacts | None,
    chosen: Sequence[str],
    adjustments: Adjustments,
    port: int | None,
    surroundings: Surroundings,
    estimate: FitEstimate | None = None,
    estimate_error: str = "",
    longest_context: int | None = None,
    most_sequences: int | None = None,
    root: Path = Path("/"),
) -> Situation:
    """The situation now. `preset` is adjusted; `chosen` are the UUIDs of the cards it would get, empty where none do.

    Blocks for some ms, and for as long as a model that changed takes to be looked at: call it off the loop.
    `root` is where the files of /proc and /sys are found.
    """
    view = next((one for one in surroundings.views if one.environment.id == tools.environment), None)
    probe = view.probe if view else None
    cards, others = _cards(preset, chosen or adjustments.cards, surroundings)
    return Situation(
        preset=preset,
        tools=tools,
        model=_model(preset, model, facts, tools),
        probe=probe,
        lacks=view.missing if view else (),
        engine_models=read_engine_models(view.environment, probe.sites if probe else ()) if view else None,
        cards=cards,
        others=others,
        driver_version=surroundings.cards.driver_version or _module_version(surroundings.cards),
        open_kernel_module=is_open_module(root),
        card_gap=surroundings.cards.no_driver,
        host=_host(preset, surroundings.host, root),
        listen=_listen(adjustments.host or LOOPBACK, port, surroundings.api_key),
        estimate=estimate,
        estimate_error=estimate_error,
        longest_context=longest_context,
        most_sequences=most_sequences,
        system_prompt=surroundings.system_prompt,
        served_names=surroundings.served_names,
    )


def _model(preset: Preset, model: LocalModel | None, facts: ModelFacts | None, tools: EngineTools) -> ModelSituation:
    if model is None:
        return ModelSituation(preset.model.name, None)
    report = look_at_folder(model.folder)
    error = ""
    if facts is None and report.config is not None:
        try:  # weights that cannot be read leave the rest of the facts
            facts = facts_from_config(report.config, file=CONFIG_FILE)
        except PanelError as err:
            error = str(err)
    return ModelSituation(
        name=model.name,
        folder=str(model.folder),
        facts=facts,
        facts_error=error,
        missing_files=report.missing,
        lost_files=report.lost,
        corrupt_files=report.corrupt,
        changed_files=report.changed,
        was_checked=True,
        weight_bytes=model.weight_bytes,
        declared_quantization=model.quantization,
        context_limit=context_limit(report.config, tools.version) if report.config is not None else None,
        brings_code=report.config is not None and bool(report.config.get("auto_map")),
        template_dates=report.template_dates,
    )


def _cards(
    preset: Preset, wanted: Sequence[str], surroundings: Surroundings
) -> tuple[tuple[CardSituation, ...], tuple[CardSituation, ...]]:
    """The cards it would get, and the others. Where none were chosen: those that answer, with the most room first."""
    there = surroundings.cards.cards
    if wanted:
        chosen = [card for card in there if card.snapshot is not None and card.snapshot.uuid in wanted]
    else:
        chosen = sorted(there, key=_standing, reverse=True)[: preset.gpus]
    others = [card for card in there if card not in chosen]
    return (
        tuple(_card(card, surroundings.engine_pids) for card in chosen),
        tuple(_card(card, surroundings.engine_pids) for card in others),
    )


def _standing(card: GpuCard) -> tuple[bool, int]:
    """Whether it answers, and how much room it has."""
    if card.snapshot is None:
        return False, -1
    total, used = card.snapshot.memory_total_bytes, card.snapshot.memory_used_bytes
    room = -1 if isinstance(total, Missing) or isinstance(used, Missing) else total - used
    return card.state is GpuCardState.OK, room


def _card(card: GpuCard, engine_pids: Mapping[int, str]) -> CardSituation:
    snapshot = card.snapshot
    if snapshot is None:
        return CardSituation(uuid="", name=card.target, state=card.state, detail=card.detail)
    processes = value_or_none(snapshot.process_memory_bytes)
    users = None
    if processes is not None:
        users = tuple(_user(pid, size, engine_pids) for pid, size in sorted(processes.items())[:MOST_USERS])
    return CardSituation(
        uuid=snapshot.uuid,
        name=snapshot.name,
        capability=capability_of(snapshot.name),
        total_bytes=snapshot.memory_total_bytes,
        used_bytes=snapshot.memory_used_bytes,
        state=card.state,
        detail=card.detail,
        users=users,
    )


def _user(pid: int, size: int, engine_pids: Mapping[int, str]) -> CardUser:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            name, user = process.name(), process.username()
    except psutil.Error:  # gone, in another container, or not ours to read
        name, user = "", ""
    return CardUser(pid, name, user, size, engine_pids.get(pid, ""))


def is_open_module(root: Path = Path("/")) -> bool | None:
    """Whether the NVIDIA kernel module that is loaded is the open one; None where none is, or it does not say."""
    try:
        text = (root / _VERSION_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return "Open Kernel Module" in text


def _module_version(view: GpuView) -> str:
    return view.no_driver.module_version if view.no_driver else ""


def _host(preset: Preset, host: HostSnapshot | None, root: Path) -> HostSituation:
    disk = _offload_disk(preset.env, root)
    if host is None:
        return HostSituation(offload_disk=disk)
    return HostSituation(
        memory_total_bytes=host.memory_total_bytes,
        memory_available_bytes=host.memory_available_bytes,
        is_limited=host.memory_bound is MemoryBound.CGROUP,
        disk_free_bytes=host.disk_free_bytes,
        offload_disk=disk,
    )


def _offload_disk(env: Mapping[str, str], root: Path) -> OffloadDisk | None:
    """The folder that LMCache is told to keep KV cache in."""
    path = env.get(_DISK_FOLDER, "").removeprefix("file://")
    if not path.startswith("/"):
        return None
    folder = Path(path)
    try:
        wanted = int(float(env[_DISK_SIZE]) * 1e9) if _DISK_SIZE in env else None
    except (ValueError, OverflowError):
        wanted = None
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        free: int | Missing = psutil.disk_usage(str(folder)).free
        device = folder.stat().st_dev
    except OSError as err:
        return OffloadDisk(path, wanted, Missing(MissingReason.ERROR, str(err)))
    return OffloadDisk(path, wanted, free, _is_rotating(device, root))


def _is_rotating(device: int, root: Path) -> bool | None:
    block = root / "sys/dev/block" / f"{os.major(device)}:{os.minor(device)}"
    for place in (block / "queue", block / ".." / "queue"):  # a partition's queue is that of its disk
        try:
            return (place / "rotational").read_text(encoding="ascii").strip() == "1"
        except OSError:
            continue
    return None


def _listen(host: str, port: int | None, api_key: SecretStr | None) -> ListenSituation:
    has_key = api_key is not None and bool(api_key.get_secret_value())
    if port is None:
        return ListenSituation(host, has_key=has_key)
    free, is_local = ask_port(host, port)
    user = port_user(port) if free is False else ""
    return ListenSituation(host, port, free, user, has_key=has_key, host_is_local=is_local)
