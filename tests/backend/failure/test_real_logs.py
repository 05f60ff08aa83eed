"""Logs of a real vLLM 0.32 on a CPU whose start was spoiled on purpose, each explained right or not at all.

Recorded on 2026-12-01 with SmolLM2-135M, 2 cores. Paths were shortened, the banner, routes and help text cut.
"""

from pathlib import Path

import pytest

from backend.engine.stage import Stage, StageProgress
from backend.engine.startup_stage import advance
from backend.failure.explain import explain
from backend.failure.failure import Failure, Fix, FixKind, LaunchContext

LOGS = Path(__file__).parent / "logs"

# name of the log, exit code, rule, some of its values, its fixes
CASES: tuple[tuple[str, int, str, dict[str, str], tuple[Fix, ...]], ...] = (
    ("wrong_path", 1, "wrong_path", {"path": "/no/such/folder"}, ()),
    ("not_in_cache", 1, "not_in_cache", {}, ()),
    ("no_network", 1, "no_network", {}, (Fix(FixKind.RETRY),)),
    ("unknown_flag", 2, "unknown_flag", {"flags": "--swap-space"}, (Fix(FixKind.DROP_FLAG, "swap-space"),)),
    ("bad_choice", 2, "bad_flag_value", {"flag": "dtype", "value": "float15"}, ()),
    ("bad_int", 2, "bad_flag_value", {"flag": "max-model-len", "value": "many"}, ()),
    (
        "chat_template",
        1,
        "bad_flag_value",
        {"flag": "chat-template", "value": "/no/template.jinja"},
        (Fix(FixKind.DROP_FLAG, "chat-template"),),
    ),
    (
        "utilization",
        1,
        "bad_flag_value",
        {"flag": "gpu-memory-utilization", "value": "1.5"},
        (Fix(FixKind.DROP_FLAG, "gpu-memory-utilization"),),
    ),
    (
        "batched_tokens",
        1,
        "bad_flag_value",
        {"flag": "max-num-batched-tokens", "value": "64"},
        (Fix(FixKind.DROP_FLAG, "max-num-batched-tokens"),),
    ),
    ("port_taken", 1, "port_taken", {"port": "18431"}, (Fix(FixKind.PORT),)),
    (
        "context_too_long",
        1,
        "context_too_long",
        {"context": "32768", "limit": "8192"},
        (Fix(FixKind.CONTEXT, "8192"),),
    ),
    (
        "kv_too_small",
        1,
        "kv_too_small",
        {"context": "2048", "needed": "0.09", "limit": "416"},
        (Fix(FixKind.CONTEXT, "416"), Fix(FixKind.KV_CACHE_GIB, "0.25")),
    ),
    ("kv_too_big", 1, "kv_too_big", {"requested": "4000.0"}, (Fix(FixKind.KV_CACHE_GIB, "8.75"),)),
    ("weights_truncated", 1, "weights_corrupt", {}, ()),
    ("weights_garbage", 1, "weights_corrupt", {}, ()),
    ("weights_missing", 1, "weights_missing", {"path": "/models/x"}, ()),
    ("config_missing", 1, "config_missing", {}, ()),
    ("tokenizer_missing", 1, "tokenizer_missing", {}, ()),
    ("unknown_model_type", 1, "unknown_architecture", {"architecture": "qwen9_moe"}, ()),
    ("unknown_architecture", 1, "unknown_architecture", {"architecture": "Qwen9ForCausalLM"}, ()),
    ("unknown_quantization", 1, "unknown_quantization", {"method": "nvfp5"}, (Fix(FixKind.QUANTIZATION, "none"),)),
    ("quantization_in_config", 1, "unknown_quantization", {"method": "nvfp5"}, (Fix(FixKind.QUANTIZATION, "none"),)),
    ("quantization_unquantised", 1, "quantization_mismatch", {"asked": "awq"}, (Fix(FixKind.QUANTIZATION, "none"),)),
    ("quantization_mismatch", 1, "quantization_mismatch", {"found": "gptq"}, (Fix(FixKind.QUANTIZATION, "none"),)),
    ("tensor_parallel", 1, "tensor_parallel_indivisible", {"heads": "9", "gpus": "2"}, (Fix(FixKind.GPUS, "1"),)),
    (
        "attention_backend",
        1,
        "unknown_attention_backend",
        {"backend": "FLASH_QUICK"},
        (Fix(FixKind.DROP_FLAG, "attention-backend"),),
    ),
    ("tool_parser", 1, "unknown_parser", {"parser": "qwen9"}, (Fix(FixKind.DROP_FLAG, "enable-auto-tool-choice"),)),
    ("reasoning_parser", 1, "unknown_parser", {"parser": "qwen9"}, (Fix(FixKind.DROP_FLAG, "reasoning-parser"),)),
    ("speculation", 1, "speculation_incomplete", {}, (Fix(FixKind.DROP_FLAG, "speculative-config"),)),
    ("nvfp4", 1, "nvfp4_no_plugin", {}, ()),
    ("killed_leader", -9, "killed", {"signal": "SIGKILL"}, (Fix(FixKind.RETRY),)),
    ("killed_leader_loading", -9, "killed", {"signal": "SIGKILL"}, (Fix(FixKind.RETRY),)),
    ("killed_worker", 0, "killed", {"signal": "SIGKILL"}, (Fix(FixKind.RETRY),)),
    ("segv_worker", 0, "crashed", {"signal": "SIGSEGV"}, (Fix(FixKind.RETRY),)),
    (
        "address_space",
        -9,
        "host_memory",
        {},
        (Fix(FixKind.KV_CACHE_GIB, "0.5"),),
    ),  # prlimit --as; it hung, and was killed
    # nothing in these logs tells a cause that a rule could name
    ("killed_core", 0, "unknown", {}, ()),
    ("killed_worker_loading", 1, "unknown", {}, ()),
    ("tensor_parallel_3", 1, "unknown", {}, ()),
    ("speculation_mtp", 1, "unknown", {}, ()),
    ("config_garbage", 1, "unknown", {}, ()),
    ("config_invalid", 1, "unknown", {}, ()),
    ("kv_env", 1, "unknown", {}, ()),
    ("served_host", 1, "unknown", {}, ()),
)


