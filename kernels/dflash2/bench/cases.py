"""What is benched: shapes of real models, with the work each op has to do on them."""

from __future__ import annotations

from dataclasses import dataclass

from dflash2.dispatch import HeadLayout, split_count
from dflash2.shapes import HALF_BYTES, AttentionShape
from dflash2.variants import KernelFamily

# Peaks of a V100 SXM2: 80 SMs, 8 tensor cores each, 64 multiply-adds a cycle, at 1530 MHz; four stacks of HBM2.
PEAK_FLOP_PER_S = 125.3e12
PEAK_BYTES_PER_S = 900e9
FLOAT_BYTES = 4


@dataclass(frozen=True)
class BenchCase:
    """One op on one shape. `splits` counts the pieces the keys are cut into (decode and merge)."""

    op: KernelFamily
    model: str
    shape: AttentionShape
    splits: int = 1

    @property
    def label(self) -> str:
        """The shape in words."""
        shape = self.shape
        heads = f"{self.model} D={shape.head_dim} {shape.query_heads}/{shape.kv_heads} heads"
        batch = f"{shape.sequences} x " if shape.sequences > 1 else ""
        lengths = {
            KernelFamily.PREFILL: f"{batch}{shape.query_tokens} tokens",
            KernelFamily.DECODE: f"{batch}{shape.query_tokens} token on {shape.context_tokens}",
            KernelFamily.MERGE: f"{self.splits} splits of {shape.sequences * shape.query_tokens} tokens",
            KernelFamily.KV_WRITE: f"{shape.sequences * shape.query_tokens} tokens",
        }
        return f"{heads}, {lengths[self.op]}"

    @property
    def flop(self) -> float:
        """Floating-point operations that the op cannot avoid."""
        return self.shape.causal_flop if self.op in (KernelFamily.PREFILL, KernelFamily.DECODE) else 0.0

    @property
    def moved_bytes(self) -> int:
        """Bytes that have to cross the memory bus at least once."""
        shape = self.shape
        rows = shape.sequences * shape.query_tokens
        query_or_output = rows * shape.query_heads * shape.head_dim * HALF_BYTES
        if self.op is KernelFamily.KV_WRITE:
            return 2 * 2 * rows * shape.kv_heads * shape.head_dim * HALF_BYTES
        if self.op is KernelFamily.MERGE:
            partial = self.splits * rows * shape.query_heads * (shape.head_dim + 2) * FLOAT_BYTES
            return partial + query_or_output
        return shape.kv_bytes + 2 * query_or_output

    @property
    def roofline_s(self) -> float:
        """The time no V100 can beat on this case."""
        return max(self.flop / PEAK_FLOP_PER_S, self.moved_bytes / PEAK_BYTES_PER_S)


@dataclass(frozen=True)
class ModelHeads:
    """Attention heads of a model."""

    name: str
    query_heads: int
    kv_heads: int
    head_dim: int


QWEN_27B = ModelHeads("Qwen3.5-27B", 24, 4, 256)
QWEN_8B = ModelHeads("Qwen3-8B", 32, 8, 128)
SMALL = ModelHeads("Llama-3.2-1B", 32, 8, 64)
USUAL_SPLITS = 20  # 4 KV heads x 20 splits fill 80 SMs


def all_cases() -> list[BenchCase]:
    """Prefill and decode of three models, then the ops around them."""
    cases = []
    for heads in (QWEN_27B, QWEN_8B, SMALL):
        cases += [_case(KernelFamily.PREFILL, heads, tokens, tokens) for tokens in (1024, 8192)]
        cases += [_decode_case(heads, context, sequences=1) for context in (8192, 65536)]
        cases.append(_decode_case(heads, 4096, sequences=32))
    cases += [_case(KernelFamily.MERGE, QWEN_27B, 1, 8192, splits=USUAL_SPLITS, sequences=count) for count in (1, 32)]
    cases += [_case(KernelFamily.KV_WRITE, QWEN_27B, tokens, tokens) for tokens in (32, 2048)]
    return cases


def _decode_case(heads: ModelHeads, context_tokens: int, *, sequences: int) -> BenchCase:
    layout = HeadLayout(heads.query_heads, heads.kv_heads, heads.head_dim)
    splits = split_count(layout, sequences=sequences, longest_query=1, longest_context=context_tokens)
    return _case(KernelFamily.DECODE, heads, 1, context_tokens, splits=splits, sequences=sequences)


def _case(
    op: KernelFamily, heads: ModelHeads, query_tokens: int, context_tokens: int, *, splits: int = 1, sequences: int = 1
) -> BenchCase:
    shape = AttentionShape(
        heads.query_heads, heads.kv_heads, heads.head_dim, query_tokens, context_tokens, sequences=sequences
    )
    return BenchCase(op, heads.name, shape, splits)
