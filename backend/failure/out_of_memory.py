"""In which phase a card's memory ran out: by the calls of the traceback, else by what the log reached, else not known."""

import re
from collections.abc import Sequence

from backend.engine.stage import Stage
from backend.failure.log_lines import LogLine
from backend.failure.tracebacks import Chain

UNKNOWN_PHASE = "oom_unknown_phase"

_BY_CALL = (  # the first that was called decides: capture runs the model too, and a request does not profile
    (
        "oom_graphs",
        frozenset({"capture_model", "profile_cudagraph_memory", "_capture_cudagraphs", "capture_graphs"})
        | frozenset({"init_cuda_graphs", "init_device_graphs", "capture_one_batch_size"}),  # SGLang's
    ),
    ("oom_profiling", frozenset({"profile_run", "_dummy_sampler_run", "_dummy_pooler_run"})),
    (
        "oom_load",
        frozenset({"load_model", "load_weights", "initialize_model", "process_weights_after_loading"}),
    ),
    (UNKNOWN_PHASE, frozenset({"initialize_kv_cache", "initialize_kv_cache_tensors", "initialize_from_config"})),
    (UNKNOWN_PHASE, frozenset({"compile_or_warm_up_model", "kernel_warmup", "_dummy_run"})),
    ("oom_profiling", frozenset({"determine_available_memory"})),
    ("oom_prefill", frozenset({"execute_model", "sample_tokens"})),
)
_BY_LINE = (  # the last that was logged decides
    (re.compile(r"Starting to load model|Loading \w+ checkpoint shards"), "oom_load"),
    (re.compile(r"Model loading took"), "oom_profiling"),
    (re.compile(r"Available KV cache memory|GPU KV cache size"), UNKNOWN_PHASE),
    (re.compile(r"Capturing CUDA graph|Capture cuda graph begin"), "oom_graphs"),
    (re.compile(r"Graph capturing finished|Capture cuda graph end|Load weight end|Memory pool end"), UNKNOWN_PHASE),
    (re.compile(r"Application startup complete"), "oom_prefill"),
)
_BY_STAGE = {Stage.WEIGHTS: "oom_load"}
_CAPTURE = re.compile(r"Capture (?:cuda|CUDA) graph failed: ")  # SGLang raises it from what happened


def phase_rule(chain: Chain, lines: Sequence[LogLine], *, phase: Stage | None, was_ready: bool) -> str:
    """The rule for an exhausted card, by phase. `lines` are those before the error."""
    if any(_CAPTURE.match(raised.message[0]) for raised in chain.exceptions):
        return "oom_graphs"
    called = {frame.function for frame in chain.frames}
    for rule, calls in _BY_CALL:
        if called & calls:
            return rule
    if was_ready:
        return "oom_prefill"
    for line in reversed([line for line in lines if line.index < chain.index]):
        for pattern, rule in _BY_LINE:
            if pattern.search(line.text):
                return rule
    return _BY_STAGE.get(phase, UNKNOWN_PHASE) if phase else UNKNOWN_PHASE
