"""What a config.json may leave out, because the engine's transformers fills it in by model type.

Only types whose published checkpoints do leave things out. Read from the configuration classes of the transformers release
that vLLM 0.19.1 runs with.
"""

from collections.abc import Mapping

_GEMMA3 = {
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
_GATED_DELTA = {
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "head_dim": 256,
}

MODEL_DEFAULTS: Mapping[str, Mapping[str, int | bool]] = {
    "gemma2": {
        **_GEMMA3,
        "vocab_size": 256000,
        "max_position_embeddings": 8192,
    },
    "gemma3_text": _GEMMA3,
    "gemma3n_text": {
        **_GEMMA3,
        "num_hidden_layers": 35,
        "num_key_value_heads": 2,
        "hidden_size": 2048,
        "intermediate_size": 16384,
        "vocab_size": 262400,
        "max_position_embeddings": 32768,
        "num_kv_shared_layers": 15,
    },
    "gemma4_text": {**_GEMMA3, "num_hidden_layers": 30, "global_head_dim": 512, "vocab_size": 262144},
    "cohere2": {"tie_word_embeddings": True, "vocab_size": 256000},
    "gpt_oss": {
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "vocab_size": 201088,
        "max_position_embeddings": 131072,
    },
    "qwen3": {"head_dim": 128},
    "qwen3_next": {**_GATED_DELTA, "num_key_value_heads": 2},
    "qwen3_5_text": _GATED_DELTA,
    "qwen3_5_moe_text": _GATED_DELTA,
    "llama4_text": {
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "vocab_size": 202048,
        "max_position_embeddings": 131072,
    },
}
