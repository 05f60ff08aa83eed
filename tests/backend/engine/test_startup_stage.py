"""Stages from vLLM's own lines: each phase is recognised, and nothing ever goes backwards."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.startup_stage import advance
from backend.engine.status import Stage, StageProgress

# vLLM 0.32.0 on a CPU, enforce-eager, with line heads shortened
REAL_START = (
    ("DeprecationWarning: `vllm.entrypoints.openai.api_server` is deprecated", Stage.IMPORTS, None),
    ("(APIServer pid=1) INFO [api_utils.py:286] non-default args: {'model': '/m'}", Stage.IMPORTS, None),
    ("(APIServer pid=1) INFO [model.py:733] Resolved architecture: LlamaForCausalLM", Stage.IMPORTS, None),
    ("(APIServer pid=1) INFO [model.py:2152] Using max model len 2048", Stage.IMPORTS, None),
    (
        "(APIServer pid=1) WARNING [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel "
        "warmup. This is equivalent to setting -cc.mode=none",
        Stage.IMPORTS,
        None,
    ),
    ("(EngineCore pid=2) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config:", Stage.IMPORTS, None),
    ("(EngineCore pid=2) INFO [multiproc_executor.py:153] DP group leader: world_size=1", Stage.IMPORTS, None),
    ("(Worker pid=3) INFO [cpu_model_runner.py:68] Starting to load model /m...", Stage.WEIGHTS, None),
    ("Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]", Stage.WEIGHTS, 0),
    ("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:03<00:03,  3.89s/it]", Stage.WEIGHTS, 50),
    ("Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:07<00:00,  3.89s/it]", Stage.WEIGHTS, 100),
    ("(Worker pid=3) INFO [default_loader.py:501] Loading weights took 3.89 seconds", Stage.WEIGHTS, 100),
    (
        "(Worker pid=3) INFO [cpu_worker.py:260] Explicitly set (1.0/11.84) GiB for KV cache on node 0.",
        Stage.KV_CACHE,
        None,
    ),
    ("(EngineCore pid=2) INFO [kv_cache_utils.py:2327] CPU KV cache size: 23,296 tokens", Stage.KV_CACHE, None),
    ("(EngineCore pid=2) INFO [core.py:402] init engine (profile, create kv cache) took 3.01 s", Stage.WARM_UP, None),
    ("(APIServer pid=1) INFO [entry.py:136] Supported tasks: ['generate']", Stage.WARM_UP, None),
    ("(APIServer pid=1) INFO [entry.py:140] Starting vLLM server on http://127.0.0.1:8100", Stage.WARM_UP, None),
    ("INFO:     Application startup complete.", Stage.WARM_UP, None),
)


def test_a_real_start_goes_through_its_stages() -> None:
    progress = StageProgress(Stage.SPAWN)
    for line, stage, percent in REAL_START:
        progress = advance(progress, line)
        assert progress == StageProgress(stage, percent), line


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("INFO [gpu_worker.py:1] Available KV cache memory: 12.3 GiB", Stage.KV_CACHE),
        ("INFO [kv_cache_utils.py:1] GPU KV cache size: 100,000 tokens", Stage.KV_CACHE),
        ("INFO Auto set (12.0) GiB for KV cache", Stage.KV_CACHE),
        ("INFO [backends.py:1] Compiling a graph for dynamic shape takes 5.1 s", Stage.WARM_UP),
        ("INFO [monitor.py:1] torch.compile takes 12.3 s in total", Stage.WARM_UP),
        ("INFO Warming up model for the compilation...", Stage.WARM_UP),
        ("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|████      | 4/10", Stage.WARM_UP),
        ("INFO [gpu_model_runner.py:1] Model loading took 1.2 GiB memory and 3.4 seconds", Stage.WEIGHTS),
    ],
)
def test_phases_of_other_platforms_are_known(line: str, stage: Stage) -> None:
    assert advance(StageProgress(Stage.IMPORTS), line).stage is stage


def test_graph_capture_shows_its_percentage() -> None:
    line = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|████      | 4/10"
    assert advance(StageProgress(Stage.KV_CACHE), line) == StageProgress(Stage.WARM_UP, 40)


def test_a_second_bar_of_the_same_stage_does_not_go_back() -> None:
    done = StageProgress(Stage.WEIGHTS, 100)
    assert advance(done, "Loading safetensors checkpoint shards:   0% Completed | 0/2") == done


def test_a_percentage_beyond_the_whole_is_the_whole() -> None:
    line = "Loading safetensors checkpoint shards: 999% Completed"
    assert advance(StageProgress(Stage.WEIGHTS), line).percent == 100


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from([line for line, _, _ in REAL_START])), max_size=40))
def test_stages_only_move_forward(lines: list[str]) -> None:
    order = list(Stage)
    seen = [StageProgress(Stage.SPAWN)]
    for line in lines:
        seen.append(advance(seen[-1], line))
    for before, after in pairwise(seen):
        assert order.index(before.stage) <= order.index(after.stage) < order.index(Stage.READY)
        if before.stage is after.stage and before.percent is not None:
            assert after.percent is not None and after.percent >= before.percent
