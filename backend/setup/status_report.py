"""What `make status` prints: which environments and models are there, their versions, sizes and ages."""

import time
from pathlib import Path

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState, environments_in
from backend.environment.probe import cached_probe
from backend.launch.models import list_models
from backend.setup.console import size
from backend.setup.disk import bytes_below
from backend.setup.engine_environment import current_environment
from backend.setup.preparation import Preparation
from backend.setup.recipe import CPU_RECIPE, find_recipe


def status_lines(preparation: Preparation) -> list[str]:
    """The report, line by line. Changes nothing."""
    panel = preparation.panel
    state = "whole" if panel.is_whole() else "not whole: run 'make setup'"
    lines = [
        f"state folder  {preparation.arguments.home}",
        f"panel         {state}, {size(bytes_below(panel.venv))}, {panel.venv}",
    ]
    environments = environments_in(preparation.environments)
    lines += [
        line for one in environments for line in _environment_lines(one, is_current=_is_current(one, preparation))
    ]
    if not environments:
        lines.append("engine        none: run 'make setup'")
    lines += [_model_line(model.name, model.folder) for model in list_models(preparation.models)]
    return lines


def _is_current(environment: EngineEnvironment, preparation: Preparation) -> bool:
    """Whether nothing about it needs doing; what we did not install never does."""
    recipe = find_recipe(environment.recipe)
    if recipe is None:
        return True
    current = current_environment(preparation.environments, recipe, preparation.repository)
    return current is not None and current.id == environment.id


def _update_command(environment: EngineEnvironment) -> str:
    is_embedded = environment.recipe == CPU_RECIPE.name
    return "make setup" if is_embedded else f"python -m backend.setup install {environment.recipe}"


def _environment_lines(environment: EngineEnvironment, *, is_current: bool) -> list[str]:
    what = environment.state.value
    if environment.state is EnvironmentState.READY and not is_current:
        what = f"ready, but its requirements or packages changed since: run '{_update_command(environment)}'"
    if environment.state in (EnvironmentState.INSTALLING, EnvironmentState.FAILED):
        what += f" at '{environment.step}' {environment.reason}".rstrip()
    versions = ", ".join(f"{name} {version}" for name, version in sorted(environment.versions.items()))
    age = "" if environment.ready_at is None else f", made {age_in_words(time.time() - environment.ready_at)}"
    name = environment.recipe or environment.kind.value
    where = {
        EnvironmentKind.PYTHON: str(environment.external_python),
        EnvironmentKind.DOCKER: environment.image,
        EnvironmentKind.ADDRESS: environment.address,
    }.get(environment.kind, f"{size(bytes_below(environment.folder))}, {environment.folder}")
    lines = [
        f"engine {name:<6} {what}{age}, {where}",
        *([f"              {versions}"] if versions else []),
        *(f"              missing: {lack.detail or lack.key.value}" for lack in environment.missing),
    ]
    probe = cached_probe(environment)
    if probe is not None:
        build = (
            f"CUDA {probe.cuda} ({', '.join(probe.torch_archs) or 'no architectures'})"
            if probe.cuda
            else "CPU build of torch"
        )
        lines.append(
            f"              {len(probe.flags)} flags, {build}, looked at {age_in_words(probe.age_s(time.time()))}"
        )
    return lines


def _model_line(name: str, folder: Path) -> str:
    return f"model         {name}, {size(bytes_below(folder))}, {folder}"


def age_in_words(seconds: float) -> str:
    """8 s ago, 5 min ago, 3 h ago, 12 d ago."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return f"{int(max(0.0, seconds))} s ago"
