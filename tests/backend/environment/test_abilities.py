"""What an environment can run and what it lacks, from its record and its probe."""

from dataclasses import replace
from pathlib import Path

import pytest

from backend.environment.abilities import engine_kinds, lacks
from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState, Lack, LackKey
from backend.environment.probe import EnvironmentProbe
from backend.launch.engine_kind import EngineKind

READY = EngineEnvironment("abcd2345", "v100", Path("/e/abcd2345"), EnvironmentState.READY)
V100 = EnvironmentProbe(
    identity="i",
    taken_at=1.0,
    python="3.12.3",
    vllm="0.19.1",
    torch="2.10.0+cu128",
    transformers="5.8.0",
    cuda="12.8",
    torch_archs=("sm_70", "sm_80"),
    plugins=("dflash2",),
    flags=frozenset({"--dtype"}),
    is_cpu_build=False,
    dflash2="0.1.0",
)
STOCK = replace(
    V100, vllm="0.23.0", torch="2.11.0+cu130", cuda="13.0", torch_archs=("sm_80", "sm_90"), dflash2=None, plugins=()
)
CUDA_KINDS = {EngineKind.VOLTA, EngineKind.CUDA}


@pytest.mark.parametrize(
    ("probe", "kinds"),
    [
        (V100, CUDA_KINDS),
        (STOCK, {EngineKind.CUDA}),
        (replace(V100, is_cpu_build=True), {EngineKind.CPU}),
        (replace(V100, cuda=None, torch_archs=()), {EngineKind.CPU}),
        (replace(V100, cuda=None, hip="6.3"), set()),
        (None, CUDA_KINDS),
    ],
)
def test_engines_are_told_from_what_torch_and_vllm_were_built_for(
    probe: EnvironmentProbe | None, kinds: set[EngineKind]
) -> None:
    assert engine_kinds(READY, probe) == kinds


@pytest.mark.parametrize(
    "environment",
    [
        replace(READY, state=EnvironmentState.INSTALLING),
        replace(READY, state=EnvironmentState.BROKEN),
        replace(READY, kind=EnvironmentKind.ADDRESS, address="http://h"),
    ],
)
def test_what_is_not_ready_or_runs_elsewhere_starts_no_engine(environment: EngineEnvironment) -> None:
    assert engine_kinds(environment, V100) == frozenset()


def test_right_environment_for_a_v100_lacks_nothing() -> None:
    assert lacks(READY, V100) == ()


def test_stock_engine_of_today_lacks_all_that_a_v100_needs() -> None:
    assert [lack.key for lack in lacks(READY, STOCK)] == [
        *(LackKey.NO_SM70, LackKey.CUDA13, LackKey.NEW_VLLM, LackKey.NO_DFLASH2)
    ]


def test_own_build_of_a_newer_vllm_is_believed() -> None:
    fork = replace(V100, vllm="0.23.0+volta")
    assert lacks(READY, fork) == ()


def test_what_the_self_test_missed_is_told_too() -> None:
    card = Lack(LackKey.NO_CARD, "torch.cuda: Found no NVIDIA driver")
    assert lacks(replace(READY, missing=(card,)), replace(V100, dflash2_error="OSError: x")) == (
        Lack(LackKey.BROKEN_DFLASH2, "OSError: x"),
        card,
    )
