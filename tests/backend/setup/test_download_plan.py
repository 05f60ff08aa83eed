"""The plan: what is said before a download, and the refusal when it does not fit."""

import shutil
from pathlib import Path

import pytest

from backend.errors import SetupError
from backend.setup.console import duration, size
from backend.setup.disk import bytes_below
from backend.setup.download_plan import DownloadPlan, PlanRow, cache_row, pip_cache_folder
from backend.setup.recipe import CPU_RECIPE, Footprint, TorchBuild


def row(folder: Path, *, disk_bytes: int, download_bytes: int = 0) -> PlanRow:
    return PlanRow("the engine", Footprint(download_bytes, disk_bytes), folder)


def test_table_shows_download_disk_place_and_free_space(tmp_path: Path) -> None:
    engine = row(tmp_path / "engine", download_bytes=710_000_000, disk_bytes=2_600_000_000)
    model = PlanRow("the model", Footprint(0, 275_000_000), tmp_path / "models")
    table = "\n".join(DownloadPlan((engine, model)).table())
    assert "about 710 MB   about 2.6 GB   " + str(tmp_path / "engine") in table
    assert "-   about 275 MB" in table
    assert "together" in table and "about 2.9 GB" in table
    assert f"free: {size(shutil.disk_usage(tmp_path).free)}" in table


def test_part_that_is_there_makes_the_rest_an_upper_bound(tmp_path: Path) -> None:
    rest = PlanRow("the engine", Footprint(710_000_000, 100_000_000), tmp_path, is_begun=True)
    table = DownloadPlan((rest,)).table()
    assert "at most 710 MB   at most 100 MB" in table[1]
    assert "at most 710 MB" in table[2]


def test_plan_that_fits_is_not_refused(tmp_path: Path) -> None:
    DownloadPlan((row(tmp_path, disk_bytes=1),)).check_space()


def test_plan_that_does_not_fit_is_refused_with_the_shortfall(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    plan = DownloadPlan((row(tmp_path / "a", disk_bytes=free), row(tmp_path / "b", disk_bytes=5_000_000_000)))
    with pytest.raises(SetupError, match=r"\d GB are missing") as caught:
        plan.check_space()
    assert "--home" in caught.value.hint


def test_needs_on_one_disk_add_up(tmp_path: Path) -> None:
    (disk,) = DownloadPlan((row(tmp_path / "a", disk_bytes=3), row(tmp_path / "not/yet/there", disk_bytes=4))).disks()
    assert disk.need_bytes == 7


def test_downloads_need_their_place_beside_what_is_unpacked_from_them(tmp_path: Path) -> None:
    (disk,) = DownloadPlan((row(tmp_path, disk_bytes=10, download_bytes=7),)).disks()
    assert disk.need_bytes == 17


def test_pip_cache_counts_as_much_as_is_downloaded(tmp_path: Path) -> None:
    rows = (row(tmp_path, disk_bytes=10, download_bytes=7),)
    (cache,) = cache_row(rows, {"PIP_CACHE_DIR": str(tmp_path)})
    assert (cache.footprint.disk_bytes, cache.folder) == (7, tmp_path)
    assert cache_row(rows, {"PIP_NO_CACHE_DIR": "1"}) == ()
    assert cache_row((), {}) == ()


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/pip"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/scratch"}, "/scratch/pip"),
        ({"HOME": "/home/a", "PIP_CACHE_DIR": "/pip"}, "/pip"),
    ],
)
def test_pip_cache_is_looked_for_where_pip_keeps_it(environ: dict[str, str], folder: str) -> None:
    assert pip_cache_folder(environ) == Path(folder)


def test_unknown_build_of_torch_is_planned_as_the_larger_one() -> None:
    assert CPU_RECIPE.footprint(TorchBuild.UNKNOWN) == CPU_RECIPE.footprint(TorchBuild.CUDA)
    assert CPU_RECIPE.footprint(TorchBuild.CPU).disk_bytes < CPU_RECIPE.footprint(TorchBuild.CUDA).disk_bytes


def test_bytes_below_counts_files_and_survives_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_bytes(b"x" * 10_000)
    assert 10_000 <= bytes_below(tmp_path) < 50_000
    assert bytes_below(tmp_path / "nowhere") == 0


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 MB"), (1, "1 MB"), (275e6, "275 MB"), (949e6, "949 MB"), (950e6, "0.9 GB"), (2.57e9, "2.6 GB")],
)
def test_sizes_are_short(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3671, "61 min 11 s")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
