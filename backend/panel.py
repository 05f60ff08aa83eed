"""The whole backend as one object: what the page asks and what it may tell, whoever shows it."""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from filelock import FileLock, Timeout

from backend.changes import Changes
from backend.chat.chats import ChatEngine, Chats
from backend.chat.store import ChatStore
from backend.database import Database
from backend.engine.engine import Engine
from backend.engine.fleet import Fleet
from backend.engine.memory import cards_in_use
from backend.engine.status import RUNNING_STATES
from backend.environment.environments import Environments
from backend.environment.views import AttachedState
from backend.errors import LaunchError, StateFolderBusy
from backend.fit.host_overheads import HostOverheads
from backend.gpu.sampler import GpuSampler
from backend.host import HostSampler
from backend.known_models import KnownModels
from backend.launch.plan import engine_key
from backend.launch.shelf import PresetStore
from backend.launcher import Launcher
from backend.proposal import Proposals
from backend.settings import Settings
from backend.start_comparison import StartComparisons
from backend.viewer import Role, Viewer, require

log = logging.getLogger(__name__)

REFRESH_DELAY_S = 0.5


class Panel:
    """Owns the fleet, the chats and the samplers of one state folder, from open() to close()."""

    def __init__(self, settings: Settings, *, shipped_presets: Path) -> None:
        self.settings = settings
        self.folder = settings.state_folder
        self.changes = Changes()
        self._lock = FileLock(self.folder.lock)
        self.gpus = GpuSampler(on_change=self.changes.notify)
        self.host = HostSampler(self.folder.root, on_change=self.changes.notify)
        self.fleet = Fleet(
            self.folder.engines,
            first_port=settings.engine_port_start,
            on_change=self._engine_changed,
            cards=lambda: cards_in_use(self.gpus.view()),
        )
        self.environments = Environments(
            self.folder.environments, repository=shipped_presets.parent, on_change=self._environments_changed
        )
        self.launcher = Launcher(
            PresetStore(shipped_presets, self.folder.presets),
            models=self.folder.models,
            environments=self.environments,
            fleet=self.fleet,
            cards=self.gpus.view,
            engine_api_key=settings.engine_api_key,
            on_change=self.changes.notify,
        )
        self.models = KnownModels(self.folder.models, hub=settings.hub_endpoint, on_change=self.changes.notify)
        overheads = HostOverheads(self.folder.root / "overheads.json")
        self.proposals = Proposals(
            launcher=self.launcher,
            environments=self.environments,
            models=self.models,
            cards=self.gpus.view,
            host=self.host.snapshot,
            overheads=overheads,
        )
        self.comparisons = StartComparisons(overheads, predict=self.proposals.prediction, on_change=self.changes.notify)
        self._database = Database(self.folder.database)
        self.chats = Chats(ChatStore(self._database), self, changes=self.changes)
        self._refreshing: asyncio.Task[None] | None = None
        self._is_stale = False  # the environments have changed since a refresh began

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
        await self.environments.open()
        await self.launcher.refresh()
        self.gpus.start()
        self.host.start()

    async def close(self) -> None:
        """Let go of everything, whatever part of it fails. Engines live on, unless the settings say otherwise."""
        async with contextlib.AsyncExitStack() as ending:  # the last pushed is the first to go
            ending.callback(self._lock.release)
            ending.push_async_callback(self._database.close)
            ending.push_async_callback(self.gpus.close)
            ending.push_async_callback(self.host.close)
            ending.push_async_callback(self._end_refreshing)
            ending.push_async_callback(self.environments.close)  # it tells of changes while it ends
            ending.push_async_callback(self.fleet.close)
            if self.settings.stop_engines_on_exit:
                ending.push_async_callback(self.fleet.stop_all)
            ending.push_async_callback(self.chats.close)

    # what a person may do

    async def stop_engine(self, viewer: Viewer, engine_id: str) -> None:
        """Stop an engine; returns when nothing of it is left."""
        require(viewer, Role.OPERATOR)
        log.info("stop engine %s, asked by %s", engine_id, viewer.user)
        stopping = asyncio.create_task(self.fleet.stop(engine_id))  # first, so that no new question is taken
        await self.chats.end_answers(engine_id)  # vLLM waits for open streams on SIGTERM, for minutes
        await stopping

    async def restart_engine(self, viewer: Viewer, engine_id: str) -> None:
        """Stop an engine, wait until its memory is free, and start it again."""
        require(viewer, Role.OPERATOR)
        ending = asyncio.create_task(self.launcher.restart(viewer, engine_id))
        await self.chats.end_answers(engine_id)
        await ending

    async def set_care(self, viewer: Viewer, engine_id: str, name: str, value: bool) -> None:
        """Tick or untick one of an engine's boxes: start at boot, restart after a crash."""
        require(viewer, Role.OPERATOR)
        care = self.fleet.care(engine_id)
        if name not in {field.name for field in fields(care)}:
            raise LaunchError(f"An engine has no setting {name[:40]!r}.")
        self.fleet.set_care(engine_id, replace(care, **{name: value}))
        self.changes.notify()

    async def remove_environment(self, environment_id: str) -> None:
        """Forget an environment, and delete what was installed for it. Not while an engine runs in it."""
        async with self.launcher.starting:  # what is being planned may be planned for this environment
            for engine in self.fleet.engines.values():
                uses = engine.spec is not None and engine.spec.environment == environment_id
                if uses and engine.status.state in RUNNING_STATES:
                    raise LaunchError("An engine runs in this environment.", hint="Stop it first.")
            await self.environments.remove(environment_id)

    async def remove_engine(self, viewer: Viewer, engine_id: str) -> None:
        """Delete a stopped engine's record and logs."""
        require(viewer, Role.OPERATOR)
        await self.fleet.forget(engine_id)
        self.changes.notify()

    # what the chats ask

    def ready(self) -> tuple[ChatEngine, ...]:
        """The engines that can answer now (EngineLookup): our own, then attached servers."""
        own = (self._as_chat_engine(engine) for engine in self.fleet.ready_engines() if engine.spec is not None)
        return (*own, *self._attached())

    def _attached(self) -> Iterator[ChatEngine]:
        """Every model of every attached server that answers."""
        for view in self.environments.views:
            server = view.server
            if server is None or server.state is not AttachedState.READY:
                continue
            key = self.environments.attached_key(server.environment)
            for model in server.models:
                yield ChatEngine(
                    engine_id=f"{server.environment}/{model.id}",
                    title=f"{view.environment.title or server.address}: {model.id}",
                    base_url=server.address,
                    served_model=model.id,
                    api_key=key,
                    max_model_len=model.max_model_len,
                )

    def _as_chat_engine(self, engine: Engine) -> ChatEngine:
        assert engine.spec is not None
        return ChatEngine(
            engine_id=engine.engine_id,
            title=engine.spec.title,
            base_url=engine.spec.base_url,
            served_model=engine.spec.served_model,
            api_key=engine_key(engine.spec),
            max_model_len=engine.spec.max_model_len,
            reports_request_metrics=engine.spec.reports_request_metrics,
        )

    def _engine_changed(self, engine: Engine) -> None:
        self.changes.notify()
        self.comparisons.note(engine)

    def _environments_changed(self) -> None:
        """What can be started may have changed with them; several changes in a row are one refresh."""
        self.changes.notify()
        self._is_stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_soon())

    async def _refresh_soon(self) -> None:
        while self._is_stale:
            await asyncio.sleep(REFRESH_DELAY_S)
            self._is_stale = False  # what changes from here on may be seen by half only, and takes another round
            try:
                await self.launcher.refresh()
            except Exception:  # whatever lies in the folders, the next change is looked at again
                log.exception("the presets cannot be looked at")

    async def _end_refreshing(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})


def _describe_holder(path: Path) -> str:
    """' (pid 123, http://…)' of the panel that holds the folder, as far as it can be read."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f" (pid {holder['pid']}, {holder['address']})"
    except (OSError, ValueError, KeyError, TypeError) as err:
        log.debug("holder of the state folder not known: %s", err)
        return ""
