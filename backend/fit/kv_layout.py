"""How an engine lays out a model's KV cache: the size of a block, its groups of layers, the bytes of a block on a card.

The same steps as vLLM's v1/core/kv_cache_utils.py: layers with equal specs form groups of equal size, all groups draw
blocks from one pool, so a block is as large as the largest group.
"""

from collections import Counter
from dataclasses import dataclass, replace
from math import lcm

from backend.fit.element import ceil_div
from backend.fit.kv_rules import KvRules
from backend.fit.layers import KvLayer, LayerKind
from backend.fit.model_facts import ModelFacts

_TOKEN_KINDS = frozenset({LayerKind.FULL, LayerKind.MLA})
_WINDOW_KINDS = frozenset({LayerKind.SLIDING, LayerKind.CHUNKED})


@dataclass(frozen=True)
class KvSettings:
    """What a launch says about its KV cache."""

    rules: KvRules
    element_bytes: int  # of the KV cache
    model_bytes: int  # of what the model calculates in
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    block_size: int | None = None  # tokens, as asked for; None: the engine's own
    batched_tokens: int = 2048  # of one step
    prefix_caching: bool | None = None  # None: the engine's own
    speculative_tokens: int = 0
    guessing_layers: int = 0  # attention layers of the model's own multi-token prediction, where it is used
    draft_layers: tuple[KvLayer, ...] = ()  # of another model that guesses
    hybrid_manager: bool | None = None  # None: the engine's own; off: window layers keep everything
    fp8_mla: bool = False  # sparse MLA in its 656-byte format


@dataclass(frozen=True)
class LayerSpec:
    """One kind of layer in this layout, on one card."""

    layer: KvLayer
    block: int  # tokens; of RECURRENT the engine's own number, which is no block of tokens
    page: int  # bytes of one block of one layer


@dataclass(frozen=True)
class LayerGroup:
    """Layers that share one table of blocks."""

    spec: LayerSpec
    groups: int  # how many groups of this kind
    layers: int  # in the largest of them, on the card that has most


@dataclass(frozen=True)
class KvLayout:
    """The layout of one model for one launch; the context is not part of it."""

    settings: KvSettings
    groups: tuple[LayerGroup, ...]
    block_size: int  # tokens of an attention block
    bytes_per_block: int  # on one card, of the pool all groups share
    caches_states: bool  # recurrent layers keep states for beginnings that come again
    refusal: str | None = None  # why this engine cannot lay the model out

    @property
    def group_count(self) -> int:
        return sum(group.groups for group in self.groups)

    @property
    def group_size(self) -> int:
        """Layers of the largest group on one card."""
        return max((group.layers for group in self.groups), default=0)

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of one layer, the largest."""
        return max((group.spec.page for group in self.groups), default=0)


def kv_layout(facts: ModelFacts, settings: KvSettings) -> KvLayout:
    """Lay out this model's KV cache. Pure."""
    layers = [*facts.kv_layers, *_guessing(facts, settings), *settings.draft_layers]
    refusal = None
    if not _keeps_kinds_apart(layers, settings):
        layers, refusal = _made_one_kind(layers)
    caches_states = _caches_states(layers, settings)
    block, page = _block_and_page(layers, settings, caches_states=caches_states)
    specs = {layer: _spec(layer, block, page, settings) for layer in dict.fromkeys(layers)}
    order = [specs[layer] for layer in layers]
    if not order:
        return KvLayout(settings, (), block, 0, caches_states)
    place = _one_group if _is_uniform(list(specs.values())) else _equal_groups
    groups, per_block, refused = place(order, settings)
    return KvLayout(settings, groups, block, per_block, caches_states, refusal or refused)


def _guessing(facts: ModelFacts, settings: KvSettings) -> list[KvLayer]:
    attending = [layer for layer in facts.kv_layers if layer.kind in _TOKEN_KINDS]
    return [attending[-1]] * settings.guessing_layers if attending else []


def _keeps_kinds_apart(layers: list[KvLayer], settings: KvSettings) -> bool:
    """Whether window layers free what left their window. vLLM leaves chunked local attention out unless told otherwise."""
    if settings.hybrid_manager is not None:
        return settings.hybrid_manager
    return not any(layer.kind is LayerKind.CHUNKED for layer in layers)


def _made_one_kind(layers: list[KvLayer]) -> tuple[list[KvLayer], str | None]:
    """Without the hybrid manager one table serves all layers: beside full layers, those with a window keep everything.

    Gives the layers, and why the engine refuses, if it does.
    """
    windows = {(layer.kind, layer.window) for layer in layers if layer.kind in _WINDOW_KINDS}
    others = {layer.kind for layer in layers} - _WINDOW_KINDS
    if LayerKind.RECURRENT in others:
        return layers, "one_kind_only" if windows or len(others) > 1 else None
    if not others:
        return layers, "one_kind_only" if len(windows) > 1 else None
    made = [replace(layer, kind=LayerKind.FULL, window=None) if layer.window else layer for layer in layers]
    return made, "one_window_only" if len(windows) > 1 else None


def _caches_states(layers: list[KvLayer], settings: KvSettings) -> bool:
    if settings.prefix_caching is None:
        return settings.rules.hybrid_prefix_caching
    return settings.prefix_caching


def _token_bytes(layer: KvLayer, settings: KvSettings) -> int:
    if settings.fp8_mla and layer.kind is LayerKind.MLA and layer.token_bytes is None:
        return 656
    return layer.bytes_per_token(element_bytes=settings.element_bytes, tensor_parallel=settings.tensor_parallel)


