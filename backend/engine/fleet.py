"""All engines of one state folder: adopts them, launches and stops them, cares for them, and hands out their ports."""

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from backend.engine.boot import BootFile
from backend.engine.care import Care, CarePolicy
from backend.engine.caretaker import Caretaker
from backend.engine.engine import DEFAULT_GRACE_S, Engine, EngineTiming
from backend.engine.memory import CardGauge, no_cards
from backend.engine.spawn import is_port_free
from backend.engine.status import RUNNING_STATES, EngineState
from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec
from backend.state_folder import new_id

FIRST_PORT = 8100
PORT_COUNT = 400

_HOST = "127.0.0.1"

log = logging.getLogger(__name__)


class Fleet:
    """Several engines at once. `folder` is the state folder's engines/.

    `on_change` is told of every engine's changes; `cards` tells what is used of the cards' memory.
    """

    def __init__(
        self,
        folder: Path,
        *,
        first_port: int = FIRST_PORT,
        on_change: Callable[[Engine], None] | None = None,
        timing: EngineTiming | None = None,
        policy: CarePolicy | None = None,
        cards: CardGauge = no_cards,
    ) -> None:
        self._folder = folder
        self._first_port = first_port
        self._on_change = on_change
        self._timing = timing
        self._policy = policy
        self._cards = cards
        self._boot = BootFile(folder / "boot.json")
        self._engines: dict[str, Engine] = {}
        self._caretakers: dict[str, Caretaker] = {}
        self._autostarting: asyncio.Task[None] | None = None
        self._claims: dict[str, int] = {}  # preset -> the port it was last given
        self._stops: dict[str, int] = {}  # engine -> how often a person has stopped it

    @property
    def engines(self) -> Mapping[str, Engine]:
        """A snapshot: engines by id."""
        return dict(self._engines)

    def ready_engines(self) -> tuple[Engine, ...]:
        """Engines that answer now."""
        return tuple(engine for engine in self._engines.values() if engine.status.state is EngineState.READY)

    def of_preset(self, preset: str) -> Engine | None:
        """The engine that runs this preset, else the one that ran it last; None for "" and for a preset never run."""
        own = [engine for engine in self._engines.values() if preset and engine.spec and engine.spec.preset == preset]
        return max(own, key=_recency, default=None)

    async def adopt_all(self) -> None:
        """Take over what an earlier panel left: running engines, dead ones, unreadable records. Call once, first.

        Then, once in each boot of the machine, engines with autostart are started, in the background.
        """
        same_boot = self._boot.read()
        found = {name: self._new_engine(name) for name in self._folders()}
        for name in found:
            self._caretakers[name].load(same_boot=same_boot)
        await asyncio.gather(*(engine.adopt() for engine in found.values()))
        # a folder without a record is an engine that never began
        self._engines.update({name: engine for name, engine in found.items() if engine.status.since > 0})
        for name in found.keys() - self._engines.keys():
            del self._caretakers[name]
        for caretaker in self._caretakers.values():
            caretaker.begin()
        if not same_boot:
            self._boot.begin(name for name, caretaker in self._caretakers.items() if caretaker.care.autostart)
        if self._boot.todo:
            self._autostarting = asyncio.create_task(self._autostart(), name="autostart")

    def claim_port(self, preset: str = "") -> int:
        """A free port from 8100 up, for a spec about to be planned. Raises LaunchError when none is free.

        A preset gets the port it had before while that is free, so that its address stays and previews do not walk.
        """
        taken = self._taken_ports(preset)
        last = self.of_preset(preset)
        preferred = (self._claims.get(preset), last.spec.port if last and last.spec else None)
        candidates = [port for port in preferred if port] + list(range(self._first_port, self._first_port + PORT_COUNT))
        for port in candidates:
            if port not in taken and is_port_free(_HOST, port):
                self._claims[preset] = port
                return port
        raise LaunchError(f"No port from {self._first_port} to {self._first_port + PORT_COUNT - 1} is free.")

    async def launch(self, spec: LaunchSpec) -> str:
        """Start `spec` on the stopped engine of its preset, or on a new one; returns the engine's id.

        Raises LaunchError when that preset runs already, or as Engine.start() does.
        """
        engine = self.of_preset(spec.preset)
        if engine is not None and engine.status.state in RUNNING_STATES:
            raise LaunchError(f"{spec.title} is already {engine.status.state}.", hint="Stop it first.")
        if spec.port and spec.port in self._running_ports():
            raise LaunchError(f"Port {spec.port} belongs to another engine of this panel.", hint="Plan it again.")
        if engine is None:
            engine = self._new_engine(new_id())
        await self._start_listed(engine, spec)
        return engine.engine_id

    async def stop(self, engine_id: str, *, grace_s: float = DEFAULT_GRACE_S) -> None:
        """Engine.stop() by id, also of a pending restart. Raises LaunchError when there is no such engine."""
        engine = self._engine(engine_id)
        caretaker = self._caretakers[engine_id]
        caretaker.touch()
        self._stops[engine_id] = self._stops.get(engine_id, 0) + 1
        was_running = engine.status.state in RUNNING_STATES
        await engine.stop(grace_s=grace_s)
        if was_running and engine.status.state is EngineState.FAILED:
            caretaker.touch()  # it was ending by itself already: no restart may follow from a crash a person has seen to

    async def stop_and_wait(self, engine_id: str, *, grace_s: float = DEFAULT_GRACE_S) -> None:
        """stop() that also answers for the memory: raises LaunchError when it is not free within a minute.

        Of an engine that does not run nothing is waited for. Raises LaunchError as well when somebody else stopped it
        meanwhile: what was to follow, such as a restart, is against their wish.
        """
        engine = self._engine(engine_id)
        was_running = engine.status.state in RUNNING_STATES
        number = self._stops.get(engine_id, 0) + 1  # of our own stop
        await self.stop(engine_id, grace_s=grace_s)
        if self._stops.get(engine_id) != number:
            raise LaunchError(
                f"Engine {engine_id} was stopped, restarted or removed by somebody else meanwhile.",
                hint="Start it again if it is still wanted.",
            )
        if was_running and engine.was_told_to_end and engine.status.reason:
            raise LaunchError(engine.status.reason, hint=engine.status.hint)

    async def restart(self, engine_id: str) -> None:
        """Stop an engine, wait until its memory is free, and start the same again; one that does not run is started.

        Raises LaunchError as start() does, when it never ran, or when its memory does not become free.
        """
        engine = self._engine(engine_id)
        if engine.spec is None:
            raise LaunchError(f"Engine {engine_id} has never run.", hint="Start a preset instead.")
        await self.stop_and_wait(engine_id)
        await engine.start(engine.spec)

    def care(self, engine_id: str) -> Care:
        """What is done for an engine without a person. Raises LaunchError when there is no such engine."""
        self._engine(engine_id)
        return self._caretakers[engine_id].care

    def set_care(self, engine_id: str, care: Care) -> None:
        """Change that; it holds from now on and is remembered. Raises LaunchError when there is no such engine."""
        engine = self._engine(engine_id)
        self._caretakers[engine_id].set_care(care)
        self._engine_changed(engine)

    def run_log(self, engine_id: str, number: int) -> Iterator[bytes]:
        """Engine.run_log() by id."""
        return self._engine(engine_id).run_log(number)

    async def forget(self, engine_id: str) -> None:
        """Delete a stopped engine with its runs and logs. Raises LaunchError while it runs."""
        engine = self._engine(engine_id)
        if engine.status.state in RUNNING_STATES:
            raise LaunchError(
                f"Engine {engine_id} is {engine.status.state} and cannot be deleted.", hint="Stop it first."
            )
        self._caretakers[engine_id].touch()
        del self._engines[engine_id], self._caretakers[engine_id]
        self._stops.pop(engine_id, None)
        await asyncio.to_thread(shutil.rmtree, self._folder / engine_id, ignore_errors=True)

    async def stop_all(self) -> None:
        """Stop every engine, all at the same time."""
        await self._end_autostart()
        await asyncio.gather(*(self.stop(engine_id) for engine_id in self._engines))

    async def close(self) -> None:
        """Stop watching. The engines live on."""
        await self._end_autostart()
        await asyncio.gather(*(caretaker.close() for caretaker in self._caretakers.values()))
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    async def _start_listed(self, engine: Engine, spec: LaunchSpec) -> None:
        """Start an engine that is in the list while it starts; one that never began is not kept."""
        self._engines[engine.engine_id] = engine
        self._caretakers[engine.engine_id].touch()
        try:
            await engine.start(spec)
        except LaunchError:
            if engine.spec is None:
                del self._engines[engine.engine_id], self._caretakers[engine.engine_id]
            raise

    async def _autostart(self) -> None:
        """Start in turn what is still to be started in this boot; one that cannot be does not hold up the others."""
        for engine_id in self._boot.todo:
            engine = self._engines.get(engine_id)
            if not self._boot.cross_off(engine_id):
                return
            if engine is None or engine.spec is None or engine.status.state in RUNNING_STATES:
                continue
            log.info("engine %s is started at boot", engine_id)
            try:
                await engine.start(engine.spec)
            except LaunchError as err:
                log.warning("engine %s is not started at boot: %s", engine_id, err)
                self._caretakers[engine_id].note_refusal()

    async def _end_autostart(self) -> None:
        if self._autostarting is not None:
            self._autostarting.cancel()
            await asyncio.wait({self._autostarting})

    def _folders(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []

    def _new_engine(self, engine_id: str) -> Engine:
        folder = self._folder / engine_id
        engine = Engine(engine_id, folder, on_change=self._engine_changed, timing=self._timing, cards=self._cards)
        self._caretakers[engine_id] = Caretaker(engine, folder / "care.json", policy=self._policy)
        return engine

    def _engine_changed(self, engine: Engine) -> None:
        caretaker = self._caretakers.get(engine.engine_id)
        if caretaker is not None:
            caretaker.note()
        if self._on_change is not None:
            self._on_change(engine)

    def _engine(self, engine_id: str) -> Engine:
        try:
            return self._engines[engine_id]
        except KeyError as err:
            raise LaunchError(f"There is no engine {engine_id}.") from err

    def _running_ports(self) -> set[int]:
        running = (engine for engine in self._engines.values() if engine.status.state in RUNNING_STATES)
        return {engine.spec.port for engine in running if engine.spec}

    def _taken_ports(self, preset: str) -> set[int]:
        return self._running_ports() | {port for owner, port in self._claims.items() if owner != preset}


def _recency(engine: Engine) -> tuple[bool, float]:
    return engine.status.state in RUNNING_STATES, engine.status.started_at or 0.0
