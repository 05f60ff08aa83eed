"""Whether the environment and the driver can run on these cards at all."""

import re
from collections.abc import Iterator

from backend.environment.environment import LackKey
from backend.failure.failure import Fix, FixKind
from backend.gpu.snapshot import DriverGap
from backend.launch.engine_kind import EngineKind
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import Situation
from backend.preflight.target import Target, is_written_for_cpu, major_of, targets, volta_targets

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}  # branch that each CUDA major version needs
LAST_VOLTA_DRIVER = 580
LAST_VOLTA_CUDA = 12
_V100_RECIPE = Fix(FixKind.ENVIRONMENT, "v100")
_CPU_RECIPE = Fix(FixKind.ENVIRONMENT, "cpu")
_HARD_GAPS = frozenset(
    {DriverGap.NO_DEVICE, DriverGap.NO_DRIVER, DriverGap.NO_LIBRARY, DriverGap.VERSION_MISMATCH, DriverGap.NO_CARD}
)
_ARCH = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def environment_not_asked(situation: Situation) -> Iterator[Finding]:
    """Nobody has looked into the environment: what it can do is not known."""
    if situation.probe is None:
        yield Finding(
            "environment_not_asked",
            Severity.HINT,
            {"environment": situation.tools.environment or "-"},
            field="environment",
        )


def wrong_build(situation: Situation) -> Iterator[Finding]:
    """A CPU build for a card, a CUDA build for none, or a build for another maker's cards."""
    probe = situation.probe
    if probe is None:
        return
    values = {"vllm": probe.vllm or "?", "torch": probe.torch}
    is_cpu = probe.is_cpu_build or (probe.cuda is None and probe.hip is None)
    if is_written_for_cpu(situation):
        if not is_cpu:
            yield Finding("not_a_cpu_build", Severity.ERROR, values, (_CPU_RECIPE,), "environment")
    elif is_cpu:
        yield Finding("cpu_build", Severity.ERROR, values, _for_card(situation), "environment")
    elif probe.cuda is None:
        yield Finding("rocm_build", Severity.ERROR, values, _for_card(situation), "environment")


def torch_lacks_card(situation: Situation) -> Iterator[Finding]:
    """torch has no code for the card. Its own list of architectures decides, so builds of other people pass."""
    probe = situation.probe
    if probe is None or probe.cuda is None or probe.is_cpu_build:
        return
    for target in targets(situation):
        if not runs_on(probe.torch_archs, target.capability):
            values = {
                "torch": probe.torch,
                "card": target.name,
                "needed": "sm_" + target.capability_text.replace(".", ""),
                "archs": " ".join(probe.torch_archs)[:160] or "-",
            }
            fixes = (_V100_RECIPE,) if target.is_volta else ()
            yield Finding("torch_lacks_card", target.severity, values, fixes, "environment")


def runs_on(archs: tuple[str, ...], capability: tuple[int, int]) -> bool:
    """Whether code for these architectures runs on this card: the same major version, or PTX of an older one."""
    for arch in archs:
        match = _ARCH.fullmatch(arch)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        if match[4] == "a":
            fits = built == capability
        elif match[1] == "compute":
            fits = built <= capability
        else:
            fits = built[0] == capability[0] and built <= capability
        if fits:
            return True
    return False


def cuda_too_new(situation: Situation) -> Iterator[Finding]:
    """torch has code for a Volta card, but the CUDA 13 tools that compile further kernels do not know it."""
    probe = situation.probe
    major = major_of(probe.cuda) if probe else None
    if probe is None or major is None or major <= LAST_VOLTA_CUDA:
        return
    for target in volta_targets(situation):
        values = {"cuda": probe.cuda or "", "card": target.name}
        yield Finding("cuda_too_new", Severity.WARNING, values, (_V100_RECIPE,), "environment")


