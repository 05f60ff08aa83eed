"""Which environment a preset gets: the chosen one or the best, and the reason where none fits."""

from dataclasses import replace
from pathlib import Path

import pytest

from backend.environment.abilities import engine_kinds, lacks
from backend.environment.choice import choose
from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState
from backend.environment.probe import EnvironmentProbe
from backend.environment.views import EnvironmentView
from backend.errors import LaunchError
from backend.launch.engine_kind import EngineKind
from tests.backend.environment.test_abilities import STOCK, V100


def view(
    identifier: str,
    probe: EnvironmentProbe | None,
    *,
    recipe: str = "",
    kind: EnvironmentKind = EnvironmentKind.MANAGED,
    state: EnvironmentState = EnvironmentState.READY,
    ready_at: float = 1.0,
) -> EnvironmentView:
    environment = EngineEnvironment(
        identifier, recipe, Path("/e") / identifier, state, kind=kind, ready_at=ready_at, external_python=Path("/p")
    )
    return EnvironmentView(
        environment=environment,
        probe=probe,
        probing=False,
        probe_error="",
        install=None,
        engine_kinds=engine_kinds(environment, probe),
        missing=lacks(environment, probe),
    )


CPU = replace(V100, is_cpu_build=True, vllm="0.32.0")
EMBEDDED = view("cpuu2345", CPU, recipe="cpu", ready_at=1.0)
CPU_0_19 = view("cpuo2345", CPU, recipe="cpu-0.19.1", ready_at=9.0)
OURS = view("vvvv2345", V100, recipe="v100", ready_at=1.0)
THEIRS = view("them2345", V100, kind=EnvironmentKind.PYTHON, ready_at=9.0)
NEWER = view("newr2345", STOCK, kind=EnvironmentKind.PYTHON, ready_at=9.0)
ALL = (EMBEDDED, CPU_0_19, OURS, THEIRS, NEWER)


def test_what_our_installer_made_for_the_kind_comes_first() -> None:
    assert choose(ALL, EngineKind.CPU, None) is EMBEDDED
    assert choose(ALL, EngineKind.VOLTA, None) is OURS
    assert choose((CPU_0_19, THEIRS), EngineKind.VOLTA, None) is THEIRS
    assert choose((NEWER, THEIRS), EngineKind.CUDA, None) in (NEWER, THEIRS)


def test_recipe_that_a_failures_button_names_is_taken_for_its_environment() -> None:
    older, broken = (
        view("vold2345", V100, recipe="v100", ready_at=0.5),
        view("vbrk2345", V100, recipe="v100", ready_at=9.0, state=EnvironmentState.BROKEN),
    )
    assert choose((broken, older, *ALL), EngineKind.VOLTA, "v100") is OURS
    assert choose(ALL, EngineKind.CPU, "cpu") is EMBEDDED
    with pytest.raises(LaunchError, match="recipe 'v100' is installed") as caught:
        choose((THEIRS,), EngineKind.VOLTA, "v100")
    assert "recipe 'v100'" in str(caught.value.hint)


def test_chosen_one_is_taken_where_it_fits() -> None:
    assert choose(ALL, EngineKind.VOLTA, "them2345") is THEIRS
    assert choose(ALL, EngineKind.CUDA, "newr2345") is NEWER


@pytest.mark.parametrize(
    ("kind", "chosen", "words"),
    [
        (EngineKind.VOLTA, "newr2345", ("sm_70", "2.11.0+cu130", "recipe 'v100'")),
        (EngineKind.CPU, "vvvv2345", ("built for the CPU", "recipe 'cpu'")),
        (EngineKind.CPU, "gone2345", ("is gone",)),
    ],
)
def test_chosen_one_that_does_not_fit_is_refused_with_what_is_missing(
    kind: EngineKind, chosen: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(LaunchError) as caught:
        choose(ALL, kind, chosen)
    assert [word for word in words if word not in str(caught.value)] == []


def test_none_that_fits_points_to_the_installer() -> None:
    with pytest.raises(LaunchError, match=r"No volta engine is installed\..*recipe 'v100'"):
        choose((EMBEDDED, NEWER), EngineKind.VOLTA, None)
    with pytest.raises(LaunchError, match="not ready"):
        choose((view("half2345", None, recipe="v100", state=EnvironmentState.FAILED),), EngineKind.VOLTA, "half2345")
