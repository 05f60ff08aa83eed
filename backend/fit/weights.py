"""What a model's weights take on one card, while they are loaded and after."""

from dataclasses import dataclass

from backend.fit.assumption import Assumption
from backend.fit.checkpoint_format import is_packed
from backend.fit.element import ceil_div, dtype_bytes
from backend.fit.facts_error import ModelFactsError
from backend.fit.kv_layout import stage_counts
from backend.fit.model_facts import ModelFacts
from backend.fit.weight_table import PartBytes, WeightTable
from backend.fit.wish import FitWish
from backend.launch.engine_kind import EngineKind

REPACK_SHARE = 1 / 3
"""More than the weights while packed ones are rearranged: a 21 GB AWQ checkpoint peaked near 28 GB on one V100 32 GB."""

NVFP4_BYTES = 0.5625  # a parameter: four bits, and an 8-bit scale for every 16
_BYTES_A_PARAMETER = {"nvfp4": NVFP4_BYTES, "awq": 0.53, "gptq": 0.53, "fp8": 1.0, "int8": 1.0}
_AT_LOAD = "fp8"  # vLLM makes it of unquantized weights while it loads them


@dataclass(frozen=True)
class CardWeights:
    """Bytes on the fullest card."""

    resident: int  # after loading, without what is kept in main memory
    peak: int  # while loading
    offloaded: int  # kept in main memory instead
    assumptions: tuple[Assumption, ...]


def calculation_bytes(facts: ModelFacts, wish: FitWish) -> int:
    """Bytes of one number of what this launch calculates in."""
    if wish.dtype != "auto":
        return dtype_bytes(wish.dtype) or 2
    stored = dtype_bytes(facts.dtype or "") or 2
    return stored if wish.engine is EngineKind.CPU else min(2, stored)  # auto makes float16 of float32


def card_weights(facts: ModelFacts, wish: FitWish) -> CardWeights:
    """The weights of the fullest card.

    Raises:
        ModelFactsError: nothing is known of the model's weights.
    """
    table = facts.weights
    if table is None:
        raise ModelFactsError(
            f"Nothing is known of the weights of {facts.architecture or facts.model_type or 'the model'}.",
            hint="Its folder has no weight files.",
        )
    element = calculation_bytes(facts, wish)
    method = facts.quantization or (wish.quantization if wish.quantization not in (None, "none") else None)
    converts = facts.quantization is None and method is not None
    whole = _whole_bytes(table, wish, element=element, is_quantized=facts.quantization is not None)
    assumptions = [Assumption("weights_tensors" if table.is_exact else "weights_file_sizes", whole)]
    if converts and method in _BYTES_A_PARAMETER:
        whole = _converted(table, element=element, method=method)
        assumptions = [Assumption("weights_by_parameters", whole, {"parameters": table.parameters, "method": method})]
    share = _share(facts, table, wish, element=element, whole=whole)
    if share != whole:
        assumptions.append(Assumption(f"weights_{wish.parallel}_share", share, {"gpus": wish.gpus}))
    rotary = (facts.max_position or 0) * facts.rotary_dim * element
    if rotary:
        assumptions.append(Assumption("weights_rotary_table", rotary, {"positions": facts.max_position or 0}))
    resident = share + rotary + wish.draft_bytes
    if wish.draft_bytes:
        assumptions.append(Assumption("weights_draft", wish.draft_bytes))
    offloaded = min(wish.weights_offload_bytes, share)
    if offloaded:
        assumptions.append(Assumption("weights_offloaded", -offloaded))
    peak = _peak(table, resident, method=method, converts=converts, element=element, gpus=wish.gpus)
    return CardWeights(resident - offloaded, max(0, peak - offloaded), offloaded, tuple(assumptions))


def _parts(table: WeightTable, wish: FitWish) -> PartBytes:
    parts = table.always
    if not wish.text_only:
        parts += table.vision
    return parts + table.guessing if wish.uses_mtp else parts


def _whole_bytes(table: WeightTable, wish: FitWish, *, element: int, is_quantized: bool) -> int:
    return _parts(table, wish).on_card(element_bytes=element, is_quantized=is_quantized)


def _converted(table: WeightTable, *, element: int, method: str) -> int:
    """Embedding and head stay as they are; the layers get the method's width."""
    kept = (table.embedding + table.head).on_card(element_bytes=element, is_quantized=False)
    in_layers = table.parameters - kept // element
    return kept + int(max(0, in_layers) * _BYTES_A_PARAMETER[method])


def _share(facts: ModelFacts, table: WeightTable, wish: FitWish, *, element: int, whole: int) -> int:
    """What the fullest of several cards gets."""
    if wish.gpus <= 1:
        return whole
    if wish.parallel == "tensor":
        return ceil_div(whole, wish.gpus)
    if not table.layers:
        return ceil_div(whole, wish.gpus)
    is_quantized = facts.quantization is not None
    sizes = [part.on_card(element_bytes=element, is_quantized=is_quantized) for part in table.layers]
    scale = whole / max(1, _whole_bytes(table, wish, element=element, is_quantized=is_quantized))
    embedding = table.embedding.on_card(element_bytes=element, is_quantized=is_quantized)
    head = table.head.on_card(element_bytes=element, is_quantized=is_quantized) or embedding
    rest = max(0, int(whole / scale) - sum(sizes) - embedding - head) if scale else 0
    most, start = 0, 0
    stages = stage_counts(len(sizes), wish.gpus)
    for stage, count in enumerate(stages):
        here = sum(sizes[start : start + count])
        here += embedding + rest if stage == 0 else 0
        here += head if stage == len(stages) - 1 else 0
        most, start = max(most, here), start + count
    return int(most * scale)


def _peak(table: WeightTable, resident: int, *, method: str | None, converts: bool, element: int, gpus: int) -> int:
    if is_packed(method):
        return resident + int(resident * REPACK_SHARE)
    if converts and method == _AT_LOAD:
        return resident + table.largest_tensor_bytes * element
    return resident + table.largest_tensor_bytes // max(1, gpus)
