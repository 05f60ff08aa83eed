"""Which environment a preset is started in: the one a person chose, or the best that fits. Pure."""

from collections.abc import Sequence

from backend.environment.environment import EnvironmentKind, EnvironmentState
from backend.environment.views import EnvironmentView
from backend.errors import LaunchError
from backend.launch.engine_kind import EngineKind

RECIPE_OF = {EngineKind.CPU: "cpu", EngineKind.VOLTA: "v100"}  # what the installer has for a kind of engine
_WHAT = {
    EngineKind.CPU: "a vLLM built for the CPU",
    EngineKind.VOLTA: "a vLLM whose torch has code for a V100 (sm_70)",
    EngineKind.CUDA: "a vLLM built for CUDA",
}


def choose(views: Sequence[EnvironmentView], kind: EngineKind, chosen: str | None) -> EnvironmentView:
    """The environment to start this kind of engine in. `chosen`: its id, or the recipe that makes it.

    Raises:
        LaunchError: the chosen one does not fit, or none does.
    """
    if chosen:
        return _chosen(views, kind, chosen)
    fitting = [view for view in views if kind in view.engine_kinds]
    if not fitting:
        raise LaunchError(f"No {kind} engine is installed.", hint=_hint(kind))
    return max(fitting, key=lambda view: _preference(view, kind))


def _chosen(views: Sequence[EnvironmentView], kind: EngineKind, chosen: str) -> EnvironmentView:
    view = next((one for one in views if one.environment.id == chosen), None) or _made_by(views, chosen)
    if view is None and chosen in RECIPE_OF.values():
        raise LaunchError(f"No environment of the recipe {chosen!r} is installed.", hint=_hint(kind))
    if view is None:
        raise LaunchError(f"The engine environment {chosen[:40]!r} is gone.", hint="Choose another one.")
    environment = view.environment
    name = environment.title or environment.recipe or environment.id
    if environment.kind is EnvironmentKind.ADDRESS:
        raise LaunchError(f"{name} is a server that runs already: nothing can be started there.")
    if environment.state is not EnvironmentState.READY:
        raise LaunchError(f"The engine environment {name} is not ready ({environment.state}).", hint=environment.reason)
    if kind not in view.engine_kinds:
        found = view.probe_error or "; ".join(filter(None, (lack.detail for lack in view.missing)))
        raise LaunchError(
            f"The engine environment {name} is not {_WHAT[kind]}{f' ({found})' if found else ''}.", hint=_hint(kind)
        )
    return view


def _made_by(views: Sequence[EnvironmentView], recipe: str) -> EnvironmentView | None:
    """The environment of this recipe: one that is ready before the others, then the newest. A failure's button names it so."""
    made = [view for view in views if view.environment.recipe == recipe]
    ready = EnvironmentState.READY
    return max(made, key=lambda one: (one.environment.state is ready, one.environment.ready_at or 0.0), default=None)


def _preference(view: EnvironmentView, kind: EngineKind) -> tuple[bool, bool, bool, float]:
    """What our installer made for this kind, then what a look found working, then what is newest."""
    environment = view.environment
    is_ours = environment.kind is EnvironmentKind.MANAGED
    return (
        environment.recipe == RECIPE_OF.get(kind),
        is_ours,
        view.probe is not None and not view.probe_error,
        environment.ready_at or 0.0,
    )


def _hint(kind: EngineKind) -> str:
    recipe = RECIPE_OF.get(kind)
    if recipe is None:
        return "Add the Python or the image of one that is there under Environments."
    return (
        f"The installer has one: recipe {recipe!r} under Environments, or 'python -m backend.setup install {recipe}'."
    )
