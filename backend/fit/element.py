"""Sizes of number formats: as checkpoints, vLLM's flags and safetensors headers name them."""

from collections.abc import Mapping

GIB = 2**30

_DTYPE_BYTES: Mapping[str, int] = {
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
    "fp8_ds_mla": 1,
    "int8": 1,
}

SAFETENSORS_BITS: Mapping[str, int] = {
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "C64": 64,
    "F32": 32,
    "I32": 32,
    "U32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "U16": 16,
    "F8_E4M3": 8,
    "F8_E4M3FN": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "E8M0": 8,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
    "F4_E2M1": 4,
}
"""Bits of one element, by the name a safetensors header gives it."""

FLOAT_NAMES = frozenset({"F64", "F32", "F16", "BF16"})
"""Formats that an engine converts to the dtype it calculates in."""


def dtype_bytes(name: str) -> int | None:
    """Bytes of one element of this dtype; None where the name is not known."""
    return _DTYPE_BYTES.get(name.removeprefix("torch."))


def ceil_div(number: int, divisor: int) -> int:
    """Division of whole numbers, rounded up."""
    return -(-number // divisor)
