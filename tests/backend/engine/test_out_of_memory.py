"""Counters of the out-of-memory killer, from files as the kernels of both control-group versions write them."""

from pathlib import Path

from backend.engine.out_of_memory import OutOfMemoryKills, read_out_of_memory_kills


def machine(root: Path, membership: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": membership, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_version_2_counts_in_the_own_group(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/user/app/memory.events": "low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n",
        "proc/vmstat": "nr_free_pages 5\noom_kill 7\n",
    }
    assert read_out_of_memory_kills(machine(tmp_path, "0::/user/app\n", files)) == OutOfMemoryKills(2, 7)


def test_version_1_counts_in_oom_control_also_where_a_container_sees_its_group_as_the_mount(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"}
    root = machine(tmp_path, "9:cpu:/x\n4:memory:/docker/abc\n0::/\n", files)
    assert read_out_of_memory_kills(root) == OutOfMemoryKills(4, None)


def test_a_kernel_that_counts_nothing_is_unknown_not_zero(tmp_path: Path) -> None:
    assert read_out_of_memory_kills(tmp_path) == OutOfMemoryKills(None, None)
    assert OutOfMemoryKills().since(OutOfMemoryKills()) is None


def test_the_rise_is_that_of_the_counter_that_saw_more() -> None:
    assert OutOfMemoryKills(3, 10).since(OutOfMemoryKills(2, 10)) == 1
    assert OutOfMemoryKills(3, 12).since(OutOfMemoryKills(3, 10)) == 2
    assert OutOfMemoryKills(3, 12).since(OutOfMemoryKills(None, 12)) == 0


def test_a_counter_that_began_anew_tells_nothing() -> None:
    assert OutOfMemoryKills(None, 1).since(OutOfMemoryKills(None, 5)) is None


def test_this_machine_can_be_read() -> None:
    read_out_of_memory_kills()
