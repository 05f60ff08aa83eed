"""KV cache in numbers: the blocks a request needs, the tokens a budget holds, as the engine itself logs them."""

from dataclasses import dataclass

from backend.fit.element import ceil_div
from backend.fit.kv_layout import KvLayout, LayerGroup, state_bytes
from backend.fit.kv_rules import KvReporting
from backend.fit.layers import LayerKind, RecurrentKind
from backend.fit.model_facts import ModelFacts


@dataclass(frozen=True)
class KvPerToken:
    """What one more token costs on one card, and what does not grow."""

    growing_bytes: int  # layers that keep every token
    all_layers_bytes: int  # as if window layers kept every token too: what simpler estimates say
    state_bytes: int  # of all recurrent layers, a sequence


def blocks_per_request(layout: KvLayout, context: int) -> int:
    """Blocks that one request of this many tokens takes from the pool."""
    return sum(group.groups * _blocks_of_group(group, layout, context) for group in layout.groups)


def request_bytes(layout: KvLayout, context: int) -> int:
    """Bytes on one card that one request of this many tokens takes."""
    return blocks_per_request(layout, context) * layout.bytes_per_block


def kv_bytes_needed(layout: KvLayout, context: int, *, sequences: int = 1) -> int:
    """Bytes of KV cache on one card so that this many requests of full length are worked on at once."""
    spare = layout.settings.rules.spare_blocks if layout.groups else 0
    return (blocks_per_request(layout, context) * sequences + spare) * layout.bytes_per_block


def block_count(layout: KvLayout, budget_bytes: int) -> int:
    """Blocks of the pool that a budget on each card holds."""
    return max(0, budget_bytes) // layout.bytes_per_block if layout.bytes_per_block else 0


def concurrency(layout: KvLayout, context: int, *, budget_bytes: int) -> float | None:
    """Requests of full length that a budget holds at once; None for a model that keeps nothing."""
    needed = blocks_per_request(layout, context)
    return block_count(layout, budget_bytes) / needed if needed else None


def logged_tokens(layout: KvLayout, context: int, *, budget_bytes: int) -> int | None:
    """The N of the engine's "KV cache size: N tokens" for this budget; None for a model that keeps nothing."""
    requests = concurrency(layout, context, budget_bytes=budget_bytes)
    if requests is None:
        return None
    if layout.settings.rules.reporting is KvReporting.REQUESTS:
        return int(requests * context)
    return block_count(layout, budget_bytes) // layout.group_count * _least_block(layout, context)


def budget_for_tokens(layout: KvLayout, context: int, *, sequences: int) -> int:
    """The least budget on each card under which the engine starts and holds this many requests of full length."""
    return kv_bytes_needed(layout, context, sequences=max(1, sequences))


def kv_per_token(facts: ModelFacts, layout: KvLayout) -> KvPerToken:
    """What a token costs on one card when every layer is there."""
    settings = layout.settings
    growing = all_layers = state = 0
    for layer in facts.kv_layers:
        size = layer.bytes_per_token(element_bytes=settings.element_bytes, tensor_parallel=settings.tensor_parallel)
        all_layers += size
        growing += size if layer.kind in (LayerKind.FULL, LayerKind.MLA) else 0
        state += state_bytes(layer, settings)
    return KvPerToken(growing, all_layers, state)


def _blocks_of_group(group: LayerGroup, layout: KvLayout, context: int) -> int:
    layer, block = group.spec.layer, group.spec.block
    settings = layout.settings
    if layer.kind is LayerKind.RECURRENT:
        return _state_blocks(group, layout, context)
    if layer.window is None:
        return ceil_div(context, block)
    in_flight = settings.rules.in_flight_steps * settings.batched_tokens
    if layer.kind is LayerKind.CHUNKED:
        return ceil_div(min(layer.window + in_flight, context), block)
    # One more: a window need not begin where a block does.
    return ceil_div(min(layer.window - 1 + in_flight, context), block) + 1


def _state_blocks(group: LayerGroup, layout: KvLayout, context: int) -> int:
    settings, state = layout.settings, group.spec.layer.state
    guesses = settings.speculative_tokens
    if not layout.caches_states:
        return 1 + guesses
    if settings.rules.keeps_state_a_block and state is not None and state.keeps_every_block:
        return ceil_div(context, group.spec.block) + (guesses if settings.rules.guesses_beside_blocks else 0)
    is_mamba2 = state is not None and state.kind is RecurrentKind.MAMBA2
    return 2 + guesses + (settings.rules.mamba2_checkpoints if is_mamba2 else 0)


def _least_block(layout: KvLayout, context: int) -> int:
    """Tokens of the smallest block; that of a state that is not cached counts as the whole context."""
    return min(
        context if group.spec.layer.kind is LayerKind.RECURRENT and not layout.caches_states else group.spec.block
        for group in layout.groups
    )
