"""What an engine takes besides weights and KV cache. Formulas with their origin; a host's own offset corrects them.

Origin of the numbers: logs of other people's cards, of vLLM 0.6 to 0.23. Two starts of Llama-3.1-8B on a 3090 (2.4 GiB at
20,000 tokens a step, 3.3 at 29,000) and one of Llama-3-8B on an H100 (1.26 GiB activation at 1,024 sequences) come out
within 0.15 GiB. Nobody has measured on a V100 yet.
"""

from dataclasses import dataclass

from backend.fit.assumption import Assumption
from backend.fit.element import GIB
from backend.fit.layers import LayerKind
from backend.fit.model_facts import ModelFacts
from backend.fit.weights import calculation_bytes
from backend.fit.wish import FitWish
from backend.launch.engine_kind import EngineKind

NON_TORCH_BYTES = int(0.35 * GIB)  # cuBLAS, kernels and workspaces of one process
COMMUNICATION_BYTES = int(0.25 * GIB)  # NCCL buffers of a card that works with others
CONTEXT_BYTES = int(0.3 * GIB)  # the CUDA context, taken before the engine counts what is free
GRAPHS_BYTES = int(0.10 * GIB)  # CUDA graphs: 0.13 to 0.49 GiB seen
GRAPHS_LAYER_BYTES = int(0.006 * GIB)
CPU_PROCESSES_BYTES = int(1.85 * GIB)  # server, core and worker: 2.6 GB with SmolLM2 and 256 MB of KV cache
_LOGITS_COPIES_BYTES = 8  # a value beside the logits themselves: in float32, and their probabilities


@dataclass(frozen=True)
class Overheads:
    """Bytes on one card."""

    in_budget: int  # taken from what the utilization allows
    outside: int  # taken from the card besides
    activation: int  # of them: the peak of one step
    assumptions: tuple[Assumption, ...]

    @property
    def total(self) -> int:
        return self.in_budget + self.outside


def batched_tokens(wish: FitWish, *, card_bytes: int) -> int:
    """Tokens of one step: as asked for, else vLLM's default for a server on such a card."""
    if wish.batched_tokens is not None:
        return wish.batched_tokens
    default = 2048
    if wish.engine is not EngineKind.CPU and card_bytes >= 70 * GIB:
        default = 8192
    return max(1, min(default, sequences(wish, card_bytes=card_bytes) * wish.context))


def sequences(wish: FitWish, *, card_bytes: int) -> int:
    """Requests worked on at once: as asked for, else vLLM's default."""
    if wish.sequences is not None:
        return max(1, wish.sequences)
    if wish.engine is EngineKind.CPU:
        return 128
    return 1024 if card_bytes >= 70 * GIB else 256


def overheads(
    facts: ModelFacts, wish: FitWish, *, card_bytes: int, graphs_in_budget: bool, learned_bytes: int
) -> Overheads:
    """What an engine takes on one card besides weights and KV cache. `learned_bytes`: this host's offset."""
    activation = activation_peak(facts, wish, card_bytes=card_bytes)
    noted = [
        Assumption(
            "overhead_activation",
            activation,
            {
                "tokens": batched_tokens(wish, card_bytes=card_bytes),
                "sequences": sequences(wish, card_bytes=card_bytes),
            },
        )
    ]
    if wish.engine is EngineKind.CPU:
        noted.append(Assumption("overhead_processes", CPU_PROCESSES_BYTES))
        return _total(noted, activation + CPU_PROCESSES_BYTES, 0, activation, learned_bytes)
    inside, outside = activation + NON_TORCH_BYTES, CONTEXT_BYTES
    noted += [Assumption("overhead_non_torch", NON_TORCH_BYTES), Assumption("overhead_context", CONTEXT_BYTES)]
    if wish.gpus > 1:
        outside += COMMUNICATION_BYTES
        noted.append(Assumption("overhead_communication", COMMUNICATION_BYTES, {"gpus": wish.gpus}))
    if not wish.eager:
        graphs = GRAPHS_BYTES + GRAPHS_LAYER_BYTES * facts.layer_count
        noted.append(Assumption("overhead_graphs", graphs, {"layers": facts.layer_count}))
        inside, outside = (inside + graphs, outside) if graphs_in_budget else (inside, outside + graphs)
    if facts.has_vision and not wish.text_only:
        noted.append(Assumption("overhead_vision_not_counted"))
    return _total(noted, inside, outside, activation, learned_bytes)


def activation_peak(facts: ModelFacts, wish: FitWish, *, card_bytes: int) -> int:
    """Bytes of one full step at its largest: the widest layer for all tokens, or the logits of all sequences."""
    element = calculation_bytes(facts, wish)
    tokens = batched_tokens(wish, card_bytes=card_bytes)
    split = wish.gpus if wish.parallel == "tensor" else 1
    widest = 3 * facts.intermediate_size // split
    if facts.experts is not None:
        per_token = 3 * facts.experts.intermediate_size // split + facts.hidden_size
        widest = facts.experts.experts_per_token * per_token
    widest = max(widest, _attention_width(facts) // split)
    layer = tokens * (widest + 3 * facts.hidden_size) * element
    logits = sequences(wish, card_bytes=card_bytes) * facts.vocab_size * (element + _LOGITS_COPIES_BYTES)
    return max(layer, logits + tokens * facts.hidden_size * element)


def _attention_width(facts: ModelFacts) -> int:
    width = 2 * (facts.attention_heads + facts.kv_heads) * facts.head_dim
    states = [layer.state for layer in facts.kv_layers if layer.kind is LayerKind.RECURRENT and layer.state is not None]
    return max([width, *(2 * state.conv_channels for state in states[:1])])


def _total(noted: list[Assumption], inside: int, outside: int, activation: int, learned_bytes: int) -> Overheads:
    if learned_bytes:
        noted = [*noted, Assumption("overhead_learned", learned_bytes)]
    return Overheads(max(0, inside + learned_bytes), outside, activation, tuple(noted))
