"""The looks at environments: what the last one found, whether it is still true, and one new look at a time."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState
from backend.environment.environments_folder import FolderReading
from backend.environment.probe import EnvironmentProbe, is_same_image, keep_probe, look_at
from backend.errors import SetupError

log = logging.getLogger(__name__)

Found = TypeVar("Found")


class Looks:
    """Owns the probes of all environments. A look takes a core for 10 s, so they queue in one thread."""

    def __init__(self, *, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._probes: dict[str, EnvironmentProbe] = {}  # the last ones
        self._stale: frozenset[str] = frozenset()  # whose probe is not true any more, or not there
        self._errors: dict[str, str] = {}
        self._under_way: set[str] = set()
        self._thread: ThreadPoolExecutor | None = None
        self.stop = Event()  # ends a look early

    def open(self) -> None:
        """Make the thread."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="look")

    async def close(self) -> None:
        """End the look that is under way, and its processes."""
        self.stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    def probe(self, identifier: str) -> EnvironmentProbe | None:
        """What the last look found."""
        return self._probes.get(identifier)

    def error(self, identifier: str) -> str:
        """Why the last look failed; "": it did not."""
        return self._errors.get(identifier, "")

    def is_under_way(self, identifier: str) -> bool:
        """Whether a look runs or waits for its turn."""
        return identifier in self._under_way

    def take(self, reading: FolderReading) -> None:
        """The probes that lie in the folder now."""
        self._probes = dict(reading.last)
        self._stale = frozenset(one.id for one in reading.environments) - frozenset(reading.current)

    def forget(self, identifier: str) -> None:
        """Before another try, or after a removal."""
        self._errors.pop(identifier, None)

    def is_wanted(self, environment: EngineEnvironment) -> bool:
        """Whether it can be looked at, and was not as it is now. What failed once is not tried again by itself."""
        can_be = environment.state is EnvironmentState.READY and environment.kind is not EnvironmentKind.ADDRESS
        return can_be and environment.id in self._stale - self._under_way - self._errors.keys()

    async def look(self, environment: EngineEnvironment) -> None:
        """Look at it now; what is found, or why not, is kept here."""
        if environment.id in self._under_way:
            return
        self._under_way.add(environment.id)
        self._on_change()
        try:
            self._probes[environment.id] = await self.run(lambda: self._looked_at(environment))
            self._errors.pop(environment.id, None)
        except (SetupError, OSError) as err:
            self._errors[environment.id] = str(err)
        finally:
            self._under_way.discard(environment.id)
            self._stale -= {environment.id}
            self._on_change()

    async def look_at_images(self, environments: Iterable[EngineEnvironment]) -> None:
        """Once: an image may have been built anew under its old name while no panel ran."""
        for environment in environments:
            probe = self.probe(environment.id)
            if environment.kind is not EnvironmentKind.DOCKER or probe is None:
                continue
            try:
                is_same = await asyncio.to_thread(is_same_image, environment, probe)
            except SetupError as err:
                self._errors[environment.id] = str(err)
                self._on_change()
                continue
            if not is_same:
                await self.look(environment)

    async def run(self, work: Callable[[], Found]) -> Found:
        """Do this in the thread of the looks."""
        if self._thread is None:
            raise RuntimeError("a look before open()")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _looked_at(self, environment: EngineEnvironment) -> EnvironmentProbe:
        probe = look_at(environment, stop=self.stop)
        keep_probe(environment, probe)
        return probe
