"""All that the rules look at: one launch and the machine it would run on, as values. Nothing in it reads or asks."""

from dataclasses import dataclass, field

from backend.environment.environment import Lack
from backend.environment.probe import EnvironmentProbe
from backend.fit.estimate import FitEstimate
from backend.fit.model_facts import ModelFacts
from backend.gpu.snapshot import GpuCardState, NoDriver
from backend.launch.engine_tools import EngineTools
from backend.launch.preset import Preset
from backend.reading import Missing, MissingReason, Reading

NOT_READ = Missing(MissingReason.ERROR, "not read")


@dataclass(frozen=True)
class CardUser:
    """A process that computes on a card."""

    pid: int
    name: str = ""  # of its program; "" where it cannot be read
    user: str = ""  # login name; "" where it cannot be read
    bytes: int | None = None  # of the card; None: the driver does not say
    engine: str = ""  # id of the panel's own engine it belongs to; "" for somebody else


@dataclass(frozen=True)
class CardSituation:
    """One card."""

    uuid: str  # "" for a card that was never read
    name: str
    capability: tuple[int, int] | None = None  # compute capability; None: not known
    total_bytes: Reading[int] = NOT_READ
    used_bytes: Reading[int] = NOT_READ
    state: GpuCardState = GpuCardState.OK
    detail: str = ""  # why, in the driver's words
    users: tuple[CardUser, ...] | None = None  # None: not known

    @property
    def is_volta(self) -> bool | None:
        """Whether it is a Volta card; None: not known."""
        return None if self.capability is None else self.capability[0] == 7 and self.capability[1] < 5


@dataclass(frozen=True)
class FileProblem:
    """A file of the model that is not as it should be."""

    file: str  # its name in the model's folder
    reason: str  # in the reader's words: "269062000 of 269062936 bytes"


@dataclass(frozen=True)
class ModelSituation:
    """The model's folder as it is now."""

    name: str
    folder: str | None  # None: it is not on this machine
    facts: ModelFacts | None = None
    facts_error: str = ""  # why there are none, in one sentence; "" where nobody looked
    missing_files: tuple[str, ...] = ()  # that the engine needs
    lost_files: tuple[str, ...] = ()  # that the download brought, and that it may do without
    corrupt_files: tuple[FileProblem, ...] = ()
    changed_files: tuple[str, ...] = ()  # readable, and of another size than they were downloaded with
    was_checked: bool = False  # whether anybody looked at the files
    weight_bytes: int | None = None  # on disk
    declared_quantization: str | None = None  # "" for none, None where it could not be read
    context_limit: int | None = None  # tokens that vLLM allows, position scaling counted in; None: facts.max_position
    brings_code: bool = False  # its config names Python files of its own (auto_map)
    template_dates: bool | None = None  # its chat template puts the day into the prompt; None: not known


@dataclass(frozen=True)
class EngineModels:
    """The names an environment's own packages list. Read as text: nothing of them is imported."""

    classes: frozenset[str]  # of vLLM's registry
    removed: frozenset[str] = frozenset()  # that vLLM had once
    transformers: frozenset[str] = frozenset()  # model classes that vLLM may run by way of transformers
    model_types: frozenset[str] = frozenset()  # whose config vLLM or transformers can read; empty: not known


@dataclass(frozen=True)
class OffloadDisk:
    """A folder on a disk that an extension keeps KV cache in, such as LMCache."""

    path: str
    wanted_bytes: int | None  # None: no limit is set
    free_bytes: Reading[int] = NOT_READ
    is_rotating: bool | None = None  # a hard disk; None: not known


@dataclass(frozen=True)
class HostSituation:
    """The machine. Memory is what engines of this panel can have: a control group's limit where it is lower."""

    memory_total_bytes: Reading[int] = NOT_READ
    memory_available_bytes: Reading[int] = NOT_READ
    is_limited: bool = False  # a container or a service limits memory
    disk_free_bytes: Reading[int] = NOT_READ  # where the state folder is
    offload_disk: OffloadDisk | None = None  # None: nothing is kept on a disk


@dataclass(frozen=True)
class ListenSituation:
    """Where the engine would listen."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: the panel picks a free one
    port_free: bool | None = None  # None: not known, or picked by the panel
    port_user: str = ""  # who has it: "nginx (812)"; "" not known
    host_is_local: bool | None = None  # an address of this machine; None: not known
    has_key: bool = False


@dataclass(frozen=True)
class Situation:
    """One launch, and the machine as it is now."""

    preset: Preset  # already adjusted
    tools: EngineTools
    model: ModelSituation
    probe: EnvironmentProbe | None = None
    lacks: tuple[Lack, ...] = ()  # of the environment
    engine_models: EngineModels | None = None  # None: the environment's packages could not be read, such as an image's
    cards: tuple[CardSituation, ...] = ()  # those the engine would be given; else those that are there
    others: tuple[CardSituation, ...] = ()  # the cards that were not chosen
    driver_version: str = ""  # "580.95.05"; "" not known
    open_kernel_module: bool | None = None  # NVIDIA's open kernel module is loaded; None: not known
    card_gap: NoDriver | None = None  # why no card can be read
    host: HostSituation = field(default_factory=HostSituation)
    listen: ListenSituation = field(default_factory=ListenSituation)
    estimate: FitEstimate | None = None
    estimate_error: str = ""  # why there is none, in one sentence
    longest_context: int | None = None  # tokens that fit, by backend.fit.inverse; None: not computed, or none does
    most_sequences: int | None = None  # of full length that fit at once; None: not computed, or none does
    system_prompt: str = ""
    served_names: tuple[str, ...] = ()  # of other engines that run
