"""All engine environments of one state folder: their records, looks, installations and attached servers. One owner."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path

from pydantic import SecretStr

from backend.engine.log_segments import PlainFile
from backend.engine.log_tail import LogTail
from backend.environment.abilities import engine_kinds, lacks
from backend.environment.attached import AttachedPoller, clean_address, clean_key
from backend.environment.choice import choose
from backend.environment.docker import Docker
from backend.environment.environment import EngineEnvironment, EnvironmentKind
from backend.environment.environments_folder import EnvironmentsFolder, FolderReading
from backend.environment.installations import Installations
from backend.environment.looks import Looks
from backend.environment.views import AttachedServer, EnvironmentView, RecipeOffer
from backend.errors import SetupError
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.setup.disk import bytes_below
from backend.setup.recipe import Recipe, find_recipe

log = logging.getLogger(__name__)

WATCH_S = 3.0  # the records are read again: `make setup` may work beside the panel
LOG_POLL_S = 0.5
COUNT_EVERY = 5  # rounds of the watch between two counts of the bytes of an installation
DEFAULT_DOCKER = Path("/usr/bin/docker")


class Environments:
    """Engine environments from open() to close(). Everything slow is done in threads or child processes.

    `on_change` is called on the loop whenever a view, an offer or a log may have changed.
    """

    def __init__(
        self, folder: Path, *, repository: Path, on_change: Callable[[], None], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._folder = EnvironmentsFolder(folder, repository)
        self._on_change = on_change
        self._environ = environ
        self._records: dict[str, EngineEnvironment] = {}
        self._busy: frozenset[str] = frozenset()  # recipes that another process installs
        self._looks = Looks(on_change=on_change)
        self._installations = Installations(self._folder, environ=environ, on_change=on_change)
        self._pollers: dict[str, AttachedPoller] = {}
        self._tails: dict[str, LogTail] = {}
        self._bytes: dict[str, int] = {}
        self._offers: tuple[RecipeOffer, ...] = ()
        self._docker = DEFAULT_DOCKER
        self._tasks: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()  # removals and installations begun, one after another
        self._reading = asyncio.Lock()

    async def open(self) -> None:
        """Read what is there, begin to ask attached servers, and look at what was not looked at yet."""
        self._looks.open()
        await asyncio.to_thread(self._folder.folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(self._folder.clear_remains)
        with contextlib.suppress(SetupError):  # no docker here; a look at an image will say so
            self._docker = Docker.find(self._environ).program
        await self._read()
        self._begin(self._watch())
        self._begin(self._follow_logs())
        self._begin(self._looks.look_at_images(tuple(self._records.values())))

    async def close(self) -> None:
        """Stop everything: installations are interrupted, and can be resumed by the next panel."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._installations.close()
        await asyncio.gather(*(poller.close() for poller in self._pollers.values()))
        await self._looks.close()

    # what is there

    @property
    def views(self) -> tuple[EnvironmentView, ...]:
        """Every environment, by id."""
        return tuple(self._view(self._records[identifier]) for identifier in sorted(self._records))

    def view(self, identifier: str) -> EnvironmentView | None:
        """One environment; None where it is gone."""
        environment = self._records.get(identifier)
        return None if environment is None else self._view(environment)

    @property
    def attached(self) -> tuple[AttachedServer, ...]:
        """Every attached server as it last answered."""
        return tuple(self._pollers[identifier].server for identifier in sorted(self._pollers))

    def attached_key(self, identifier: str) -> SecretStr | None:
        """The API key of an attached server; None where it has none."""
        poller = self._pollers.get(identifier)
        return None if poller is None else poller.key

    def recipes(self) -> tuple[RecipeOffer, ...]:
        """What the installer offers, as of a few seconds ago; empty for a moment after open()."""
        return self._offers

    def tools(self, kind: EngineKind, environment_id: str | None = None) -> EngineTools:
        """The tools of the environment chosen, else of the best one for this kind of engine.

        Raises:
            LaunchError: it does not fit, or there is none; the message says what is missing.
        """
        view = choose(self.views, kind, environment_id)
        environment, probe = view.environment, view.probe
        is_image = environment.kind is EnvironmentKind.DOCKER
        return EngineTools(
            kind=kind,
            python=None if is_image else environment.python,
            image=environment.image if is_image else None,
            docker=self._docker,
            environment=environment.id,
            flags=probe.flags if probe else frozenset(),
            choices=probe.choices if probe else {},
            vllm=(probe.vllm if probe else None) or environment.versions.get("vllm"),
            plugins=probe.plugins if probe else (),
        )

    def install_log(self, identifier: str) -> LogTail | None:
        """The log of its installation, read on from time to time; None where it never had one."""
        environment = self._records.get(identifier)
        if environment is None or environment.kind is not EnvironmentKind.MANAGED:
            return None
        return self._tails.setdefault(identifier, LogTail(PlainFile(environment.install_log)))

    # what a person may do

    async def add_python(self, path: str, title: str = "") -> str:
        """Take somebody's own Python; returns its id after a look of about 10 s.

        Raises:
            SetupError: it is no program, or no working vLLM is in it; nothing is then added.
        """
        return await self._add(lambda: self._folder.add_python(path, title, stop=self._looks.stop))

    async def add_docker(self, image: str, title: str = "") -> str:
        """Take a docker image; returns its id after a look of up to 3 minutes.

        Raises:
            SetupError: there is no docker, no such image here, or no working vLLM in it; nothing is then added.
        """
        return await self._add(lambda: self._folder.add_docker(image, title, stop=self._looks.stop))

    async def add_address(self, url: str, title: str = "", api_key: str = "") -> str:
        """Attach to a server, whether or not it answers now; returns its id after the first round of questions.

        Raises:
            SetupError: the address or the key cannot be one.
        """
        address, key = clean_address(url), clean_key(api_key)
        environment = await asyncio.to_thread(self._folder.add_address, address, title, key)
        await self._read()
        await self._pollers[environment.id].ask()
        return environment.id

    async def remove(self, identifier: str) -> None:
        """Delete an environment with all that was installed in it. Somebody's own Python or image is only forgotten.

        Raises:
            SetupError: there is none, or it is being installed.
        """
        async with self._changing:
            environment = self._known(identifier)
            if identifier in self._installations.at_work or environment.recipe in self._busy:
                raise SetupError("It is being installed.", hint="Cancel the installation first.")
            await asyncio.to_thread(self._folder.remove, environment)
            self._looks.forget(identifier)
            self._installations.forget(identifier)
            self._tails.pop(identifier, None)
            self._bytes.pop(identifier, None)
            await self._read(with_offers=True)

    async def probe(self, identifier: str) -> None:
        """Look at an environment anew, or ask an attached server at once. What is found, or why not, is in its view."""
        environment = self._known(identifier)
        if environment.kind is EnvironmentKind.ADDRESS:
            await self._pollers[identifier].ask()
        else:
            await self._looks.look(environment)

    async def install(self, recipe: str, *, index_url: str = "", extra_index_url: str = "") -> str:
        """Begin to install a recipe, behind whatever is being installed; returns the environment's id.

        Raises:
            SetupError: there is no such recipe, it is installed or being installed, or this machine cannot take it.
        """
        wanted = find_recipe(recipe)
        if wanted is None:
            raise SetupError(f"There is no recipe named {recipe[:80]!r}.")
        for url in filter(None, (index_url, extra_index_url)):
            if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
                raise SetupError("A package index begins with http:// or https://.")
        async with self._changing:
            return await self._install(wanted, index_url, extra_index_url)

    async def resume(self, identifier: str, *, index_url: str = "", extra_index_url: str = "") -> str:
        """Go on with an installation that was interrupted or failed, or mend an environment that broke.

        From the indexes named before, where none is named now: a lab with a mirror may reach nothing else.

        Raises:
            SetupError: there is nothing to go on with.
        """
        if not index_url and not extra_index_url:
            index_url, extra_index_url = self._installations.indexes(identifier)
        return await self.install(self._known(identifier).recipe, index_url=index_url, extra_index_url=extra_index_url)

    async def cancel(self, identifier: str) -> None:
        """End an installation; returns when nothing of it runs. It can be resumed.

        Raises:
            SetupError: no installation of this panel runs there.
        """
        await self._installations.cancel(identifier)

    # inside

    def _view(self, environment: EngineEnvironment) -> EnvironmentView:
        identifier = environment.id
        probe = self._looks.probe(identifier)
        poller = self._pollers.get(identifier)
        return EnvironmentView(
            environment=environment,
            probe=probe,
            probing=self._looks.is_under_way(identifier),
            probe_error=self._looks.error(identifier),
            install=self._installations.progress(environment, is_busy=environment.recipe in self._busy),
            engine_kinds=engine_kinds(environment, probe),
            missing=lacks(environment, probe),
            server=None if poller is None else poller.server,
            disk_bytes=self._bytes.get(identifier),
        )

    def _known(self, identifier: str) -> EngineEnvironment:
        environment = self._records.get(identifier)
        if environment is None:
            raise SetupError(f"There is no engine environment {identifier[:40]!r}.")
        return environment

    async def _add(self, make: Callable[[], EngineEnvironment]) -> str:
        environment = await self._looks.run(make)
        await self._read()
        return environment.id

    async def _install(self, recipe: Recipe, index_url: str, extra_index_url: str) -> str:
        offer = next((one for one in self._offers if one.recipe.name == recipe.name), None)
        if offer is not None and offer.obstacle and len(recipe.footprints) == 1:
            raise SetupError(offer.obstacle)  # where the index decides how much it is, the installer asks it first
        identifier = await self._installations.begin(recipe, index_url=index_url, extra_index_url=extra_index_url)
        self._looks.forget(identifier)
        self._begin(self._await_installation(identifier))
        await self._read()
        self.install_log(identifier)  # followed from its first line on
        return identifier

    async def _await_installation(self, identifier: str) -> None:
        await self._installations.ended(identifier)
        await self._count(identifier)
        await self._read(with_offers=True)

    async def _read(self, *, with_offers: bool = False) -> None:
        """Read the folder; begin to ask new addresses, and look at what is READY and was not looked at as it is now."""
        async with self._reading:
            reading = await asyncio.to_thread(self._folder.read)
            await self._take_addresses(reading)
            self._looks.take(reading)
            before = (self._records, self._busy)
            self._records = {one.id: one for one in reading.environments}
            self._busy = reading.busy - self._installations.recipes
            for environment in self._records.values():
                if self._looks.is_wanted(environment):
                    self._begin(self._looks.look(environment))
                if environment.kind is EnvironmentKind.MANAGED and environment.id not in self._bytes:
                    self._begin(self._count(environment.id))
            has_changed = before != (self._records, self._busy)
        if has_changed or with_offers:
            self._on_change()
        if has_changed or with_offers or not self._offers:
            self._begin(self._offer())

    async def _offer(self) -> None:
        """Counts files of what is begun: a second or two for a large environment on a cold disk."""
        self._offers = await asyncio.to_thread(self._folder.offers, environ=self._environ)
        self._on_change()

    async def _take_addresses(self, reading: FolderReading) -> None:
        addresses = {one.id: one for one in reading.environments if one.kind is EnvironmentKind.ADDRESS}
        for identifier in self._pollers.keys() - addresses.keys():
            await self._pollers.pop(identifier).close()
        for identifier in addresses.keys() - self._pollers.keys():
            key = await asyncio.to_thread(_read_key, addresses[identifier].key_file)
            poller = AttachedPoller(identifier, addresses[identifier].address, key=key, on_change=self._on_change)
            self._pollers[identifier] = poller
            poller.start()

    async def _count(self, identifier: str) -> None:
        environment = self._records.get(identifier)
        if environment is not None:
            self._bytes[identifier] = await asyncio.to_thread(bytes_below, environment.folder)
            self._on_change()

    async def _watch(self) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(WATCH_S)
            rounds += 1
            try:
                await self._read()
                if rounds % COUNT_EVERY == 0:
                    for identifier in self._installations.at_work:
                        await self._count(identifier)
            except OSError as err:  # the disk may come back; what was read before stays
                log.warning("the engine environments cannot be read: %s", err)

    async def _follow_logs(self) -> None:
        """Read on in the logs somebody looks at; those of ended installations too, as make setup may write them."""
        while True:
            for tail in tuple(self._tails.values()):
                if await asyncio.to_thread(tail.poll):
                    self._on_change()
            await asyncio.sleep(LOG_POLL_S)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work on the engine environments failed", exc_info=error)


def _read_key(path: Path) -> SecretStr | None:
    """None as well for a file that cannot be read: the server then says that it wants a key, and the others go on."""
    try:
        return SecretStr(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as err:
        log.error("%s holds no key that can be read: %s", path, type(err).__name__)
        return None
