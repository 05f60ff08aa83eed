"""Environment cards: every state, kind, lack and installation has its words, and what others say is escaped."""

from dataclasses import replace
from pathlib import Path

import pytest

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState, Lack, LackKey
from backend.environment.probe import EnvironmentProbe
from backend.environment.views import (
    AttachedServer,
    AttachedState,
    EnvironmentView,
    InstallProgress,
    InstallState,
    RecipeOffer,
    ServedModel,
)
from backend.launch.engine_kind import EngineKind
from backend.setup.recipe import RECIPES, Footprint
from ui.render_environments import (
    environment_title,
    render_environment,
    render_environment_frame,
    render_no_environments,
)
from ui.render_recipes import render_recipes
from ui.strings import Language

EVIL = "<img src=x onerror=alert(1)>"
PROBE = EnvironmentProbe(
    identity="x",
    taken_at=100.0,
    python="3.12.1",
    vllm="0.19.1",
    torch="2.10.0+cu128",
    transformers="5.8.0",
    cuda="12.8",
    torch_archs=("sm_70", "sm_80"),
    plugins=(),
    flags=frozenset({"--dtype"}),
    is_cpu_build=False,
)
ENVIRONMENT = EngineEnvironment(id="e1", recipe="v100", folder=Path("/e1"), state=EnvironmentState.READY)
VIEW = EnvironmentView(
    environment=ENVIRONMENT,
    probe=PROBE,
    probing=False,
    probe_error="",
    install=None,
    engine_kinds=frozenset({EngineKind.VOLTA, EngineKind.CUDA}),
    missing=(),
)


def shown(view: EnvironmentView, language: Language = Language.EN) -> str:
    return render_environment(view, "Title", language)


@pytest.mark.parametrize("language", list(Language))
def test_every_lack_of_a_card_build_is_said(language: Language) -> None:
    html = shown(replace(VIEW, missing=tuple(Lack(key, EVIL) for key in LackKey)), language)
    assert html.count("<li>") == len(LackKey)
    assert "<img" not in html


def test_a_cpu_build_is_not_blamed_for_lacking_a_card() -> None:
    view = replace(VIEW, engine_kinds=frozenset({EngineKind.CPU}), missing=(Lack(LackKey.CPU_BUILD),))
    assert "<li>" not in shown(view)


@pytest.mark.parametrize("language", list(Language))
def test_every_kind_and_state_has_words(language: Language) -> None:
    for kind in EnvironmentKind:
        for state in EnvironmentState:
            environment = replace(ENVIRONMENT, kind=kind, state=state, reason=EVIL)
            assert "<img" not in shown(replace(VIEW, environment=environment), language)


@pytest.mark.parametrize("state", list(InstallState))
def test_an_installation_shows_its_step_and_the_right_buttons(state: InstallState) -> None:
    progress = InstallProgress(state, "v100", step=3, steps=8, title="install torch", doing=EVIL, reason=EVIL)
    html = shown(replace(VIEW, install=progress))
    assert "Step 3 of 8: install torch" in html
    assert "<img" not in html
    assert ("env.cancel" in html) == (state in (InstallState.QUEUED, InstallState.RUNNING))
    assert ("env.resume" in html) == (state in (InstallState.FAILED, InstallState.INTERRUPTED))


@pytest.mark.parametrize("state", list(AttachedState))
def test_an_attached_server_shows_what_it_serves_and_never_a_key(state: AttachedState) -> None:
    server = AttachedServer("e1", "http://10.0.0.5:8000", state, (ServedModel(EVIL, 4096),), reason=EVIL)
    environment = replace(ENVIRONMENT, kind=EnvironmentKind.ADDRESS, address="http://10.0.0.5:8000")
    html = shown(replace(VIEW, environment=environment, probe=None, server=server))
    assert "http://10.0.0.5:8000" in html and "<img" not in html


def test_versions_and_age_are_shown_and_unknown_is_said() -> None:
    html = shown(VIEW)
    for part in ("vLLM 0.19.1", "torch 2.10.0+cu128", "CUDA 12.8", "sm_70 sm_80", 'data-since="100"', "runs on a V100"):
        assert part in html
    assert "Not looked at yet" in shown(replace(VIEW, probe=None))


def test_removing_is_asked_about_by_name() -> None:
    assert "data-confirm=" in shown(VIEW) and "Remove Title?" in shown(VIEW)


def test_the_log_of_an_installation_can_be_followed() -> None:
    assert 'data-log="install/e1"' in render_environment_frame(VIEW, Language.EN)


def offer(name: str, *, short: int = 0, obstacle: str = "", ready: str | None = None) -> RecipeOffer:
    recipe = next(recipe for recipe in RECIPES if recipe.name == name)
    return RecipeOffer(recipe, Footprint(5_100_000_000, 11_200_000_000), 9_000_000_000, short, obstacle, ready)


def test_a_recipe_says_what_it_needs_and_what_is_missing() -> None:
    html = render_recipes((offer("v100", short=2_000_000_000),), Language.EN)
    assert "5.1 GB to download" in html and "2.0 GB of disk space are missing" in html and "disabled" in html
    assert "disabled" in render_recipes((offer("v100", ready="e1"),), Language.EN)
    assert "disabled" not in render_recipes((offer("v100"),), Language.EN)
    assert EVIL not in render_recipes((offer("v100", obstacle=EVIL),), Language.EN)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_has_a_chinese_title(recipe) -> None:  # type: ignore[no-untyped-def]
    view = replace(VIEW, environment=replace(ENVIRONMENT, recipe=recipe.name))
    assert "引擎" in environment_title(view, (offer(recipe.name),), Language.ZH)


def test_nothing_there_is_said() -> None:
    assert "No environment yet" in render_no_environments(True, Language.EN)
    assert "No environment yet" not in render_no_environments(False, Language.EN)