def state_bytes(layer: KvLayer, settings: KvSettings) -> int:
    """Bytes of one layer's state of one sequence on one card; 0 for a layer without."""
    if layer.state is None:
        return 0
    state = replace(layer.state, matrix_bytes=4) if settings.rules.wide_states else layer.state
    return state.state_bytes(
        element_bytes=settings.model_bytes,
        tensor_parallel=settings.tensor_parallel,
        speculative_tokens=settings.speculative_tokens,
    )


def _block_and_page(layers: list[KvLayer], settings: KvSettings, *, caches_states: bool) -> tuple[int, int]:
    """Tokens of an attention block, and bytes a state is padded to (0: not padded).

    Where a model has states, a block of attention has to be at least as large as one state.
    """
    rules = settings.rules
    attending = [layer for layer in layers if layer.kind is not LayerKind.RECURRENT]
    only_mla = bool(attending) and all(layer.kind is LayerKind.MLA for layer in attending)
    block = settings.block_size or (rules.mla_block if only_mla else rules.default_block)
    state = max((state_bytes(layer, settings) for layer in layers), default=0)
    if not state or not attending:
        return block, 0
    per_token = max(_token_bytes(layer, settings) for layer in attending)
    align = rules.mla_kernel_block if only_mla else rules.kernel_block
    if rules.aligns_to_block:
        align = max(align, block)
    recurrent = next(layer.state for layer in layers if layer.state is not None)
    if caches_states and rules.keeps_state_a_block and recurrent.keeps_every_block:
        align = lcm(recurrent.chunk or 256, align)
    block = max(block, align * ceil_div(state, align * per_token))
    return block, block * per_token


def _spec(layer: KvLayer, block: int, page: int, settings: KvSettings) -> LayerSpec:
    if layer.kind is LayerKind.RECURRENT:
        return LayerSpec(layer, block, max(page, state_bytes(layer, settings)))
    return LayerSpec(layer, block, block * _token_bytes(layer, settings))


def _is_uniform(specs: list[LayerSpec]) -> bool:
    """All layers need blocks for the same tokens, so one table serves them all, however wide each is."""
    kinds = {spec.layer.kind for spec in specs}
    if kinds <= _TOKEN_KINDS:
        return True
    if len(kinds) > 1:
        return False
    windows = {spec.layer.window for spec in specs}
    return len(windows) == 1 and (kinds != {LayerKind.RECURRENT} or len({spec.page for spec in specs}) == 1)


def _one_group(order: list[LayerSpec], settings: KvSettings) -> tuple[tuple[LayerGroup, ...], int, str | None]:
    stages = stage_counts(len(order), settings.pipeline_parallel)
    starts = [sum(stages[:stage]) for stage in range(len(stages))]
    per_stage = [order[start : start + count] for start, count in zip(starts, stages, strict=True)]
    per_block = max(sum(spec.page for spec in stage) for stage in per_stage)
    return (LayerGroup(order[0], 1, max(stages)),), per_block, None


def _equal_groups(order: list[LayerSpec], settings: KvSettings) -> tuple[tuple[LayerGroup, ...], int, str | None]:
    largest = max(spec.page for spec in order)
    made: dict[LayerSpec, LayerSpec] = {}
    refusal = None
    for spec in dict.fromkeys(order):
        made[spec], refused = _with_page(spec, largest, settings.rules)
        refusal = refusal or refused
    unified = [made[spec] for spec in order]
    counts = Counter(unified)
    least, most = min(counts.values()), max(counts.values())
    size = most if most < least * 1.5 else least
    groups = tuple(
        LayerGroup(spec, ceil_div(count, size), _on_fullest_card(unified, spec, ceil_div(count, size), settings))
        for spec, count in counts.items()
    )
    return groups, largest * max(group.layers for group in groups), refusal


def _with_page(spec: LayerSpec, page: int, rules: KvRules) -> tuple[LayerSpec, str | None]:
    """The same layer with pages of this size: more tokens a block where they divide, else padding."""
    if spec.page == page or spec.layer.kind is LayerKind.RECURRENT:
        return replace(spec, page=page), None
    if page % spec.page == 0:
        return replace(spec, block=spec.block * (page // spec.page), page=page), None
    can_pad = rules.pads_pages and spec.layer.kind is not LayerKind.MLA
    return replace(spec, page=page), None if can_pad else "pages_do_not_divide"


def _on_fullest_card(order: list[LayerSpec], spec: LayerSpec, groups: int, settings: KvSettings) -> int:
    """Layers of the largest group on the card that has most: a kind's layers are dealt round to its groups."""
    mine = [index for index, other in enumerate(order) if other == spec]
    if settings.pipeline_parallel == 1:
        return ceil_div(len(mine), groups)
    stages = stage_counts(len(order), settings.pipeline_parallel)
    most, start = 0, 0
    for count in stages:
        for group in range(groups):
            most = max(most, sum(start <= index < start + count for index in mine[group::groups]))
        start += count
    return max(1, most)


def stage_counts(layers: int, stages: int) -> list[int]:
    """Layers of each pipeline stage, as vLLM deals them: what is left over goes to stages before the last."""
    counts = [layers // stages] * stages
    for place in range(2, layers % stages + 2):
        counts[-place] += 1
    return counts
