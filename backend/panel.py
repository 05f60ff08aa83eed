"""The whole backend as one object: what the page asks and what it may tell, whoever shows it."""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from backend.changes import Changes
from backend.chat.chats import ChatEngine, Chats
from backend.chat.store import ChatStore
from backend.database import Database
from backend.engine.engine import Engine
from backend.engine.fleet import Fleet
from backend.engine.status import RUNNING_STATES
from backend.environment.environment import find_environment
from backend.environment.probe import cached_probe
from backend.errors import LaunchError, PanelError, StateFolderBusy
from backend.gpu.sampler import GpuSampler
from backend.host import HostSampler
from backend.launch.models import find_model
from backend.launch.plan import EngineTools, LaunchSpec, Listen, plan
from backend.launch.preset import Preset
from backend.launch.shelf import PresetShelf, read_shelf
from backend.settings import Settings
from backend.viewer import Role, Viewer, require

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PresetOffer:
    """A preset on the shelf, whether it runs, and what keeps it from being started, if anything."""

    preset: Preset
    running: bool
    obstacle: str = ""


class Panel:
    """Owns the fleet, the chats and the samplers of one state folder, from open() to close()."""

    def __init__(self, settings: Settings, *, shipped_presets: Path) -> None:
        self.settings = settings
        self.folder = settings.state_folder
        self.changes = Changes()
        self._lock = FileLock(self.folder.lock)
        self._shipped_presets = shipped_presets
        self._shelf = PresetShelf((), ())
        self._obstacles: Mapping[str, str] = {}
        self.fleet = Fleet(self.folder.engines, first_port=settings.engine_port_start, on_change=self._engine_changed)
        self.gpus = GpuSampler(on_change=self.changes.notify)
        self.host = HostSampler(self.folder.root, on_change=self.changes.notify)
        self._database = Database(self.folder.database)
        self.chats = Chats(ChatStore(self._database), self, changes=self.changes)

    def take_folder(self) -> None:
        """Make the state folder where it is not there yet, and lock it for this process; kill -9 unlocks it.

        Raises:
            StateFolderBusy: another panel has it.
        """
        self.folder.create()
        holder = self.folder.holder
        try:
            self._lock.acquire(timeout=0)
        except Timeout as err:
            raise StateFolderBusy(
                f"Another panel already uses the state folder {self.folder.root}{_describe_holder(holder)}.",
                hint="Use that one, end it first, or give this one a folder of its own by --home.",
            ) from err
        holder.write_text(json.dumps({"pid": os.getpid(), "address": self.settings.address}), encoding="utf-8")

    async def open(self) -> None:
        """Go on with what an earlier panel left running, start the samplers. After take_folder()."""
        await self._database.open()
        await self.chats.open()
        await self.fleet.adopt_all()
        await asyncio.to_thread(self.read_presets)
        self.gpus.start()
        self.host.start()

    async def close(self) -> None:
        """Let go of everything, whatever part of it fails. Engines live on, unless the settings say otherwise."""
        async with contextlib.AsyncExitStack() as ending:  # the last pushed is the first to go
            ending.callback(self._lock.release)
            ending.push_async_callback(self._database.close)
            ending.push_async_callback(self.gpus.close)
            ending.push_async_callback(self.host.close)
            ending.push_async_callback(self.fleet.close)
            if self.settings.stop_engines_on_exit:
                ending.push_async_callback(self.fleet.stop_all)
            ending.push_async_callback(self.chats.close)

    # presets

    @property
    def shelf(self) -> PresetShelf:
        """The presets as last read."""
        return self._shelf

    def offers(self) -> tuple[PresetOffer, ...]:
        """Every preset with whether it can be started now."""
        running = {e.spec.preset for e in self.fleet.engines.values() if e.spec and e.status.state in RUNNING_STATES}
        return tuple(
            PresetOffer(preset, preset.name in running, self._obstacles.get(preset.name, ""))
            for preset in self._shelf.presets
        )

    def read_presets(self) -> None:
        """Read the shelf and see which presets have their environment and model. Reads files; call it off the loop."""
        self._shelf = read_shelf(self._shipped_presets, self.folder.presets)
        obstacles = {}
        for preset in self._shelf.presets:
            try:
                self.plan(preset, port=self.settings.engine_port_start)
            except PanelError as err:
                obstacles[preset.name] = str(err)
        self._obstacles = obstacles

    def plan(self, preset: Preset, *, port: int) -> LaunchSpec:
        """What starting this preset would run.

        Raises:
            LaunchError: its environment or its model is not there.
        """
        environment = find_environment(self.folder, preset.engine)
        if environment is None:
            raise LaunchError(f"No {preset.engine} engine is installed.", hint="Run 'make setup' and try again.")
        probe = cached_probe(environment)
        return plan(
            preset,
            find_model(self.folder.models, preset.model.name),
            tools=EngineTools(python=environment.python, flags=probe.flags if probe else frozenset()),
            listen=Listen(port=port, api_key=self.settings.engine_api_key),
        )

    # what a person may do

    async def start_preset(self, viewer: Viewer, name: str) -> str:
        """Start a preset's engine; returns its id, long before it is ready."""
        require(viewer, Role.OPERATOR)
        await asyncio.to_thread(self.read_presets)
        preset = self._shelf.by_name(name)
        if any(offer.running for offer in self.offers() if offer.preset.name == name):
            raise LaunchError(f"{preset.title.en} runs already.", hint="Stop it first to start it anew.")
        spec = await asyncio.to_thread(self.plan, preset, port=self.fleet.claim_port(preset.name))
        log.info("start %s on port %s, asked by %s", name, spec.port, viewer.user)
        return await self.fleet.launch(spec)

    async def stop_engine(self, viewer: Viewer, engine_id: str) -> None:
        """Stop an engine; returns when nothing of it is left."""
        require(viewer, Role.OPERATOR)
        log.info("stop engine %s, asked by %s", engine_id, viewer.user)
        stopping = asyncio.create_task(self.fleet.stop(engine_id))  # first, so that no new question is taken
        await self.chats.end_answers(engine_id)  # vLLM waits for open streams on SIGTERM, for minutes
        await stopping

    async def remove_engine(self, viewer: Viewer, engine_id: str) -> None:
        """Delete a stopped engine's record and logs."""
        require(viewer, Role.OPERATOR)
        await self.fleet.forget(engine_id)
        self.changes.notify()

    # what the chats ask

    def ready(self) -> tuple[ChatEngine, ...]:
        """The engines that can answer now (EngineLookup)."""
        return tuple(self._as_chat_engine(engine) for engine in self.fleet.ready_engines() if engine.spec is not None)

    def _as_chat_engine(self, engine: Engine) -> ChatEngine:
        assert engine.spec is not None
        return ChatEngine(
            engine_id=engine.engine_id,
            title=engine.spec.title,
            base_url=engine.spec.base_url,
            served_model=engine.spec.served_model,
            api_key=self.settings.engine_api_key,
            max_model_len=engine.spec.max_model_len,
            reports_request_metrics=engine.spec.reports_request_metrics,
        )

    def _engine_changed(self, _: Engine) -> None:
        self.changes.notify()


def _describe_holder(path: Path) -> str:
    """' (pid 123, http://…)' of the panel that holds the folder, as far as it can be read."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f" (pid {holder['pid']}, {holder['address']})"
    except (OSError, ValueError, KeyError, TypeError) as err:
        log.debug("holder of the state folder not known: %s", err)
        return ""
