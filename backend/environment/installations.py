"""The installations of one panel: each a child process that ends with it, one working at a time, the others in a queue."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from backend.environment.environment import EngineEnvironment, EnvironmentState
from backend.environment.environments_folder import EnvironmentsFolder
from backend.environment.install_child import InstallChild, installer_environ
from backend.environment.views import InstallProgress, InstallState
from backend.errors import SetupError
from backend.setup.recipe import Recipe


class Installations:
    """Owns the installer processes, and what is left to say of those that stopped."""

    def __init__(
        self, folder: EnvironmentsFolder, *, environ: Mapping[str, str], on_change: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._on_change = on_change
        self._children: dict[str, InstallChild] = {}  # by environment
        self._stopped: dict[str, InstallProgress] = {}
        self._indexes: dict[str, tuple[str, str]] = {}  # in memory alone: an index's address may hold a password

    @property
    def at_work(self) -> tuple[str, ...]:
        """Ids of the environments that are being installed, or wait for it."""
        return tuple(self._children)

    @property
    def recipes(self) -> frozenset[str]:
        """The recipes of these."""
        return frozenset(child.progress.recipe for child in self._children.values())

    def progress(self, environment: EngineEnvironment, *, is_busy: bool) -> InstallProgress | None:
        """How its installation stands; None where there is nothing to say. `is_busy`: another process installs it."""
        child = self._children.get(environment.id)
        if child is not None:
            return child.progress
        told = InstallProgress(
            InstallState.INTERRUPTED, environment.recipe, title=environment.step, reason=environment.reason
        )
        if environment.state is EnvironmentState.FAILED:
            return self._stopped.get(environment.id) or replace(told, state=InstallState.FAILED)
        if environment.state is not EnvironmentState.INSTALLING:
            return None
        if is_busy:  # by make setup, say
            return replace(told, state=InstallState.RUNNING)
        return self._stopped.get(environment.id) or told

    async def begin(self, recipe: Recipe, *, index_url: str, extra_index_url: str) -> str:
        """Start an installer; returns the id of the environment it works on.

        Raises:
            SetupError: this recipe is installed or being installed, or the installer cannot be started.
        """
        if recipe.name in self.recipes:
            raise SetupError(f"The {recipe.title} is being installed already.")
        environment = await asyncio.to_thread(self._folder.begin_install, recipe)
        child = InstallChild(
            recipe.name,
            environment.id,
            environments=self._folder.folder,
            repository=self._folder.repository,
            environ=installer_environ(self._environ, index_url=index_url, extra_index_url=extra_index_url),
            on_change=self._on_change,
        )
        try:
            child.start()
        except OSError as err:
            raise SetupError(f"The installer cannot be started: {err}.") from err
        self._stopped.pop(environment.id, None)
        self._indexes[environment.id] = (index_url, extra_index_url)
        self._children[environment.id] = child
        return environment.id

    def indexes(self, identifier: str) -> tuple[str, str]:
        """The package indexes a person named for its last installation by this panel; "" where none was named."""
        return self._indexes.get(identifier, ("", ""))

    async def ended(self, identifier: str) -> None:
        """Returns when the installer of this environment is gone, and what it leaves to say is kept."""
        child = self._children[identifier]
        await child.ended()
        failure = child.failure
        if not child.is_done:
            self._stopped[identifier] = replace(
                child.progress,
                state=InstallState.INTERRUPTED if failure is None else InstallState.FAILED,
                doing="",
                fetched_bytes=None,
                reason=failure.message.splitlines()[0] if failure else "It was cancelled.",
                hint=failure.hint.strip() if failure else "",
            )
        self._children.pop(identifier)

    async def cancel(self, identifier: str) -> None:
        """End an installer with its pip; returns when nothing of it runs.

        Raises:
            SetupError: none of this panel works there.
        """
        child = self._children.get(identifier)
        if child is None:
            raise SetupError("No installation of this panel runs there.")
        await child.cancel()

    async def close(self) -> None:
        """End them all; the next panel can resume them."""
        await asyncio.gather(*(child.cancel() for child in self._children.values()))

    def forget(self, identifier: str) -> None:
        """After a removal."""
        self._stopped.pop(identifier, None)
        self._indexes.pop(identifier, None)
