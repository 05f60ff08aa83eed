"""The record: all of it survives, secrets stay private, and a broken one is reported by name."""

import dataclasses
import json
from pathlib import Path

import pytest

from backend.engine.exit_reason import ExitReason
from backend.engine.out_of_memory import OutOfMemoryKills
from backend.engine.record import (
    KEPT_RUNS,
    EngineHistory,
    EngineRecord,
    RunSummary,
    expected_ready_s,
    load_record,
    restored_status,
    save_record,
)
from backend.engine.run_folder import RunExit, UnreadableFile
from backend.engine.status import EngineState, Stage, StageProgress
from backend.errors import LaunchError
from backend.failure.failure import Failure, Fix, FixKind, LaunchContext
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.notes import Note
from backend.launch.plan import LaunchSpec

SPEC = LaunchSpec(
    title="Small",
    preset="small",
    argv=("/bin/engine", "--x"),
    env={"API_KEY": "s3cret"},
    cwd="/tmp",
    host="127.0.0.2",
    port=8101,
    served_model="small",
    max_model_len=2048,
    ready_timeout_s=77.0,
    expected_ready_s=20.0,
    reports_request_metrics=True,
    secrets=frozenset({"s3cret"}),
    environment="env1",
    kind=EngineKind.CPU,
    adjustments=Adjustments(context=896),
    context=LaunchContext(context=896, port=8101),
    gpus=("GPU-1",),
    model_bytes=269_000_000,
    cleanup=("/usr/bin/docker", "rm", "-f", "small"),
    notes=(Note("left_out", {"flag": "swap-space"}),),
)
RUN = RunSummary(
    number=3,
    started_at=100.0,
    ready_at=110.0,
    ready_s=10.0,
    ended_at=200.0,
    outcome=EngineState.FAILED,
    returncode=-9,
    failure=Failure(
        "killed",
        {"signal": "SIGKILL"},
        line="the line",
        phase=Stage.WEIGHTS,
        last_lines=("a", "b"),
        fixes=(Fix(FixKind.CONTEXT, "896"),),
    ),
    reached=StageProgress(Stage.WEIGHTS, 40),
    reason="It was killed.",
    hint="Look.",
)
RECORD = EngineRecord(SPEC, marker="id/3/abc", runs=(RUN,), stopping=True, kills_before=OutOfMemoryKills(1, 2))


def test_the_test_values_differ_from_the_defaults() -> None:
    for value in (SPEC, RUN):
        fields = {field.name: field.default for field in dataclasses.fields(value)}
        assert [name for name, default in fields.items() if getattr(value, name) == default] == []


def test_a_record_is_read_as_it_was_saved(tmp_path: Path) -> None:
    save_record(tmp_path / "record.json", RECORD)
    assert load_record(tmp_path / "record.json") == RECORD


def test_a_record_is_for_its_owner_only(tmp_path: Path) -> None:
    save_record(tmp_path / "record.json", RECORD)
    assert (tmp_path / "record.json").stat().st_mode & 0o777 == 0o600


def test_no_record_is_none(tmp_path: Path) -> None:
    assert load_record(tmp_path / "record.json") is None


def test_a_record_cut_anywhere_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    save_record(path, RECORD)
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(UnreadableFile, match=r"record\.json"):
            load_record(path)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"runs": []}, "runs"),
        ({"runs": [{"number": "x", "started_at": 1}]}, r"runs\.0\.number"),
        ({"spec": {"title": "a"}}, r"spec\.preset"),
        ({"marker": None}, "marker"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, change: dict[str, object], place: str) -> None:
    path = tmp_path / "record.json"
    save_record(path, RECORD)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UnreadableFile, match=place):
        load_record(path)


