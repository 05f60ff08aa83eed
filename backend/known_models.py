"""What is known of models: facts of local folders, read once, and of those still on a hub, asked for by byte range."""

import asyncio
import logging
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import httpx

from backend.errors import PanelError
from backend.fit.facts_error import ModelFactsError
from backend.fit.model_facts import ModelFacts, read_model_facts
from backend.fit.remote_facts import RemoteLimits, hugging_face_model, read_remote_facts
from backend.launch.models import LocalModel, find_model, model_folders
from backend.launch.preset import HubSource, ModelSource

log = logging.getLogger(__name__)

KEPT = 32
ASK_AGAIN_S = 60.0  # after a hub did not answer
LIMITS = RemoteLimits(deadline_s=30.0, tries=2)


class Gap(StrEnum):
    """Why nothing is known of a model."""

    ABSENT = "absent"  # not on this machine, and no hub is named
    ASKING = "asking"  # its hub is being asked
    VAIN = "vain"  # its hub was asked in vain


class ModelUnknown(ModelFactsError):
    """Nothing is known of a model yet; `gap` tells why, for the page to say in its language."""

    def __init__(self, gap: Gap, message: str) -> None:
        super().__init__(message)
        self.gap = gap


class KnownModels:
    """Keeps the facts of the last models looked at. Facts of a folder are read anew when its config changes."""

    def __init__(self, models: Path, *, hub: str, on_change: Callable[[], None]) -> None:
        self._models = models
        self._hub = hub
        self._on_change = on_change
        self._local: dict[tuple[str, float], ModelFacts] = {}
        self._remote: dict[HubSource, ModelFacts] = {}
        self._gaps: dict[HubSource, tuple[float, str]] = {}  # when a hub was asked in vain, and what it said
        self._asking: dict[HubSource, asyncio.Task[None]] = {}

    def names(self) -> tuple[str, ...]:
        """The models on this machine. Reads folders; call it off the loop."""
        return tuple(name for name, _ in model_folders(self._models))

    def find(self, name: str) -> LocalModel | None:
        """The model's folder; None where it is not on this machine. Reads folders; call it off the loop."""
        try:
            return find_model(self._models, name)
        except PanelError:
            return None

    def facts(self, source: ModelSource) -> ModelFacts:
        """What is known now, of its folder or from its hub. Reads files; call it off the loop.

        Raises:
            PanelError: nothing is known yet; the message says why.
        """
        local = self.find(source.name)
        if local is not None:
            return self._of_folder(local)
        repository = source.huggingface
        if repository is None:
            raise ModelUnknown(Gap.ABSENT, f"The model {source.name} is not on this machine.")
        known = self._remote.get(repository)
        if known is not None:
            return known
        _, words = self._gaps.get(repository, (0.0, ""))
        if words and repository not in self._asking:
            raise ModelUnknown(
                Gap.VAIN, f"The model {source.name} is not on this machine, and its hub was asked in vain: {words}"
            )
        raise ModelUnknown(Gap.ASKING, f"The model {source.name} is not on this machine; its hub is being asked.")

    def ask(self, source: ModelSource) -> None:
        """Begin to ask the hub for a model that is not here. Needs the event loop; on_change tells when it answered."""
        repository = source.huggingface
        if repository is None or repository in self._remote or repository in self._asking:
            return
        asked_at, _ = self._gaps.get(repository, (float("-inf"), ""))
        if time.monotonic() - asked_at < ASK_AGAIN_S or len(self._asking) >= KEPT:
            return
        self._asking[repository] = asyncio.create_task(self._ask(repository), name=f"facts of {repository.repo}")

    async def close(self) -> None:
        """Drop what is being asked."""
        tasks = tuple(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, repository: HubSource) -> None:
        model = hugging_face_model(self._hub, repository.repo, revision=repository.revision)
        try:
            async with httpx.AsyncClient(follow_redirects=False) as client:
                facts = await read_remote_facts(client, model, limits=LIMITS)
        except PanelError as err:
            log.info("facts of %s: %s", repository.repo, err)
            self._gaps[repository] = (time.monotonic(), str(err))
        else:
            while len(self._remote) >= KEPT:
                del self._remote[next(iter(self._remote))]
            self._remote[repository] = facts
        finally:
            del self._asking[repository]
        self._on_change()

    def _of_folder(self, model: LocalModel) -> ModelFacts:
        config = model.folder / "config.json"
        key = (str(model.folder), config.stat().st_mtime if config.exists() else 0.0)
        if key not in self._local:
            while len(self._local) >= KEPT:
                del self._local[next(iter(self._local))]
            self._local[key] = read_model_facts(model.folder)
        return self._local[key]
