"""Takes care of one engine while no person does: notes how its runs end, and starts it again when that is due."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from backend.engine.care import Care, CarePolicy, CareState, RunEnd, after_end
from backend.engine.engine import Engine
from backend.engine.run_folder import write_json
from backend.engine.status import STARTABLE_STATES, EngineState, ShownCare
from backend.errors import LaunchError

log = logging.getLogger(__name__)

_ADAPTER = TypeAdapter(CareState)


class Caretaker:
    """The one writer of an engine's care.json. Its decisions are care.py's; it acts, and shows them in the status."""

    def __init__(
        self, engine: Engine, path: Path, *, policy: CarePolicy | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self._engine = engine
        self._path = path
        self._policy = policy or CarePolicy()
        self._wall = wall
        self._state = CareState()
        self._answers = True
        self._restarting: asyncio.Task[None] | None = None

    @property
    def care(self) -> Care:
        """What a person wants done."""
        return self._state.care

    def set_care(self, care: Care) -> None:
        """Change it, for crashes from now on; a restart that is pending is dropped when none is wanted any more."""
        state = replace(self._state, care=care, gave_up=None)
        if not care.restart_on_crash:
            self._cancel()
            state = replace(state, restart_at=None)
        if self._engine.status.state in STARTABLE_STATES:
            state = replace(state, judged_run=self._engine.status.run or 0)
        self._keep(state)

    def load(self, *, same_boot: bool) -> None:
        """Read care.json; call before the engine is adopted. What crashed in an earlier boot is not started again."""
        self._answers = same_boot
        try:
            self._state = _ADAPTER.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValidationError) as err:
            log.error("%s cannot be read; this engine is left to people: %s", self._path, err)
        if not same_boot:
            self._state = replace(self._state, restart_at=None)

    def begin(self) -> None:
        """After the engine was adopted: go on with a restart that an earlier panel had planned."""
        self._answers = True
        self._show()
        if self._state.restart_at is not None and self._engine.status.state is EngineState.FAILED:
            self._plan_restart(self._state.restart_at)

    def note(self) -> None:
        """Look at the engine's status; call at each change. An end that is new is decided upon."""
        status = self._engine.status
        if status.state not in STARTABLE_STATES or status.run is None or status.run <= self._state.judged_run:
            return
        end = RunEnd(
            run=status.run,
            is_crash=status.state is EngineState.FAILED and self._answers and not self._engine.was_told_to_end,
            failure=status.failure,
            returncode=status.returncode,
            was_ready=status.ready_at is not None,
        )
        self._keep(after_end(self._state, end, now=self._wall(), policy=self._policy))
        if self._state.restart_at is not None:
            log.info("engine %s crashed and is started again at %.0f", self._engine.engine_id, self._state.restart_at)
            self._plan_restart(self._state.restart_at)

    def note_refusal(self) -> None:
        """A start without a person was refused before a process began."""
        self._keep(self._state.refused())

    def touch(self) -> None:
        """A person starts or stops the engine: whatever was pending is dropped."""
        self._cancel()
        self._keep(self._state.touched())

    async def close(self) -> None:
        """Stop acting. What is pending stays written down for the next panel."""
        task = self._restarting
        self._cancel()
        if task is not None:
            await asyncio.wait({task})

    def _plan_restart(self, at: float) -> None:
        self._cancel()
        self._restarting = asyncio.create_task(self._restart(at), name=f"restart of {self._engine.engine_id}")

    async def _restart(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._wall()))
        spec = self._engine.spec
        if spec is None or self._engine.status.state not in STARTABLE_STATES:
            return
        self._keep(self._state.restarted())
        try:
            await self._engine.start(spec)
        except LaunchError as err:
            log.warning("engine %s is not started again: %s", self._engine.engine_id, err)
            self.note_refusal()

    def _cancel(self) -> None:
        if self._restarting is not None and self._restarting is not asyncio.current_task():
            self._restarting.cancel()
        self._restarting = None

    def _keep(self, state: CareState) -> None:
        if state == self._state:
            return
        self._state = state
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._path, _ADAPTER.dump_python(state, mode="json"))
        except OSError as err:  # it holds for this panel; the next sees the older one
            log.error("%s cannot be written: %s", self._path, err)
        self._show()

    def _show(self) -> None:
        state = self._state
        self._engine.show_care(ShownCare(state.restarts, state.restart_at, state.gave_up))
