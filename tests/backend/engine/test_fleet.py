"""Several engines at once, and the panel that owns them killed: nothing is orphaned, all is adopted."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backend.engine.care import Care
from backend.engine.fleet import Fleet
from backend.engine.log_segments import segment_starts
from backend.engine.process import find_marked, identify, is_alive, marker_of, send_signal
from backend.engine.run_folder import RunFolder, RunProcess
from backend.engine.shared_memory import list_shared
from backend.engine.status import EngineState
from backend.errors import LaunchError
from tests.fakes.fake_specs import DEADLINE_S, QUICK, ROUNDS, TEST_PORTS, eventually, fake_spec, keepers, living

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)

READY = {EngineState.READY}
FLEET_PANEL = Path(__file__).parents[2] / "fakes" / "fleet_panel.py"


async def launched(fleet: Fleet, preset: str, *faults: str) -> str:
    """Launch and wait until it is ready; returns the id."""
    engine_id = await fleet.launch(fake_spec(fleet.claim_port(preset), *faults, preset=preset))
    await fleet.engines[engine_id].wait_until(READY, timeout_s=DEADLINE_S)
    return engine_id


class TestFleet:
    async def test_a_fleet_in_a_new_folder_is_empty(self, fleet: Fleet) -> None:
        assert dict(fleet.engines) == {}
        assert fleet.ready_engines() == ()
        assert fleet.of_preset("a") is None

    @every_round
    async def test_several_engines_run_side_by_side_and_stop_alone_or_together(
        self, fleet: Fleet, round_number: int
    ) -> None:
        one = await fleet.launch(fake_spec(fleet.claim_port("one"), "--workers", "2", preset="one"))
        two = await fleet.launch(fake_spec(fleet.claim_port("two"), "--workers", "2", preset="two"))
        three = await fleet.launch(fake_spec(fleet.claim_port("three"), "--slow-start", "60", preset="three"))
        for engine_id in (one, two):
            await fleet.engines[engine_id].wait_until(READY, timeout_s=DEADLINE_S)
        assert {engine.engine_id for engine in fleet.ready_engines()} == {one, two}
        assert len({engine.spec.port for engine in fleet.engines.values() if engine.spec}) == 3
        await fleet.stop(one)
        assert (living(one), len(living(two)), fleet.engines[two].status.state) == (set(), 3, EngineState.READY)
        await fleet.stop_all()
        assert living(two) == living(three) == set()
        assert {engine.status.state for engine in fleet.engines.values()} == {EngineState.STOPPED}

    async def test_a_preset_keeps_its_engine_its_port_and_its_runs(self, fleet: Fleet) -> None:
        first = await launched(fleet, "one")
        port = fleet.engines[first].spec.port  # type: ignore[union-attr]
        await fleet.stop(first)
        second = await launched(fleet, "one")
        assert first == second
        assert fleet.engines[second].spec.port == port  # type: ignore[union-attr]
        assert [run.number for run in fleet.engines[second].runs] == [1, 2]
        assert fleet.of_preset("one") is fleet.engines[first]

    async def test_a_second_engine_of_a_running_preset_is_refused(self, fleet: Fleet) -> None:
        await launched(fleet, "one")
        with pytest.raises(LaunchError, match="One is already ready"):
            await fleet.launch(fake_spec(fleet.claim_port("one"), preset="one"))
        assert len(fleet.engines) == 1

    async def test_of_two_launches_of_a_preset_at_the_same_time_one_is_refused(self, fleet: Fleet) -> None:
        port = fleet.claim_port("one")
        results = await asyncio.gather(
            *(fleet.launch(fake_spec(port, preset="one")) for _ in range(3)), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in results) == ["LaunchError", "LaunchError", "str"]
        assert len(fleet.engines) == 1

    async def test_two_engines_of_one_port_are_refused(self, fleet: Fleet) -> None:
        port = fleet.claim_port("one")
        await fleet.launch(fake_spec(port, preset="one"))
        with pytest.raises(LaunchError, match=f"Port {port}"):
            await fleet.launch(fake_spec(port, preset="two"))
        assert fleet.of_preset("two") is None

    async def test_a_launch_that_never_began_leaves_no_engine(self, fleet: Fleet, tmp_path: Path) -> None:
        spec = fake_spec(fleet.claim_port("one"), preset="one")
        with pytest.raises(LaunchError):
            await fleet.launch(type(spec)(title="One", preset="one", argv=("/no/such/python",)))
        assert dict(fleet.engines) == {}

    async def test_an_unknown_engine_is_named(self, fleet: Fleet) -> None:
        for refused in (fleet.stop("nobody"), fleet.forget("nobody")):
            with pytest.raises(LaunchError, match="nobody"):
                await refused

    async def test_a_forgotten_engine_is_gone_from_disk_and_a_running_one_cannot_be(
        self, fleet: Fleet, tmp_path: Path
    ) -> None:
        engine_id = await launched(fleet, "one")
        with pytest.raises(LaunchError, match="cannot be deleted"):
            await fleet.forget(engine_id)
        await fleet.stop(engine_id)
        await fleet.forget(engine_id)
        assert dict(fleet.engines) == {}
        assert [path for path in (tmp_path / "engines").iterdir() if path.is_dir()] == []

    async def test_changes_of_every_engine_are_told(self, tmp_path: Path) -> None:
        told: set[tuple[str, EngineState]] = set()
        fleet = Fleet(
            tmp_path / "engines",
            first_port=TEST_PORTS,
            timing=QUICK,
            on_change=lambda engine: told.add((engine.engine_id, engine.status.state)),
        )
        one, two = await launched(fleet, "one"), await launched(fleet, "two")
        await fleet.stop_all()
        await fleet.close()
        assert {(one, EngineState.READY), (two, EngineState.READY), (two, EngineState.STOPPED)} <= told


class TestPorts:
    async def test_a_port_in_use_is_passed_over(self, fleet: Fleet) -> None:
        first = fleet.claim_port("one")
        assert first >= TEST_PORTS
        with socket.create_server(("127.0.0.1", first)):
            assert fleet.claim_port("one") > first

    async def test_presets_get_different_ports_and_each_the_same_again(self, fleet: Fleet) -> None:
        one, two = fleet.claim_port("one"), fleet.claim_port("two")
        assert one != two
        assert [fleet.claim_port("one"), fleet.claim_port("two")] == [one, two]

    async def test_a_port_of_a_starting_engine_is_taken_before_it_listens(self, fleet: Fleet) -> None:
        port = fleet.claim_port()
        await fleet.launch(fake_spec(port, "--slow-start", "60", preset=""))
        assert fleet.claim_port() != port


class PanelProcess:
    """A panel-like process that runs a fleet, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self, *launches: tuple[str, ...]) -> list[str]:
        """Start it; returns its lines up to "up"."""
        words = [word for launch in launches for word in (*launch, "--")]
        self.process = subprocess.Popen(
            (sys.executable, str(FLEET_PANEL), str(self.folder), *words), stdout=subprocess.PIPE, text=True
        )
        return self.read_until("up")

    def read_until(self, last: str) -> list[str]:
        """Its lines up to one that is or ends with the words `last`; an engine's id may contain them."""
        assert self.process is not None and self.process.stdout is not None
        lines: list[str] = []
        while not lines or not f" {lines[-1]}".endswith(f" {last}"):
            line = self.process.stdout.readline()
            assert line, f"the panel ended after {lines}"
            lines.append(line.strip())
        return lines

    def end(self, number: signal.Signals) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.send_signal(number)
        self.process.wait(timeout=DEADLINE_S)
        self.process.stdout.close()

    def engine_id(self) -> str:
        (engine_id,) = self.engine_ids()
        return engine_id

    def engine_ids(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if path.is_dir()]

    def run(self) -> RunProcess:
        process = RunFolder(self.folder / self.engine_id() / "runs" / "1").read_process()
        assert process is not None
        return process


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[PanelProcess]:
    panel = PanelProcess(tmp_path / "engines")
    yield panel
    if panel.process is not None and panel.process.poll() is None:
        panel.end(signal.SIGKILL)
    ids = panel.engine_ids()
    for engine_id in ids:
        for identity in find_marked(f"{engine_id}/"):
            send_signal(identity, signal.SIGKILL)


