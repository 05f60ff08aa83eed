"""What an environment can run, and what keeps it from a V100: decided from its record and its probe. Pure."""

import re

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState, Lack, LackKey
from backend.environment.probe import EnvironmentProbe
from backend.launch.engine_kind import EngineKind

LAST_VOLTA_VLLM = (0, 19, 1)
_CUDA_KINDS = frozenset({EngineKind.VOLTA, EngineKind.CUDA})
_BY_RECIPE = {"cpu": frozenset({EngineKind.CPU}), "cpu-0.19.1": frozenset({EngineKind.CPU}), "v100": _CUDA_KINDS}


def engine_kinds(environment: EngineEnvironment, probe: EnvironmentProbe | None) -> frozenset[EngineKind]:
    """What engines can be started in it; nothing while it is not READY, and nothing at an address.

    What we installed is known by its recipe where it was not looked at yet.
    """
    if environment.state is not EnvironmentState.READY or environment.kind is EnvironmentKind.ADDRESS:
        return frozenset()
    if probe is None:
        return _BY_RECIPE.get(environment.recipe, frozenset())
    if probe.is_cpu_build or (probe.cuda is None and probe.hip is None):
        return frozenset({EngineKind.CPU})
    if probe.cuda is None:
        return frozenset()
    return _CUDA_KINDS if "sm_70" in probe.torch_archs else frozenset({EngineKind.CUDA})


def lacks(environment: EngineEnvironment, probe: EnvironmentProbe | None) -> tuple[Lack, ...]:
    """What keeps it from serving on a V100, as its self-test and its last look tell."""
    found = () if probe is None else tuple(_lacks_of(probe))
    return (*found, *environment.missing)


def _lacks_of(probe: EnvironmentProbe) -> list[Lack]:
    if probe.is_cpu_build or probe.cuda is None:
        return [Lack(LackKey.CPU_BUILD, f"vLLM {probe.vllm}, torch {probe.torch}")]
    found = []
    if "sm_70" not in probe.torch_archs:
        found.append(Lack(LackKey.NO_SM70, f"torch {probe.torch}: {' '.join(probe.torch_archs) or 'no architectures'}"))
    if int(probe.cuda.partition(".")[0]) >= 13:
        found.append(Lack(LackKey.CUDA13, f"CUDA {probe.cuda}"))
    if _is_stock(probe.vllm) and _numbers(probe.vllm) > LAST_VOLTA_VLLM:
        found.append(Lack(LackKey.NEW_VLLM, f"vLLM {probe.vllm}"))
    if probe.dflash2 is None:
        found.append(Lack(LackKey.NO_DFLASH2))
    elif probe.dflash2_error:
        found.append(Lack(LackKey.BROKEN_DFLASH2, probe.dflash2_error))
    return found


def _is_stock(vllm: str | None) -> bool:
    """Whether this is a release and no build of somebody's own, who may have kept sm_70."""
    return vllm is not None and re.fullmatch(r"\d+(\.\d+)*(\.?post\d+)?", vllm) is not None


def _numbers(vllm: str | None) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", vllm or "")
    return tuple(int(part) for part in match.group().split(".")) if match else ()
