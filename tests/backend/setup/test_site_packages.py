"""SitePackages: what an interrupted pip leaves is seen, and only that."""

from pathlib import Path

import pytest

from backend.setup.site_packages import SitePackages, forget_cut_short, named, site_packages_of


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    return tmp_path


def packages_of(venv: Path) -> SitePackages:
    packages = site_packages_of(venv)
    assert packages is not None
    return packages


def put(packages: SitePackages, name: str, *, files: tuple[str, ...] = ("__init__.py",)) -> Path:
    """A package as pip leaves it when it is done."""
    info = packages.folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (packages.folder / name).mkdir()
    rows = []
    for file in files:
        (packages.folder / name / file).write_text("x = 1\n")
        rows.append(f"{name}/{file},sha256=unread,6")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/INSTALLER,,", f"{info.name}/RECORD,,", ""]))
    return info


def test_fingerprint_changes_with_a_package_added_removed_or_updated(venv: Path) -> None:
    packages = packages_of(venv)
    seen = [packages.fingerprint()]
    info = put(packages, "one")
    seen.append(packages.fingerprint())
    info.rename(info.with_name("one-1.1.dist-info"))
    seen.append(packages.fingerprint())
    (packages.folder / "one" / "__init__.py").unlink()
    (packages.folder / "one").rmdir()
    seen.append(packages.fingerprint())
    assert len(set(seen)) == 4


def test_fingerprint_ignores_what_python_itself_writes(venv: Path) -> None:
    packages = packages_of(venv)
    put(packages, "one")
    before = packages.fingerprint()
    (packages.folder / "__pycache__").mkdir()
    assert packages.fingerprint() == before


def test_finished_package_is_neither_cut_short_nor_damaged(venv: Path) -> None:
    packages = packages_of(venv)
    put(packages, "one")
    assert packages.cut_short() == ()
    assert packages.damaged() == ()


@pytest.mark.parametrize("missing", ["INSTALLER", "RECORD"])
def test_package_without_the_files_pip_writes_last_was_cut_short(venv: Path, missing: str) -> None:
    packages = packages_of(venv)
    info = put(packages, "one")
    (info / missing).unlink()
    assert packages.cut_short() == (info,)


def test_record_that_came_with_the_wheel_does_not_count_as_finished(venv: Path) -> None:
    packages = packages_of(venv)
    info = put(packages, "one")
    (info / "RECORD").write_text("one/__init__.py,,\n")
    assert packages.cut_short() == (info,)


def test_half_removed_package_is_cut_short_and_forgotten(venv: Path) -> None:
    packages = packages_of(venv)
    (packages.folder / "~ne").mkdir()
    assert forget_cut_short(venv) == ("~ne",)
    assert list(packages.folder.iterdir()) == []


@pytest.mark.parametrize("damage", ["removed", "truncated"])
def test_package_that_lost_a_file_is_damaged(venv: Path, damage: str) -> None:
    packages = packages_of(venv)
    info, whole = put(packages, "one", files=("__init__.py", "core.py")), put(packages, "two")
    core = packages.folder / "one" / "core.py"
    if damage == "removed":
        core.unlink()
    else:
        core.write_text("x")
    assert packages.damaged() == (info,)
    packages.forget(packages.damaged())
    assert not info.exists()
    assert whole.exists()


def test_rewritten_bytecode_is_no_damage(venv: Path) -> None:
    packages = packages_of(venv)
    put(packages, "one", files=("__init__.py", "core.pyc"))
    (packages.folder / "one" / "core.pyc").write_text("longer than recorded")
    assert packages.damaged() == ()


def test_forgetting_something_elsewhere_is_refused(venv: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.mkdir()
    with pytest.raises(ValueError, match="does not lie in"):
        packages_of(venv).forget((elsewhere,))
    assert elsewhere.exists()


def test_environment_of_two_pythons_has_no_site_packages(venv: Path) -> None:
    (venv / "lib/python3.12/site-packages").mkdir(parents=True)
    assert site_packages_of(venv) is None


def test_message_names_a_few_and_counts_the_rest() -> None:
    infos = tuple(Path(f"p{number}-1.dist-info") for number in range(8))
    assert named(infos) == "p0-1, p1-1, p2-1, p3-1, p4-1 and 3 more"
