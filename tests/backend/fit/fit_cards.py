"""Ready-made facts, wishes and cards for the tests of the estimate."""

from typing import Any

from backend.fit.model_facts import ModelFacts, with_tensors
from backend.fit.safetensors_header import parse_header
from backend.fit.wish import CardMemory
from tests.backend.fit.fit_files import SMOLLM, Tensors, header_bytes, llama_tensors
from tests.backend.fit.fit_models import GIB, facts

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
V100 = CardMemory(int(31.73 * GIB))
RAM = CardMemory(24 * GIB, 4 * GIB)


def weighed(config: dict[str, Any], tensors: Tensors | None = None, *, head: bool = True) -> ModelFacts:
    """Facts with the weights that a checkpoint of this shape has."""
    start, _ = header_bytes(llama_tensors(config, head=head) if tensors is None else tensors)
    return with_tensors(facts(config), parse_header(start[8:], file="model.safetensors"))


LLAMA = weighed(LLAMA_8B)
SMOL = weighed(SMOLLM, head=False)
