"""The kinds of engine a preset can ask for."""

from enum import StrEnum


class EngineKind(StrEnum):
    """What an engine's vLLM was built for. One environment may serve more than one kind."""

    CPU = "cpu"  # no graphics card
    VOLTA = "volta"  # a CUDA build whose torch has sm_70: vLLM up to 0.19.1, torch up to 2.10
    CUDA = "cuda"  # any CUDA build; cards from compute capability 7.5
