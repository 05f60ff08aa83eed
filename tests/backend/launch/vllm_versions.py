"""The three vLLM versions whose real flag lists are kept in flags/, as environments to plan for."""

from collections.abc import Mapping
from pathlib import Path

from backend.environment.probe import parse_help
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "presets"
FLAGS = Path(__file__).parent / "flags"


def flag_lists() -> Mapping[str, Path]:
    """Version -> what its --help printed."""
    return {path.stem.removeprefix("vllm-"): path for path in sorted(FLAGS.glob("vllm-*.txt"))}


def tools_of(version: str, kind: EngineKind = EngineKind.CUDA) -> EngineTools:
    """An environment with that version's real flags and choices."""
    flags, choices = parse_help(flag_lists()[version].read_text(encoding="utf-8"))
    return EngineTools(
        kind,
        python=Path("/env/bin/python"),
        environment=f"env-{version}",
        flags=flags,
        choices=choices,
        vllm=version,
        plugins=("dflash2",),
    )


VERSIONS = tuple(flag_lists())
