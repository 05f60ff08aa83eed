"""All engines of one state folder: adopts them, launches and stops them, and hands out their ports."""

from collections.abc import Callable, Mapping
from pathlib import Path

from backend.engine import Engine, EngineTiming
from backend.launch import LaunchSpec

FIRST_PORT = 8100


class Fleet:
    """Several engines at once. `folder` is the state folder's engines/; on_change is passed to every engine."""

    def __init__(
        self,
        folder: Path,
        *,
        on_change: Callable[[Engine], None] | None = None,
        timing: EngineTiming | None = None,
    ) -> None:
        self._folder = folder
        self._on_change = on_change
        self._timing = timing
        self._engines: dict[str, Engine] = {}

    @property
    def engines(self) -> Mapping[str, Engine]:
        """A snapshot: engines by id, in order of their ids."""
        return dict(self._engines)

    def ready_engines(self) -> tuple[Engine, ...]:
        """Engines that answer now."""
        raise NotImplementedError

    def of_preset(self, preset: str) -> Engine | None:
        """The engine that runs this preset or last ran it."""
        raise NotImplementedError

    async def adopt_all(self) -> None:
        """Take over what an earlier panel left behind: running engines, dead ones, bad records. Call once."""
        raise NotImplementedError

    def claim_port(self, preset: str = "") -> int:
        """A free port from 8100 up, for a spec that is about to be planned. The same preset gets the same port again
        while it is free, so previews do not walk. Raises LaunchError when none is free."""
        raise NotImplementedError

    async def launch(self, spec: LaunchSpec) -> str:
        """Start `spec` on the stopped engine of its preset, or on a new one; returns the engine's id.

        Raises LaunchError when that preset runs already, or as Engine.start() does.
        """
        raise NotImplementedError

    async def stop(self, engine_id: str, *, grace_s: float = 10.0) -> None:
        """Engine.stop() by id. Raises LaunchError when there is no such engine."""
        raise NotImplementedError

    async def forget(self, engine_id: str) -> None:
        """Delete a stopped engine with its runs and logs. Raises LaunchError while it runs."""
        raise NotImplementedError

    async def stop_all(self) -> None:
        """Stop every engine, at once."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop watching. The engines live on."""
        raise NotImplementedError
