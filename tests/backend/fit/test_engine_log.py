"""The engine's own lines, as vLLM writes them from 0.6 to 0.32."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.fit.engine_log import EngineFigures, gib, read_figures

LOGS = Path(__file__).with_name("logs")


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        (
            "INFO [gpu_model_runner.py:4820] Model loading took 14.99 GiB memory and 3.2 seconds",
            {"weights_bytes": 14.99},
        ),
        ("INFO [model_runner.py:292] Model loading took 15.2 GiB and 3.2 seconds", {"weights_bytes": 15.2}),
        ("INFO [model_runner.py:1115] Loading model weights took 14.9888 GB", {"weights_bytes": 14.9888}),
        ("INFO [gpu_worker.py:436] Available KV cache memory: 9.84 GiB", {"kv_bytes": 9.84}),
        ("INFO [gpu_worker.py:436] Available KV cache memory: -1.5 GiB", {"kv_bytes": -1.5}),
        ("INFO [cpu_worker.py:260] Explicitly set (0.28/23.54) GiB for KV cache on node 0.", {"kv_bytes": 0.28}),
        ("INFO Auto set (12.5/23.54) GiB for KV cache on node 0, with 20 GiB requested memory", {"kv_bytes": 12.5}),
        (
            "Initial free memory 31.2 GiB, reserved 4.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes",
            {"kv_bytes": 4.0},
        ),
        ("INFO Graph capturing finished in 5 secs, took 0.49 GiB", {"graphs_bytes": 0.49}),
        ("INFO Estimated CUDA graph memory: 0.31 GiB total", {"graphs_estimated_bytes": 0.31}),
        (
            "CUDA graph pool memory: 0.2 GiB (actual), 0.31 GiB (estimated), difference: 0.11 GiB",
            {"graphs_bytes": 0.2, "graphs_estimated_bytes": 0.31},
        ),
        (
            "ValueError: Free memory on device cuda:0 (8.12/31.73 GiB) on startup is less than desired GPU memory",
            {"free_bytes": 8.12, "total_bytes": 31.73},
        ),
        (
            "the current vLLM instance can use total_gpu_memory (31.73GiB) x gpu_memory_utilization (0.90) = 28.56GiB; "
            "model weights take 14.99GiB; non_torch_memory takes 0.08GiB; PyTorch activation peak memory takes "
            "1.23GiB; the rest of the memory reserved for KV Cache is 12.25GiB.",
            {"total_bytes": 31.73, "weights_bytes": 14.99, "kv_bytes": 12.25},
        ),
    ],
)
def test_a_line_with_sizes(line: str, figures: dict[str, float]) -> None:
    found = read_figures([line])
    assert found == EngineFigures(**{name: gib(str(size)) for name, size in figures.items()})


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("GPU KV cache size: 31,232 tokens", {"kv_tokens": 31_232}),
        ("GPU + host KV cache size: 900 tokens", {"kv_tokens": 900}),
        (
            "CPU KV cache size: 12,600 tokens, Maximum concurrency for 900 tokens per request: 14.00x",
            {"kv_tokens": 12_600, "context": 900, "concurrency": 14.0},
        ),
        ("Maximum concurrency for 20,000 tokens per request: 1.56x", {"context": 20_000, "concurrency": 1.56}),
        ("Setting attention block size to 784 tokens to ensure that attention page size is", {"block_size": 784}),
        ("Setting kv cache block size to 64 for FLASHMLA backend.", {"block_size": 64}),
        ("# cuda blocks: 1952, # CPU blocks: 512", {"blocks": 1952}),
        ("nothing of interest", {}),
        ("Engine 000: GPU KV cache usage: 0.0%, Prefix cache hit rate: 43.2%, 3.8 tokens/s", {}),
    ],
)
def test_a_line_with_counts(line: str, figures: dict[str, float]) -> None:
    assert read_figures([line]) == EngineFigures(**figures)  # type: ignore[arg-type]


def test_of_several_workers_the_one_with_least_room_counts() -> None:
    lines = ["Available KV cache memory: 9.84 GiB", "Available KV cache memory: 9.71 GiB"]
    lines += ["Model loading took 10.1 GiB memory", "Model loading took 10.3 GiB memory"]
    found = read_figures(lines)
    assert (found.kv_bytes, found.weights_bytes) == (gib("9.71"), gib("10.3"))


def test_a_refusal_tells_what_is_needed_and_what_would_fit() -> None:
    found = read_figures((LOGS / "cpu-0.32.0-refused.log").read_text(encoding="utf-8").splitlines())
    assert (found.needed_bytes, found.kv_bytes) == (gib("0.35"), gib("0.28"))
    assert (found.context, found.longest_context) == (8192, 6464)
    assert not found.is_complete


@given(st.lists(st.text(max_size=200) | st.sampled_from(["GiB tokens blocks ", "KV cache size: , tokens"]), max_size=5))
def test_no_line_breaks_it(lines: list[str]) -> None:
    read_figures(lines)