def driver_too_old(situation: Situation) -> Iterator[Finding]:
    """The driver is below what this CUDA needs. An image may bring a library that makes up for it."""
    probe = situation.probe
    driver, cuda = major_of(situation.driver_version), major_of(probe.cuda) if probe else None
    if is_written_for_cpu(situation) or probe is None or driver is None or cuda is None:
        return
    needed = OLDEST_DRIVER.get(cuda, OLDEST_DRIVER[max(OLDEST_DRIVER)] if cuda > max(OLDEST_DRIVER) else 0)
    if driver < needed:
        values = {"driver": situation.driver_version, "cuda": probe.cuda or "", "needed": str(needed)}
        severity = Severity.WARNING if situation.tools.image else Severity.ERROR
        fixes = (_V100_RECIPE,) if cuda > LAST_VOLTA_CUDA and driver >= OLDEST_DRIVER[LAST_VOLTA_CUDA] else ()
        yield Finding("driver_too_old", severity, values, fixes, "environment")


def driver_without_volta(situation: Situation) -> Iterator[Finding]:
    """R580 is the last branch with Volta: a newer one does not show the card."""
    driver = major_of(situation.driver_version)
    if driver is None or driver <= LAST_VOLTA_DRIVER:
        return
    for target in volta_targets(situation):
        values = {"driver": situation.driver_version, "card": target.name, "last": str(LAST_VOLTA_DRIVER)}
        severity = Severity.ERROR if target.is_seen or not situation.cards else Severity.WARNING
        yield Finding("driver_without_volta", severity, values, field="cards")


def open_module(situation: Situation) -> Iterator[Finding]:
    """NVIDIA's open kernel module begins with Turing."""
    if not situation.open_kernel_module:
        return
    for target in volta_targets(situation):
        values = {"driver": situation.driver_version or "?", "card": target.name}
        severity = Severity.ERROR if target.is_seen or not situation.cards else Severity.WARNING
        yield Finding("open_module", severity, values, field="cards")


def no_cards(situation: Situation) -> Iterator[Finding]:
    """No card can be read. Where only the panel is kept from them, the engine may still reach them."""
    gap = situation.card_gap
    if is_written_for_cpu(situation) or situation.cards:
        return
    if gap is None:
        yield Finding("cards_not_known", Severity.HINT, field="cards")
        return
    severity = Severity.ERROR if gap.gap in _HARD_GAPS else Severity.WARNING
    yield Finding("no_cards", severity, {"reason": gap.sentence[:200] or gap.gap.value}, field="cards")


def dflash2_broken(situation: Situation) -> Iterator[Finding]:
    """Our kernels are installed and cannot be imported, or missing on the card they are for."""
    broken = next((lack for lack in situation.lacks if lack.key is LackKey.BROKEN_DFLASH2), None)
    if not any(volta_targets(situation)):
        return
    if broken is not None:
        yield Finding("dflash2_broken", Severity.WARNING, {"reason": broken.detail[:200]}, field="environment")
    elif any(lack.key is LackKey.NO_DFLASH2 for lack in situation.lacks):
        yield Finding("no_dflash2", Severity.HINT, {}, (_V100_RECIPE,), "environment")


def card_of_other_generation(situation: Situation) -> Iterator[Finding]:
    """An engine kind that leaves older cards out, on an older card."""
    if situation.preset.engine is not EngineKind.CUDA:
        return
    for target in volta_targets(situation):
        if target.is_seen:
            values = {"card": target.name, "capability": target.capability_text}
            yield Finding("card_needs_volta_kind", Severity.WARNING, values, field="cards")


def _for_card(situation: Situation) -> tuple[Fix, ...]:
    found: tuple[Target, ...] = tuple(volta_targets(situation))
    return (_V100_RECIPE,) if found or situation.preset.engine is EngineKind.VOLTA else ()


RULES = (
    environment_not_asked,
    wrong_build,
    torch_lacks_card,
    cuda_too_new,
    driver_too_old,
    driver_without_volta,
    open_module,
    no_cards,
    dflash2_broken,
    card_of_other_generation,
)