@asynccontextmanager
async def returned(folder: Path) -> AsyncIterator[Fleet]:
    """The next panel's fleet, engines adopted; everything is stopped at the end and nothing may be left."""
    fleet = Fleet(folder, first_port=TEST_PORTS, timing=QUICK)
    try:
        await fleet.adopt_all()
        yield fleet
    finally:
        await fleet.stop_all()
        await fleet.close()
        assert [living(engine_id) for engine_id in fleet.engines] == [set() for _ in fleet.engines]
        assert keepers(folder) == set()


class TestKilledPanel:
    @every_round
    async def test_engines_outlive_a_killed_panel_and_are_adopted(self, panel: PanelProcess, round_number: int) -> None:
        panel.start(("one", "workers=2"))
        panel.read_until("ready False")
        engine_id, before = panel.engine_id(), living(panel.engine_id())
        panel.end(signal.SIGKILL)
        assert living(engine_id) == before and len(before) == 3
        async with returned(panel.folder) as fleet:
            status = fleet.engines[engine_id].status
            assert (status.state, status.adopted, status.run) == (EngineState.READY, True, 1)
            assert living(engine_id) == before

    @every_round
    async def test_two_ready_engines_and_one_that_starts_are_all_back_and_none_is_started_again(
        self, panel: PanelProcess, round_number: int
    ) -> None:
        said = panel.start(("one", "care", "workers=2"), ("two", "care", "workers=1"))
        for _ in range(2 - sum(line.endswith(" ready False") for line in said)):
            panel.read_until("ready False")
        panel.end(signal.SIGKILL)
        panel.start(("three", "care", "slow-start=8", "workers=1"))  # adopts two, starts one
        await eventually(lambda: sorted(len(living(name)) for name in panel.engine_ids()) == [2, 2, 3], what="workers")
        members = {engine_id: living(engine_id) for engine_id in panel.engine_ids()}
        panel.end(signal.SIGKILL)
        assert {engine_id: living(engine_id) for engine_id in panel.engine_ids()} == members
        async with returned(panel.folder) as fleet:
            of = {preset: fleet.of_preset(preset) for preset in ("one", "two", "three")}
            states = {preset: engine.status.state for preset, engine in of.items() if engine}
            assert states == {"one": EngineState.READY, "two": EngineState.READY, "three": EngineState.STARTING}
            assert all(engine.status.adopted for engine in fleet.engines.values())
            assert {engine_id: living(engine_id) for engine_id in fleet.engines} == members, "the same processes"
            three = of["three"]
            assert three is not None
            await three.wait_until(READY, timeout_s=DEADLINE_S)
            assert [len(engine.runs) for engine in fleet.engines.values()] == [1, 1, 1]
            assert [engine.status.restarts for engine in fleet.engines.values()] == [0, 0, 0]
            assert all(fleet.care(engine_id) == Care(True, True) for engine_id in fleet.engines)

    @every_round
    async def test_a_start_is_adopted_from_a_killed_panel_and_goes_on(
        self, panel: PanelProcess, round_number: int
    ) -> None:
        panel.start(("one", "slow-start=2"))
        panel.end(signal.SIGKILL)
        async with returned(panel.folder) as fleet:
            engine = fleet.engines[panel.engine_id()]
            assert engine.status.state is EngineState.STARTING
            await engine.wait_until(READY, timeout_s=DEADLINE_S)

    @every_round
    async def test_an_engine_that_dies_after_its_panel_leaves_nothing_and_its_code_is_known(
        self, panel: PanelProcess, round_number: int
    ) -> None:
        shared = list_shared()
        panel.start(("one", "workers=3", "ignore-sigterm", "shm"))
        panel.read_until("ready False")
        panel.end(signal.SIGKILL)
        run = panel.run()
        os.kill(run.leader.pid, signal.SIGKILL)
        await eventually(lambda: not is_alive(run.keeper), what="the keeper cleans up without a panel")
        assert living(panel.engine_id()) == set()
        assert not {file for file in list_shared() - shared if is_leftover_of(run, file.name)}
        async with returned(panel.folder) as fleet:
            status = fleet.engines[panel.engine_id()].status
            assert (status.state, status.returncode) == (EngineState.FAILED, -9)

    @every_round
    async def test_a_worker_that_dies_after_its_panel_ends_the_engine(
        self, panel: PanelProcess, round_number: int
    ) -> None:
        panel.start(("one", "workers=3"))
        panel.read_until("ready False")
        panel.end(signal.SIGKILL)
        run = panel.run()
        worker = max(living(panel.engine_id()) - {run.leader.pid})
        os.kill(worker, signal.SIGKILL)
        await eventually(lambda: not is_alive(run.keeper), what="the engine ends")
        async with returned(panel.folder) as fleet:
            status = fleet.engines[panel.engine_id()].status
            assert (status.state, status.returncode) == (EngineState.FAILED, 1)
            assert living(panel.engine_id()) == set()

    @every_round
    async def test_panel_and_keeper_killed_together_leave_workers_only_until_the_next_panel(
        self, panel: PanelProcess, round_number: int
    ) -> None:
        panel.start(("one", "workers=3", "ignore-sigterm"))
        panel.read_until("ready False")
        run = panel.run()
        os.kill(run.keeper.pid, signal.SIGKILL)
        panel.end(signal.SIGKILL)
        await eventually(lambda: not is_alive(run.leader), what="the leader dies with its keeper")
        async with returned(panel.folder) as fleet:
            assert living(panel.engine_id()) == set()
            assert fleet.engines[panel.engine_id()].status.state is EngineState.FAILED

    async def test_a_panel_that_ends_in_order_leaves_its_engines_running(self, panel: PanelProcess) -> None:
        panel.start(("one",))
        panel.read_until("ready False")
        panel.end(signal.SIGTERM)
        async with returned(panel.folder) as fleet:
            assert fleet.engines[panel.engine_id()].status.state is EngineState.READY

    async def test_the_log_goes_on_while_there_is_no_panel(self, panel: PanelProcess) -> None:
        panel.start(("one", "flood-mb-per-s=5"))
        panel.read_until("ready False")
        panel.end(signal.SIGKILL)
        log = panel.folder / panel.engine_id() / "runs" / "1" / "log"
        end = max(segment_starts(log))
        await eventually(lambda: max(segment_starts(log)) > end, what="more log without a panel")
        assert identify(panel.run().keeper.pid) == panel.run().keeper

    @every_round
    async def test_a_panel_killed_at_any_moment_of_a_launch_leaves_nothing_unknown(
        self, panel: PanelProcess, round_number: int
    ) -> None:
        panel.process = subprocess.Popen(
            (sys.executable, str(FLEET_PANEL), str(panel.folder), "one", "workers=2", "--"),
            stdout=subprocess.PIPE,
            text=True,
        )
        await eventually(panel.folder.exists, what="the record")
        for _ in range(round_number * 3):
            await asyncio.sleep(0.01)
        panel.end(signal.SIGKILL)
        async with returned(panel.folder) as fleet:
            states = {engine.status.state for engine in fleet.engines.values()}
            assert states <= {EngineState.STARTING, EngineState.READY, EngineState.FAILED}
        ids = panel.engine_ids()
        assert [living(engine_id) for engine_id in ids] == [set() for _ in ids]

    async def test_one_corrupt_record_does_not_hide_the_other_engines(self, tmp_path: Path) -> None:
        folder = tmp_path / "engines"
        fleet = Fleet(folder, first_port=TEST_PORTS, timing=QUICK)
        one, two = await launched(fleet, "one"), await launched(fleet, "two")
        await fleet.close()
        (folder / one / "record.json").write_text("{")
        (folder / "empty").mkdir()
        async with returned(folder) as later:
            assert {key: engine.status.state for key, engine in later.engines.items()} == {
                one: EngineState.FAILED,
                two: EngineState.READY,
            }


def is_leftover_of(run: RunProcess, name: str) -> bool:
    """Whether a new shared-memory file has no holder: the run's own, since a stranger would hold his."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    assert all(marker_of(pid) != run.marker for pid in pids)
    return not any(name in _maps(pid) for pid in pids)


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""
