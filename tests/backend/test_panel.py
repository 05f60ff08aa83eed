"""The panel's own work beside its rooms: it sees what changed in the environments, and leaves nothing running."""

import asyncio
import os
import threading
from functools import partial
from pathlib import Path

import pytest

from backend.errors import LaunchError
from backend.launcher import Obstacle
from backend.panel import Panel
from backend.settings import Settings
from backend.state_folder import StateFolder
from tests.fakes.engine_environment import make_fake_environment
from tests.fakes.fake_specs import TEST_PORTS, eventually

ROOT = Path(__file__).parents[2]
NAME = "smollm2-135m-cpu"


@pytest.fixture
def panel(tmp_path: Path) -> Panel:
    """A panel with a ready environment for CPU presets, and the model; not yet open."""
    folder = StateFolder(tmp_path)
    folder.create()
    make_fake_environment(folder)
    return Panel(Settings(home=tmp_path, engine_port_start=TEST_PORTS), shipped_presets=ROOT / "presets")


def obstacle(panel: Panel) -> Obstacle | None:
    return next(offer.obstacle for offer in panel.launcher.offers() if offer.preset.name == NAME)


class SlowModel:
    """A model whose file is a pipe: whoever reads it waits until it is released."""

    def __init__(self, models: Path) -> None:
        self._pipe = models / "aaa" / "model.json"
        self.is_read = threading.Event()
        self.released = threading.Event()
        self._pipe.parent.mkdir()
        os.mkfifo(self._pipe)
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        with self._pipe.open("w") as file:
            self._pipe.unlink()
            self.is_read.set()
            self.released.wait(20)
            file.write("{}")


async def test_a_panel_that_closes_while_it_looks_at_the_presets_leaves_no_work_behind(panel: Panel) -> None:
    panel.take_folder()
    await panel.open()
    slow = SlowModel(panel.folder.models)
    await panel.environments.add_address("http://127.0.0.1:9")  # a change: the presets are looked at
    await eventually(slow.is_read.is_set, what="the look is under way")
    await panel.close()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    slow.released.set()
    assert left == []


async def test_an_environment_removed_during_a_look_at_the_presets_is_seen_to_be_gone(panel: Panel) -> None:
    panel.take_folder()
    await panel.open()
    try:
        assert obstacle(panel) is None
        slow = SlowModel(panel.folder.models)
        await panel.environments.add_address("http://127.0.0.1:9")
        await eventually(slow.is_read.is_set, what="the look is under way")
        await panel.remove_environment("fake")
        await quiet(panel)
        slow.released.set()
        await eventually(lambda: obstacle(panel) is Obstacle.ENVIRONMENT, what="it is seen", deadline_s=5.0)
    finally:
        await panel.close()


async def test_an_environment_is_not_removed_under_an_engine_that_is_being_started(panel: Panel) -> None:
    panel.take_folder()
    await panel.open()
    try:
        async with panel.launcher.starting:  # as a start holds it
            removing = asyncio.create_task(panel.remove_environment("fake"))
            await asyncio.wait({removing}, timeout=0.5)
            preset = panel.launcher.shelf.by_name(NAME)
            port = panel.fleet.claim_port(NAME)
            await panel.fleet.launch(await asyncio.to_thread(partial(panel.launcher.plan, preset, port=port)))
        with pytest.raises(LaunchError, match="runs in this environment"):
            await removing
        assert panel.environments.view("fake") is not None
    finally:
        await panel.fleet.stop_all()
        await panel.close()


async def quiet(panel: Panel) -> None:
    """Wait until the environments have had nothing new to tell for a second."""
    for _ in range(10):
        offers = panel.environments.recipes()
        await asyncio.sleep(1.0)
        if panel.environments.recipes() is offers:
            return
