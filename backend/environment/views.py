"""What the page is shown of engine environments: values only, made by Environments."""

from dataclasses import dataclass
from enum import StrEnum

from backend.environment.environment import EngineEnvironment, Lack
from backend.environment.probe import EnvironmentProbe
from backend.launch.engine_kind import EngineKind
from backend.setup.recipe import Footprint, Recipe


class InstallState(StrEnum):
    """How an installation stands."""

    QUEUED = "queued"  # another installation runs first
    RUNNING = "running"
    CANCELLING = "cancelling"
    INTERRUPTED = "interrupted"  # cancelled, or its panel ended; resume goes on
    FAILED = "failed"  # a step failed; resume tries it again


@dataclass(frozen=True)
class InstallProgress:
    """One installation that is under way, or that stopped before its end. None in a view: there is nothing to say."""

    state: InstallState
    recipe: str
    step: int = 0  # 1 to `steps`; 0: not begun
    steps: int = 0
    title: str = ""  # of the step, in English: "install torch"
    doing: str = ""  # the last line pip printed, credentials hidden, at most 200 characters
    fetched_bytes: int | None = None  # of the file that downloads now; None: nothing downloads
    disk_bytes: int | None = None  # what the environment takes so far
    started_at: float | None = None  # wall clock; of this attempt
    elapsed_s: float = 0.0  # of this attempt
    step_elapsed_s: float = 0.0
    reason: str = ""  # INTERRUPTED and FAILED: in one sentence
    hint: str = ""  # FAILED: what to do


@dataclass(frozen=True)
class EnvironmentView:
    """One environment as the page shows it."""

    environment: EngineEnvironment
    probe: EnvironmentProbe | None  # the last look, current or not; None: never looked
    probing: bool
    probe_error: str  # why the last look failed, in one sentence; "": it did not
    install: InstallProgress | None
    engine_kinds: frozenset[EngineKind]  # what it can run; empty for an address and for what is not READY
    missing: tuple[Lack, ...]  # what keeps it from a V100
    server: "AttachedServer | None" = None  # of kind ADDRESS
    disk_bytes: int | None = None  # None: not counted yet, or not on this disk


@dataclass(frozen=True)
class RecipeOffer:
    """What the installer offers, and whether it could be installed now."""

    recipe: Recipe
    footprint: Footprint  # the larger build of torch where the index was not asked
    free_bytes: int  # on the disk of the environments folder
    shortfall_bytes: int  # what is missing there while installing; 0: enough
    obstacle: str  # why it cannot be installed now, in one sentence; "": it can
    ready: str | None = None  # id of a READY environment of this recipe


class AttachedState(StrEnum):
    """Whether an attached server answers."""

    CHECKING = "checking"  # not asked yet
    READY = "ready"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class ServedModel:
    """A model that an attached server serves."""

    id: str
    max_model_len: int | None  # tokens; None: it does not say


@dataclass(frozen=True)
class AttachedServer:
    """A server that somebody else runs, as it last answered."""

    environment: str  # id
    address: str  # http://host:port
    state: AttachedState
    models: tuple[ServedModel, ...] = ()
    version: str | None = None  # vLLM's; None: it does not say
    since: float | None = None  # wall clock: in this state since then
    checked_at: float | None = None  # wall clock
    reason: str = ""  # while UNREACHABLE: why, in one sentence
