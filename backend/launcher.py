"""From a preset to a running engine: the shelf, what keeps each preset from starting, and every way to start one."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from backend.engine.engine import Engine
from backend.engine.fleet import Fleet
from backend.engine.status import RUNNING_STATES
from backend.environment.attached import clean_key
from backend.environment.environments import Environments
from backend.errors import LaunchError, PanelError
from backend.failure.failure import Fix
from backend.gpu.snapshot import GpuView
from backend.importing.draft import Import
from backend.importing.text import read_import
from backend.launch.adjustments import Adjustments
from backend.launch.card_choice import choose_cards
from backend.launch.models import find_model
from backend.launch.plan import GpuChoice, LaunchSpec, Listen, engine_key, plan
from backend.launch.preset import Preset
from backend.launch.shelf import PresetShelf, PresetStore
from backend.settings import is_loopback
from backend.viewer import Role, Viewer, require

log = logging.getLogger(__name__)

UNCHANGED = Adjustments()
LOOPBACK = "127.0.0.1"


class Obstacle(StrEnum):
    """What a preset waits for before it can be started."""

    ENVIRONMENT = "environment"  # no engine environment that could run it
    MODEL = "model"  # its model is not on this machine
    OTHER = "other"


@dataclass(frozen=True)
class PresetOffer:
    """A preset on the shelf, whether it runs, and what keeps it from being started, if anything."""

    preset: Preset
    own: bool  # made here, and may be changed
    running: bool
    obstacle: Obstacle | None = None
    obstacle_words: str = ""


class Launcher:
    """Owns the shelf. Starting asks the environments for tools, plans, and hands the spec to the fleet."""

    def __init__(
        self,
        store: PresetStore,
        *,
        models: Path,
        environments: Environments,
        fleet: Fleet,
        cards: Callable[[], GpuView],
        engine_api_key: SecretStr | None,
        on_change: Callable[[], None],
    ) -> None:
        self._store = store
        self._models = models
        self._environments = environments
        self._fleet = fleet
        self._cards = cards
        self._api_key = engine_api_key
        self._on_change = on_change
        self._shelf = PresetShelf((), ())
        self._revision = 0
        self._obstacles: Mapping[str, tuple[Obstacle, str]] = {}
        self._looking = asyncio.Lock()  # a look begun earlier must not come after a later one
        self.starting = asyncio.Lock()
        """Held from the choice of cards and environment until the engine is launched: only then do others see them taken."""

    @property
    def shelf(self) -> PresetShelf:
        """The presets as last read."""
        return self._shelf

    @property
    def revision(self) -> int:
        """Grows with each refresh: offers of the same revision differ at most in what runs."""
        return self._revision

    def running(self) -> frozenset[str]:
        """Names of the presets whose engines run."""
        return frozenset(spec.preset for spec in self._running_specs())

    def _running_specs(self) -> Iterator[LaunchSpec]:
        return (e.spec for e in self._fleet.engines.values() if e.spec and e.status.state in RUNNING_STATES)

    def offers(self) -> tuple[PresetOffer, ...]:
        """Every preset with whether it can be started now."""
        running = self.running()
        return tuple(self._offer(preset, running=preset.name in running) for preset in self._shelf.presets)

    def _offer(self, preset: Preset, *, running: bool) -> PresetOffer:
        obstacle, words = self._obstacles.get(preset.name, (None, ""))
        return PresetOffer(preset, not self._shelf.is_shipped(preset.name), running, obstacle, words)

    async def refresh(self) -> None:
        """Read the shelf and see which presets have their environment and model."""
        async with self._looking:
            self._shelf, self._obstacles = await asyncio.to_thread(self._look)
            self._revision += 1
        self._on_change()

    def _look(self) -> tuple[PresetShelf, Mapping[str, tuple[Obstacle, str]]]:
        shelf = self._store.read()
        found = ((preset.name, self._obstacle(preset)) for preset in shelf.presets)
        return shelf, {name: obstacle for name, obstacle in found if obstacle is not None}

    def _obstacle(self, preset: Preset) -> tuple[Obstacle, str] | None:
        """The first thing that is missing: the environment, then the model, then whatever planning says."""
        kind = Obstacle.ENVIRONMENT
        try:
            self._environments.tools(preset.engine)
            kind = Obstacle.MODEL
            find_model(self._models, preset.model.name)
            kind = Obstacle.OTHER
            self.plan(preset, port=1)
        except PanelError as err:
            return kind, str(err)
        return None

    def plan(
        self,
        preset: Preset,
        *,
        port: int,
        adjustments: Adjustments = UNCHANGED,
        gpus: tuple[GpuChoice, ...] = (),
        api_key: SecretStr | None = None,
    ) -> LaunchSpec:
        """What starting this preset would run. Reads the model's folder: call it off the loop.

        Raises:
            LaunchError: its environment or its model is not there, or this engine cannot do what it asks.
            SetupError: the key cannot go into a header, so that no client could ever give it.
        """
        own_key = clean_key(api_key.get_secret_value()) if api_key else None
        listen = Listen(port=port, host=adjustments.host or LOOPBACK, api_key=own_key or self._api_key)
        if not is_loopback(listen.host) and listen.api_key is None:
            raise LaunchError(
                f"{preset.title.en} would answer anybody who reaches {listen.host}.", hint="Give it an API key first."
            )
        guesser = preset.speculation.model if preset.speculation else None
        return plan(
            preset,
            find_model(self._models, preset.adjusted(adjustments).model.name),
            tools=self._environments.tools(preset.engine, adjustments.environment),
            listen=listen,
            adjustments=adjustments,
            gpus=gpus,
            draft=find_model(self._models, guesser) if guesser else None,
        )

    # starting

    async def start(
        self, viewer: Viewer, name: str, adjustments: Adjustments = UNCHANGED, *, api_key: SecretStr | None = None
    ) -> str:
        """Start a preset's engine; returns its id, long before it is ready. `api_key`: None takes the panel's own."""
        require(viewer, Role.OPERATOR)
        await self.refresh()
        preset = self._shelf.by_name(name)
        if name in self.running():
            raise LaunchError(f"{preset.title.en} runs already.", hint="Stop it first to start it anew.")
        async with self.starting:
            gpus = self.cards_for(preset.adjusted(adjustments), adjustments)
            port = adjustments.port or self._fleet.claim_port(preset.name)
            plan_it = partial(self.plan, preset, port=port, adjustments=adjustments, gpus=gpus, api_key=api_key)
            spec = await asyncio.to_thread(plan_it)
            log.info("start %s on port %s, asked by %s", name, spec.port, viewer.user)
            return await self._fleet.launch(spec)

    def cards_for(self, preset: Preset, adjustments: Adjustments) -> tuple[GpuChoice, ...]:
        """The cards a launch would get now. Raises LaunchError where there are too few."""
        taken = self._taken_cards(preset.name)
        return choose_cards(preset, self._cards().cards, taken=taken, wanted=adjustments.cards)

    def _taken_cards(self, preset: str) -> frozenset[str]:
        """UUIDs of the cards that running engines have, and those of other presets that will be started again by themselves."""
        return frozenset(
            uuid
            for engine in self._fleet.engines.values()
            if engine.spec is not None
            and (
                engine.status.state in RUNNING_STATES
                or (engine.status.restart_at is not None and engine.spec.preset != preset)
            )
            for uuid in engine.spec.gpus
        )

    def served_names(self, *, besides: str) -> tuple[str, ...]:
        """What running engines are called by clients, that of the preset `besides` left out."""
        return tuple(spec.served_model for spec in self._running_specs() if spec.preset != besides)

    async def fix(self, viewer: Viewer, engine_id: str, number: int) -> None:
        """Start a failed engine again with one thing changed: the fix of this number of its failure."""
        require(viewer, Role.OPERATOR)
        engine = self._engine(engine_id)
        failure = engine.status.failure
        if engine.spec is None or failure is None or not 0 <= number < len(failure.fixes):
            raise LaunchError("That remedy is no longer offered.", hint="The engine's card shows how it stands now.")
        await self._start_again(viewer, engine, failure.fixes[number])

    async def restart(self, viewer: Viewer, engine_id: str) -> None:
        """Stop an engine, wait until its memory is free, and start its preset as it is now."""
        require(viewer, Role.OPERATOR)
        engine = self._engine(engine_id)
        if engine.spec is None:
            raise LaunchError(f"Engine {engine_id} has never run.", hint="Start a preset instead.")
        await self._fleet.stop_and_wait(engine_id)
        await self._start_again(viewer, engine, None)

    async def _start_again(self, viewer: Viewer, engine: Engine, fix: Fix | None) -> None:
        spec = engine.spec
        assert spec is not None
        adjustments = spec.adjustments.with_fix(fix) if fix else spec.adjustments
        if spec.preset in {preset.name for preset in self._shelf.presets}:
            await self.start(viewer, spec.preset, adjustments, api_key=engine_key(spec))
            return
        if fix is not None:
            raise LaunchError(f"The preset {spec.preset!r} is no longer there, so it cannot be started with a change.")
        await self._fleet.launch(spec)

    def _engine(self, engine_id: str) -> Engine:
        engine = self._fleet.engines.get(engine_id)
        if engine is None:
            raise LaunchError(f"There is no engine {engine_id}.", hint="It may have been removed in another tab.")
        return engine

    # the shelf

    async def save(self, viewer: Viewer, text: str, *, replacing: str | None = None) -> Preset:
        """Keep a preset of the lab's own."""
        require(viewer, Role.OPERATOR)
        preset = await asyncio.to_thread(self._store.save, text, replacing=replacing)
        await self.refresh()
        return preset

    async def copy(self, viewer: Viewer, name: str) -> Preset:
        """Make an own preset of any preset."""
        require(viewer, Role.OPERATOR)
        preset = await asyncio.to_thread(self._store.copy, name)
        await self.refresh()
        return preset

    async def delete(self, viewer: Viewer, name: str) -> None:
        """Delete an own preset. Engines started from it are left alone."""
        require(viewer, Role.OPERATOR)
        await asyncio.to_thread(self._store.delete, name)
        await self.refresh()

    async def text_of(self, viewer: Viewer, name: str) -> str:
        """A preset as a file."""
        require(viewer, Role.MEMBER)
        return await asyncio.to_thread(self._store.export, name)

    async def read_import(self, viewer: Viewer, text: str) -> Import:
        """What a pasted command, config.env or preset means. Nothing is kept."""
        require(viewer, Role.OPERATOR)
        return await asyncio.to_thread(read_import, text)
