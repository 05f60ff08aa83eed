"""How vLLM's flags look on a command line: which stand alone, which take several words, and their short names.

The union over 0.19.1, 0.23.0 and 0.32.0; a test compares it with those versions' own help. A flag that is in none of these
sets takes one word. Importing needs it: a pasted command does not say which vLLM it was written for.
"""

from collections.abc import Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BOOLEAN_FLAGS = _names(
    """
    aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling calculate-kv-scales
    cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb
    data-parallel-multi-port-external-lb dcp-q-replicate disable-cascade-attn disable-chunked-mm-input
    disable-custom-all-reduce disable-fastapi-docs disable-hybrid-kv-cache-manager disable-log-stats
    disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log enable-auto-tool-choice
    enable-batch-sharded-sampling enable-chunked-prefill enable-cumem-allocator enable-dbo enable-elastic-ep
    enable-ep-weight-filter enable-eplb enable-expert-parallel enable-fault-tolerance enable-flash-late-interaction
    enable-flashinfer-autotune enable-force-include-usage enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas
    enable-log-outputs enable-log-requests enable-logging-iteration-details enable-lora
    enable-mamba-cache-stochastic-rounding enable-mamba-shared-prefix-checkpoint enable-mfu-metrics
    enable-mixed-moe-lora-format enable-mm-embeds enable-moe-shared-loras enable-nccl-comm-suspend enable-offline-docs
    enable-per-request-metrics enable-prefix-caching enable-prompt-embeds enable-prompt-tokens-details
    enable-request-id-headers enable-return-routed-experts enable-scale-out enable-server-load-tracking
    enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint
    enable-tower-connector-lora enable-trace-replay enforce-eager exclude-tools-when-tool-choice-none
    fail-on-environ-validation fully-sharded-loras grpc headless help interleave-mm-strings jit-monitor-verbose
    kv-cache-metrics kv-sharing-fast-prefill language-model-only log-error-stack
    long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only numa-bind ray-workers-use-nsight
    return-sampling-mask return-tokens-as-token-ids scheduler-reserve-full-isl skip-mm-profiling skip-tokenizer-init
    sleep-mode-offload-cudagraph specialize-active-lora swa-bounded-replay tokens-only trust-remote-code
    trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel use-replayssm use-tqdm-on-load
    """
)

OLD_BOOLEAN_FLAGS = _names(
    """
    disable-async-output-proc disable-frontend-multiprocessing disable-log-requests
    disable-logprobs-during-spec-decoding disable-mm-preprocessor-cache enable-lora-bias
    enable-multimodal-encoder-data-parallel enable-prompt-adapter enable-reasoning engine-use-ray
    guided-decoding-disable-additional-properties guided-decoding-disable-any-whitespace
    guided-decoding-disable-fallback multi-step-stream-outputs speculative-disable-mqa-scorer use-v2-block-manager
    worker-use-ray
    """
)
"""Of earlier versions; people still paste them."""

LIST_FLAGS = _names(
    """
    allowed-media-domains api-key collect-detailed-traces cpu-offload-params cudagraph-capture-sizes ignore-patterns
    kv-cache-dtype-skip-layers logits-processors lora-modules lora-target-modules numa-bind-cpus numa-bind-nodes
    offload-params served-model-name sleep-preserve-parameter-names
    """
)

SHORT_FLAGS: Mapping[str, str] = {
    "ac": "attention-config",
    "asc": "api-server-count",
    "cc": "compilation-config",
    "dc": "diffusion-config",
    "dcp": "decode-context-parallel-size",
    "dp": "data-parallel-size",
    "dpa": "data-parallel-address",
    "dpb": "data-parallel-backend",
    "dpe": "data-parallel-external-lb",
    "dph": "data-parallel-hybrid-lb",
    "dpl": "data-parallel-size-local",
    "dpm": "data-parallel-multi-port-external-lb",
    "dpn": "data-parallel-rank",
    "dpp": "data-parallel-rpc-port",
    "dpr": "data-parallel-start-rank",
    "ep": "enable-expert-parallel",
    "h": "help",
    "n": "nnodes",
    "pcp": "prefill-context-parallel-size",
    "pp": "pipeline-parallel-size",
    "q": "quantization",
    "r": "node-rank",
    "sc": "speculative-config",
    "tp": "tensor-parallel-size",
}