def test_a_spec_written_by_an_older_panel_gets_the_new_fields_defaults(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    save_record(path, RECORD)
    data = json.loads(path.read_text())
    del data["spec"]["max_model_len"]
    path.write_text(json.dumps(data))
    record = load_record(path)
    assert record is not None and record.spec.max_model_len is None


def runs_with(*ready_s: float | None) -> tuple[RunSummary, ...]:
    return tuple(RunSummary(number, 1.0, ready_s=value) for number, value in enumerate(ready_s, start=1))


def test_the_expected_time_is_the_median_of_earlier_runs_else_the_hint() -> None:
    record = dataclasses.replace(RECORD, runs=runs_with(10.0, None, 30.0, 11.0))
    assert expected_ready_s(record) == 11.0
    assert expected_ready_s(dataclasses.replace(RECORD, runs=runs_with(None))) == 20.0


def test_a_status_is_restored_from_each_kind_of_run() -> None:
    failed = restored_status(RECORD)
    assert (failed.state, failed.since, failed.returncode, failed.reason) == ("failed", 200.0, -9, "It was killed.")
    assert (failed.failure, failed.progress) == (RUN.failure, StageProgress(Stage.WEIGHTS, 40))
    starting = restored_status(RECORD.with_current(RunSummary(4, 300.0)))
    assert (starting.state, starting.since, starting.progress) == ("starting", 300.0, StageProgress(Stage.SPAWN))
    ready = restored_status(RECORD.with_current(RunSummary(4, 300.0, ready_at=320.0)))
    assert (ready.state, ready.since, ready.started_at, ready.run) == ("ready", 320.0, 300.0, 4)


def test_history_is_kept_over_a_new_panel(tmp_path: Path) -> None:
    history = EngineHistory(tmp_path / "e")
    history.begin(SPEC, marker="e/1/x", now=10.0)
    history.note_ready(12.0, ready_s=2.0)
    history.note_stopping()
    history.note_end(EngineState.STOPPED, ExitReason(""), RunExit(0, ended_at=20.0), now=21.0)
    later = EngineHistory(tmp_path / "e")
    record = later.load()
    assert record is not None and record.stopping
    assert later.runs == (RunSummary(1, 10.0, 12.0, 2.0, 20.0, EngineState.STOPPED, 0),)


def test_a_new_run_is_not_stopping(tmp_path: Path) -> None:
    history = EngineHistory(tmp_path / "e")
    history.begin(SPEC, marker="e/1/x", now=10.0)
    history.note_stopping()
    assert not history.begin(SPEC, marker="e/2/x", now=11.0).stopping


def test_only_the_newest_runs_and_their_folders_are_kept(tmp_path: Path) -> None:
    history = EngineHistory(tmp_path / "e")
    for number in range(1, KEPT_RUNS + 6):
        history.begin(SPEC, marker="m", now=float(number))
        history.run_folder(number).create()
    assert [run.number for run in history.runs] == list(range(6, KEPT_RUNS + 6))
    folders = sorted(int(path.name) for path in (tmp_path / "e" / "runs").iterdir())
    assert folders == list(range(6, KEPT_RUNS + 6))


def test_a_number_is_never_used_twice_even_without_the_record(tmp_path: Path) -> None:
    history = EngineHistory(tmp_path / "e")
    history.begin(SPEC, marker="m", now=1.0)
    history.run_folder(1).create()
    (tmp_path / "e" / "record.json").unlink()
    assert EngineHistory(tmp_path / "e").next_number() == 2


def test_a_record_that_cannot_be_written_refuses_the_start_but_never_loses_a_running_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LaunchError, match="cannot be written"):
        EngineHistory(tmp_path / "file").begin(SPEC, marker="m", now=1.0)
    history = EngineHistory(tmp_path / "e")
    history.begin(SPEC, marker="m", now=1.0)
    (tmp_path / "e" / "record.json").unlink()
    (tmp_path / "e").rmdir()
    history.note_ready(5.0, ready_s=4.0)
    assert history.runs[-1].ready_s == 4.0
    assert "cannot be written" in caplog.text
