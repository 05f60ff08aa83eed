"""The header of a safetensors file: which tensors it holds and how large they are. Never their values.

File layout: 8 bytes little-endian header length, the header as JSON, then the tensors.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from backend.fit.element import SAFETENSORS_BITS
from backend.fit.facts_error import ModelFactsError

LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100 * 1000 * 1000  # the format's own limit
MOST_TENSORS = 1_000_000
_MOST_DIMS = 32


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a checkpoint."""

    name: str
    dtype: str  # as the header names it: BF16
    elements: int
    size_bytes: int


def header_length(prefix: bytes, *, file: str) -> int:
    """Bytes of the header, from the first eight of the file.

    Raises:
        ModelFactsError: this is no safetensors file.
    """
    if len(prefix) < LENGTH_BYTES:
        raise ModelFactsError(f"{file} is cut off: {len(prefix)} bytes.", hint="Download the model again.")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if not 2 <= length <= MOST_HEADER_BYTES:
        raise ModelFactsError(
            f"{file} is not a safetensors file: its header length reads {length}.", hint="Download the model again."
        )
    return length


def parse_header(header: bytes, *, file: str) -> tuple[TensorEntry, ...]:
    """The tensors that a header lists.

    Raises:
        ModelFactsError: the header is broken; names the file and the tensor.
    """
    try:
        table = json.loads(header)
    except (ValueError, RecursionError) as err:
        raise ModelFactsError(f"{file}: its header is not JSON: {err}.", hint="Download the model again.") from err
    if not isinstance(table, dict) or len(table) > MOST_TENSORS:
        raise ModelFactsError(f"{file}: its header is not a table of tensors.", hint="Download the model again.")
    return tuple(_entries(table, file))


def _entries(table: dict[str, object], file: str) -> Iterator[TensorEntry]:
    for name, entry in table.items():
        if name == "__metadata__":
            continue
        try:
            yield _entry(name, entry)
        except (KeyError, TypeError, ValueError) as err:
            raise ModelFactsError(
                f"{file}: the header's entry for {name[:200]} is broken: {err}.", hint="Download the model again."
            ) from err


def _entry(name: str, entry: object) -> TensorEntry:
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or len(shape) > _MOST_DIMS or not all(_is_count(number) for number in shape):
        raise ValueError("shape is not a list of whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(number) for number in offsets):
        raise ValueError("data_offsets is not a pair of whole numbers")
    dtype, size = str(entry["dtype"])[:32], offsets[1] - offsets[0]
    if size < 0:
        raise ValueError("data_offsets run backwards")
    elements = prod(shape)
    bits = SAFETENSORS_BITS.get(dtype)
    if bits is not None and elements * bits != size * 8:
        raise ValueError(f"{size} bytes for {elements} elements of {dtype}")
    return TensorEntry(name, dtype, elements, size)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 62


def read_header(path: Path) -> tuple[TensorEntry, ...]:
    """The tensors of a local file; reads its header only, and checks that the file is as long as it says.

    Raises:
        ModelFactsError: it cannot be read, is no safetensors file, or is cut off.
    """
    try:
        with path.open("rb") as file:
            length = header_length(file.read(LENGTH_BYTES), file=str(path))
            header = file.read(length)
        size = path.stat().st_size
    except OSError as err:
        raise ModelFactsError(f"{path} cannot be read: {err.strerror}.") from err
    if len(header) < length:
        raise ModelFactsError(f"{path} is cut off inside its header.", hint="Download the model again.")
    tensors = parse_header(header, file=str(path))
    needed = LENGTH_BYTES + length + sum(tensor.size_bytes for tensor in tensors)
    if size < needed:
        raise ModelFactsError(f"{path} is cut off: {size} of {needed} bytes.", hint="Download the model again.")
    return tensors