def explained(name: str, code: int, *, kills: int | None = None) -> Failure:
    lines = (LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines()
    progress = StageProgress(Stage.SPAWN)
    for line in lines:
        progress = advance(progress, line)
    context = LaunchContext(context=2048, port=18431, gpus=2, quantization="awq", engine="cpu", kv_cache_gib=1)
    return explain(lines, returncode=code, phase=progress.stage, context=context, out_of_memory_kills=kills)


@pytest.mark.parametrize(
    ("name", "code", "rule", "values", "fixes"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_real_log_is_explained(
    name: str, code: int, rule: str, values: dict[str, str], fixes: tuple[Fix, ...]
) -> None:
    failure = explained(name, code)

    assert failure.rule == rule, failure
    assert values.items() <= failure.values.items()
    assert failure.fixes == fixes
    assert bool(failure.last_lines) == (rule == "unknown")


@pytest.mark.parametrize("name", ["killed_core", "killed_worker_loading", "killed_worker", "killed_leader"])
def test_a_process_that_vanished_ran_out_of_memory_when_the_kernel_counted_it(name: str) -> None:
    code = next(case[1] for case in CASES if case[0] == name)
    assert explained(name, code, kills=1).rule == "host_memory"


def test_an_error_that_is_explained_is_not_overruled_by_the_kernel_s_counter() -> None:
    assert explained("weights_truncated", 1, kills=1).rule == "weights_corrupt"


def test_every_recorded_log_is_used() -> None:
    recorded = {path.stem for path in LOGS.glob("*.log") if not path.stem.startswith("cuda-")}
    assert recorded == {case[0] for case in CASES}
