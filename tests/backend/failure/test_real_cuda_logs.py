"""Logs of a real vLLM 0.23.0 on a graphics card whose start was spoiled on purpose, each explained right or not at all.

Recorded on 2026-12-01 on one NVIDIA H200 (139.80 GiB, driver 580, torch 2.11 for CUDA 13), not on a V100, with dummy
weights of Qwen3's shape and the Triton attention backend. Another process took the card's memory where a case needs it.
Paths were shortened, addresses made 127.0.0.1, the banner, routes, help text and the marks under a traceback's lines cut.
"""

from pathlib import Path

import pytest

from backend.engine.stage import Stage, StageProgress
from backend.engine.startup_stage import advance
from backend.failure.explain import explain
from backend.failure.failure import Failure, Fix, FixKind, LaunchContext

LOGS = Path(__file__).parent / "logs"

# name of the log, exit code, rule, some of its values, the kinds of its fixes
CASES: tuple[tuple[str, int, str, dict[str, str], tuple[FixKind, ...]], ...] = (
    ("oom_load", 1, "oom_load", {"requested": "160.00 MiB", "free": "77.56 MiB"}, (FixKind.GPUS,)),
    ("oom_profiling", 1, "oom_profiling", {"requested": "1.50 GiB"}, (FixKind.BATCHED_TOKENS,)),
    ("oom_sampler", 1, "oom_profiling", {"requested": "1.16 GiB"}, (FixKind.BATCHED_TOKENS,)),  # 4,096 sequences
    ("oom_graphs", 1, "oom_graphs", {"requested": "12.00 MiB"}, (FixKind.MEMORY_UTILIZATION, FixKind.EAGER)),
    ("oom_prefill", 0, "oom_prefill", {"free": "15.56 MiB"}, (FixKind.BATCHED_TOKENS, FixKind.MEMORY_UTILIZATION)),
    # while the KV cache is laid out; there is no rule for that phase
    ("oom_kv", 1, "oom_unknown_phase", {}, (FixKind.MEMORY_UTILIZATION, FixKind.BATCHED_TOKENS)),
    (
        "kv_bytes_too_big",
        1,
        "oom_unknown_phase",
        {"requested": "25.00 GiB"},
        (FixKind.MEMORY_UTILIZATION, FixKind.BATCHED_TOKENS),
    ),
    (
        "gpu_memory_taken",
        1,
        "gpu_memory_taken",
        {"free": "38.69", "total": "139.8", "utilization": "0.9"},
        (FixKind.MEMORY_UTILIZATION,),
    ),
    (
        "freed_in_profiling",
        1,
        "gpu_memory_changed",
        {"before": "78.68", "after": "136.93"},
        (FixKind.RETRY,),
    ),
    ("kv_no_room", 1, "kv_no_room", {}, (FixKind.MEMORY_UTILIZATION, FixKind.GPUS)),
    (
        "kv_too_small",
        1,
        "kv_too_small",
        {"context": "262144", "needed": "8.0", "available": "6.35", "limit": "208032"},
        (FixKind.CONTEXT, FixKind.MEMORY_UTILIZATION),
    ),
    ("tensor_parallel", 1, "too_few_gpus", {"gpus": "2", "available": "1"}, (FixKind.GPUS,)),
    ("no_gpu", 1, "no_gpu", {}, ()),  # CUDA_VISIBLE_DEVICES was empty
    ("bad_device", 1, "too_few_gpus", {}, ()),  # CUDA_VISIBLE_DEVICES was 3
    ("attention_backend", 1, "unknown_attention_backend", {"backend": "FLASH_QUICK"}, (FixKind.DROP_FLAG,)),
    ("kv_dtype", 2, "bad_flag_value", {"flag": "kv-cache-dtype", "value": "fp9"}, (FixKind.DROP_FLAG,)),
    # FLASHMLA for a model without MLA, and an engine core that was killed: no rule tells these causes
    ("wrong_backend", 1, "unknown", {}, ()),
    ("killed_core", 0, "unknown", {}, ()),
)


def explained(name: str, code: int) -> Failure:
    lines = (LOGS / f"cuda-{name}.log").read_text(encoding="utf-8").splitlines()
    progress = StageProgress(Stage.SPAWN)
    for line in lines:
        progress = advance(progress, line)
    context = LaunchContext(context=8192, port=18001, gpus=1, engine="cuda")
    return explain(lines, returncode=code, phase=progress.stage, context=context)


@pytest.mark.parametrize(
    ("name", "code", "rule", "values", "fixes"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_real_log_of_a_card_is_explained(
    name: str, code: int, rule: str, values: dict[str, str], fixes: tuple[FixKind, ...]
) -> None:
    failure = explained(name, code)

    assert failure.rule == rule, failure
    assert values.items() <= failure.values.items()
    assert tuple(fix.kind for fix in failure.fixes) == fixes
    assert bool(failure.last_lines) == (rule == "unknown")


def test_the_context_that_the_engine_names_is_offered() -> None:
    assert explained("kv_too_small", 1).fixes[0] == Fix(FixKind.CONTEXT, "208032")


def test_every_recorded_log_of_a_card_is_used() -> None:
    assert {path.stem.removeprefix("cuda-") for path in LOGS.glob("cuda-*.log")} == {case[0] for case in CASES}
