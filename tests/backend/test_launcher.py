"""Starting from the shelf when several people do it at once: real environments, engines and folders."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from backend.engine.care import Care
from backend.engine.fleet import Fleet
from backend.engine.status import EngineState
from backend.environment.environment import environments_in
from backend.environment.environments import Environments
from backend.environment.probe import keep_probe, last_probe
from backend.errors import LaunchError, SetupError
from backend.gpu.snapshot import GpuView
from backend.launch.adjustments import Adjustments
from backend.launch.plan import engine_key
from backend.launch.shelf import PresetStore
from backend.launcher import Launcher
from backend.state_folder import StateFolder
from backend.viewer import Role, Viewer
from tests.backend.launch.test_card_choice import card
from tests.fakes.engine_environment import make_fake_environment
from tests.fakes.engine_runs import READY
from tests.fakes.fake_specs import DEADLINE_S, QUICK, TEST_PORTS, eventually, living

ROOT = Path(__file__).parents[2]
OPERATOR = Viewer("ana", Role.OPERATOR, "0" * 32)
PRESET = """\
name: {name}
title: {{en: One card, zh: 一卡}}
summary: {{en: For a test., zh: 测试用。}}
model: {{name: SmolLM2-135M-Instruct}}
served_name: {name}
engine: volta
gpus: 1
dtype: float16
context: 512
"""


@asynccontextmanager
async def launcher_of(home: Path) -> AsyncIterator[tuple[Launcher, Fleet, PresetStore]]:
    """A launcher on two cards, whose only environment has code for them. Its engines are stopped."""
    folder = StateFolder(home)
    folder.create()
    make_fake_environment(folder)
    (environment,) = environments_in(folder.environments)
    probe = last_probe(environment)
    assert probe is not None
    keep_probe(environment, replace(probe, cuda="12.8", torch_archs=("sm_70",), is_cpu_build=False))
    store = PresetStore(ROOT / "presets", folder.presets)
    for name in ("one", "two"):
        store.save(PRESET.format(name=name))
    fleet = Fleet(folder.engines, first_port=TEST_PORTS, timing=QUICK)
    environments = Environments(folder.environments, repository=ROOT, on_change=lambda: None)
    launcher = Launcher(
        store,
        models=folder.models,
        environments=environments,
        fleet=fleet,
        cards=lambda: GpuView(cards=(card(0), card(1))),
        engine_api_key=None,
        on_change=lambda: None,
    )
    await environments.open()
    try:
        yield launcher, fleet, store
    finally:
        await fleet.stop_all()
        await fleet.close()
        await environments.close()


async def test_two_presets_started_at_the_same_moment_get_different_cards(tmp_path: Path) -> None:
    async with launcher_of(tmp_path) as (launcher, fleet, _):
        ids = await asyncio.gather(launcher.start(OPERATOR, "one"), launcher.start(OPERATOR, "two"))
        specs = [fleet.engines[engine_id].spec for engine_id in ids]
        assert sorted(uuid for spec in specs if spec for uuid in spec.gpus) == ["GPU-0", "GPU-1"]


async def test_the_card_of_an_engine_that_will_be_started_again_is_not_given_away(tmp_path: Path) -> None:
    async with launcher_of(tmp_path) as (launcher, fleet, _):
        engine_id = await launcher.start(OPERATOR, "one")
        crashed = fleet.engines[engine_id]
        await crashed.wait_until(READY, timeout_s=DEADLINE_S)
        fleet.set_care(crashed.engine_id, Care(restart_on_crash=True))
        os.kill(min(living(crashed.engine_id)), signal.SIGKILL)
        await eventually(lambda: crashed.status.restart_at is not None, what="a restart is planned")
        other_id = await launcher.start(OPERATOR, "two")
        other = fleet.engines[other_id]
        assert crashed.status.restart_at is not None, "too slow to tell"
        assert crashed.spec is not None and other.spec is not None
        assert set(crashed.spec.gpus).isdisjoint(other.spec.gpus)
        preset = launcher.shelf.by_name("one")
        assert [card.uuid for card in launcher.cards_for(preset, Adjustments())] == list(crashed.spec.gpus)


async def test_a_stop_during_a_restart_is_the_last_word(tmp_path: Path) -> None:
    async with launcher_of(tmp_path) as (launcher, fleet, _):
        engine_id = await launcher.start(OPERATOR, "one")
        engine = fleet.engines[engine_id]
        await engine.wait_until(READY, timeout_s=DEADLINE_S)
        restarting = asyncio.create_task(launcher.restart(OPERATOR, engine_id))
        await engine.wait_until({EngineState.STOPPING}, timeout_s=DEADLINE_S)
        await fleet.stop(engine_id)
        with pytest.raises(LaunchError, match="by somebody else"):
            await restarting
        assert [(one.status.state, one.status.run) for one in fleet.engines.values()] == [(EngineState.STOPPED, 1)]


async def test_of_two_restarts_at_once_one_starts_it(tmp_path: Path) -> None:
    async with launcher_of(tmp_path) as (launcher, fleet, _):
        engine_id = await launcher.start(OPERATOR, "one")
        engine = fleet.engines[engine_id]
        await engine.wait_until(READY, timeout_s=DEADLINE_S)
        both = await asyncio.gather(*(launcher.restart(OPERATOR, engine_id) for _ in range(2)), return_exceptions=True)
        assert sorted(type(one).__name__ for one in both) == ["LaunchError", "NoneType"]
        assert (engine.status.run, list(fleet.engines)) == (2, [engine_id])


async def test_a_look_begun_before_a_preset_was_saved_does_not_take_it_off_the_shelf(tmp_path: Path) -> None:
    async with launcher_of(tmp_path) as (launcher, _, __):
        pipe = tmp_path / "models" / "slow" / "model.json"  # reading it waits until somebody writes
        pipe.parent.mkdir()
        os.mkfifo(pipe)
        first = asyncio.create_task(launcher.refresh())
        writing = threading.Event()

        def let_go() -> None:
            with pipe.open("w") as file:  # the first look is reading now
                writing.set()
                pipe.unlink()
                released.wait(10)
                file.write("{}")

        released = threading.Event()
        threading.Thread(target=let_go, daemon=True).start()
        await eventually(writing.is_set, what="the first look is under way")
        saving = asyncio.create_task(launcher.save(OPERATOR, PRESET.format(name="three")))
        await asyncio.wait({saving}, timeout=1.0)
        released.set()
        await asyncio.gather(first, saving)
        assert launcher.shelf.by_name("three").name == "three"


KEY = "sk-of-one-launch-3141592653"


async def test_a_key_of_one_launch_holds_over_a_restart_and_a_new_panel_and_lies_in_private_files_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with launcher_of(tmp_path) as (launcher, fleet, _):
        engine_id = await launcher.start(OPERATOR, "one", api_key=SecretStr(KEY))
        await fleet.engines[engine_id].wait_until(READY, timeout_s=DEADLINE_S)
        await launcher.restart(OPERATOR, engine_id)
        later = Fleet(StateFolder(tmp_path).engines, timing=QUICK)
        await later.adopt_all()
        for one in (fleet, later):
            spec = one.engines[engine_id].spec
            assert spec is not None
            key = engine_key(spec)
            assert key is not None and key.get_secret_value() == KEY
            assert KEY not in " ".join(spec.argv) + spec.shell_line() + repr(spec.adjustments)
        await later.close()
        holders = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
        assert holders
        assert [path for path in holders if path.stat().st_mode & 0o077] == []
        assert KEY not in caplog.text


async def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(tmp_path: Path) -> None:
    async with launcher_of(tmp_path) as (launcher, fleet, _):
        with pytest.raises(SetupError, match="An API key has") as caught:
            await launcher.start(OPERATOR, "one", api_key=SecretStr("schl\u00fcssel"))
        assert "ssel" not in str(caught.value)
        assert fleet.engines == {}
