"""What a checkpoint's tensors come to: bytes by part and by number format, as much as an estimate needs."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from backend.fit.element import FLOAT_NAMES, SAFETENSORS_BITS
from backend.fit.safetensors_header import TensorEntry

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,5})\.")
_EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embeddings)\.weight$")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.")
_VISION = re.compile(r"(?:^|\.)(?:visual|vision_tower|vision_model|vision_encoder|multi_modal_projector|audio_tower)\.")
_GUESSING = re.compile(r"(?:^|\.)mtp(?:_layers)?\.")
_NOT_COUNTED = re.compile(r"(scale|scales|scale_2|zero_point|qzeros|g_idx|scale_inv|_shape|amax)$")
_PACKED = {"I32": 8, "U8": 2, "F4": 1, "F4_E2M1": 1}  # parameters an element, where the weights have four bits


@dataclass(frozen=True)
class PartBytes:
    """Bytes of one part of the model, those that change with the dtype apart."""

    fixed: int = 0  # packed or quantized, and whole numbers: the same on the card
    float_elements: int = 0  # the engine converts these to the dtype it calculates in
    wide_elements: int = 0  # float32, which stays so beside quantized weights
    stored: int = 0  # on disk, all of them

    def on_card(self, *, element_bytes: int, is_quantized: bool) -> int:
        """Bytes after loading."""
        wide = 4 if is_quantized else element_bytes
        return self.fixed + self.float_elements * element_bytes + self.wide_elements * wide

    def __add__(self, other: "PartBytes") -> "PartBytes":
        return PartBytes(
            self.fixed + other.fixed,
            self.float_elements + other.float_elements,
            self.wide_elements + other.wide_elements,
            self.stored + other.stored,
        )


@dataclass(frozen=True)
class WeightTable:
    """The sizes of a checkpoint. `layers` by number, without those that only guess ahead."""

    layers: tuple[PartBytes, ...]
    embedding: PartBytes
    head: PartBytes  # empty where it is the embedding again
    vision: PartBytes  # pictures and sound
    guessing: PartBytes  # multi-token prediction; loaded only for speculation
    other: PartBytes
    parameters: int
    stored_bytes: int  # all tensors, as the files hold them
    largest_tensor_bytes: int
    is_exact: bool = True  # False: from the sizes of files whose tensors nobody looked at

    @property
    def always(self) -> PartBytes:
        """What is loaded whatever is asked for, without the picture part."""
        return sum(self.layers, self.embedding + self.head + self.other)


def weight_table(tensors: Iterable[TensorEntry], *, layer_count: int, is_tied: bool, has_packed: bool) -> WeightTable:
    """Sort tensors into parts. `has_packed`: the checkpoint packs several weights into one stored element."""
    parts: dict[int | str, PartBytes] = defaultdict(PartBytes)
    parameters = stored = largest = 0
    for tensor in tensors:
        part = _part_of(tensor.name, layer_count)
        stored += tensor.size_bytes
        largest = max(largest, tensor.size_bytes)
        if part == "head" and is_tied:
            continue
        parts[part] += _part_bytes(tensor)
        parameters += _parameters(tensor, has_packed)
    return WeightTable(
        layers=tuple(parts[number] for number in range(layer_count)),
        embedding=parts["embedding"],
        head=parts["head"],
        vision=parts["vision"],
        guessing=parts["guessing"],
        other=parts["other"],
        parameters=parameters,
        stored_bytes=stored,
        largest_tensor_bytes=largest,
    )


def table_of_file_sizes(size_bytes: int, *, element_bytes: int) -> WeightTable:
    """For weights in a format whose tensors are not looked into: all that is known is how long the files are."""
    everything = PartBytes(fixed=size_bytes, stored=size_bytes)
    nothing = PartBytes()
    return WeightTable(
        (), nothing, nothing, nothing, nothing, everything, size_bytes // element_bytes, size_bytes, 0, is_exact=False
    )


def _part_of(name: str, layer_count: int) -> int | str:
    if _GUESSING.search(name):
        return "guessing"
    if _VISION.search(name):
        return "vision"
    layer = _LAYER.search(name)
    if layer is not None:
        number = int(layer[1])
        return number if number < layer_count else "guessing"  # DeepSeek keeps its guessing layers behind the others
    if _EMBEDDING.search(name):
        return "embedding"
    return "head" if _HEAD.search(name) else "other"


def _part_bytes(tensor: TensorEntry) -> PartBytes:
    if tensor.dtype not in FLOAT_NAMES:
        return PartBytes(fixed=tensor.size_bytes, stored=tensor.size_bytes)
    if SAFETENSORS_BITS[tensor.dtype] > 16:
        return PartBytes(wide_elements=tensor.elements, stored=tensor.size_bytes)
    return PartBytes(float_elements=tensor.elements, stored=tensor.size_bytes)


def _parameters(tensor: TensorEntry, has_packed: bool) -> int:
    if _NOT_COUNTED.search(tensor.name):
        return 0
    return tensor.elements * (_PACKED.get(tensor.dtype, 1) if has_packed else 1)
