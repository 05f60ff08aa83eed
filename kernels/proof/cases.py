"""The shapes that are proven: random ones, model shapes, extremes, and the smallest of each kernel."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from dflash2.dispatch import MOST_SPLITS
from dflash2.variants import HEAD_DIMS

PAGE_SIZES = (2, 5, 16, 16, 16, 32, 48, 64, 128, 256, 784)
GROUP_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)


class Operator(StrEnum):
    """Which attention operator a case runs."""

    PREFILL = "prefill"
    DECODE = "decode"


class CacheLayout(StrEnum):
    """Order of a page's dimensions in memory."""

    NHD = "token, head"
    HND = "head, token"


@dataclass(frozen=True)
class Case:
    """One attention problem: `queries[i]` new tokens and `keys[i]` cached tokens (the new included) a sequence."""

    name: str
    operator: Operator
    head_dim: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    query_heads: int
    kv_heads: int
    page_size: int = 16
    layout: CacheLayout = CacheLayout.NHD
    window: int = 0
    softcap: float = 0.0
    splits: int = 1
    amplitude: float = 1.0  # of queries and keys
    value_amplitude: float = 1.0


def random_cases(count: int, seed: int) -> Iterator[Case]:
    """`count` cases over every dimension the kernels claim to serve; the same seed gives the same cases."""
    rng = random.Random(seed)
    for index in range(count):
        yield _random_case(f"random {index}", rng)


def _random_case(name: str, rng: random.Random) -> Case:
    operator = rng.choice(list(Operator))
    sequences = rng.randint(1, 5)
    if operator is Operator.PREFILL:
        queries = tuple(_log_uniform(rng, 1, 400) for _ in range(sequences))
    else:
        longest = rng.choice((1, 1, 2, 4, 8))
        queries = tuple(rng.randint(1, longest) for _ in range(sequences))
    prefix_limit = 1500 if operator is Operator.PREFILL else 6000
    kv_heads = rng.choice((1, 2, 3, 4, 8))
    return Case(
        name=name,
        operator=operator,
        head_dim=rng.choice(HEAD_DIMS),
        queries=queries,
        keys=tuple(count + rng.choice((0, _log_uniform(rng, 1, prefix_limit))) for count in queries),
        query_heads=kv_heads * rng.choice(GROUP_SIZES),
        kv_heads=kv_heads,
        page_size=rng.choice(PAGE_SIZES),
        layout=rng.choice(list(CacheLayout)),
        window=rng.choice((0, 0, 0, _log_uniform(rng, 1, 1000))),
        softcap=rng.choice((0.0, 0.0, 0.0, 30.0, 50.0)),
        splits=rng.randint(1, MOST_SPLITS) if operator is Operator.DECODE else 1,
    )


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


_MODELS = (
    Case("Qwen3.x 27B", Operator.PREFILL, 256, (), (), 24, 4, page_size=784),
    Case("Qwen3 8B", Operator.PREFILL, 128, (), (), 32, 8),
    Case("Llama 3.2 1B", Operator.PREFILL, 64, (), (), 32, 8),
    Case("Phi-3 mini", Operator.PREFILL, 96, (), (), 32, 32),
    Case("Mistral 7B, window 4096", Operator.PREFILL, 128, (), (), 32, 8, window=4096),
    Case("Gemma 2 9B, window 4096, cap 50", Operator.PREFILL, 256, (), (), 16, 8, window=4096, softcap=50.0),
    Case("Gemma 3 27B, window 1024", Operator.PREFILL, 128, (), (), 32, 16, window=1024),
    Case("MLA-like head dim 192", Operator.PREFILL, 192, (), (), 16, 16, layout=CacheLayout.HND),
)


def model_cases() -> Iterator[Case]:
    """Shapes of real models: whole prompts, chunks after a prefix, decode of batches, speculation, long contexts."""
    for model in _MODELS:
        yield replace(model, name=f"{model.name}: prompt of 2048", queries=(2048,), keys=(2048,))
        yield replace(model, name=f"{model.name}: chunk of 512 after 7680", queries=(512,), keys=(8192,))
        yield replace(model, name=f"{model.name}: mixed prompts", queries=(1, 33, 700), keys=(5000, 33, 1200))
        decode = replace(model, operator=Operator.DECODE)
        yield replace(decode, name=f"{model.name}: decode at 8k", queries=(1,), keys=(8192,), splits=20)
        name = f"{model.name}: 4 speculated tokens"
        yield replace(decode, name=name, queries=(4,) * 3, keys=(4097, 60, 900), splits=7)
    qwen = replace(_MODELS[0], operator=Operator.DECODE)
    yield replace(qwen, name="Qwen3.x 27B: decode at 256k", queries=(1,), keys=(262144,), splits=20)
    yield replace(qwen, name="Qwen3.x 27B: batch of 256", queries=(1,) * 256, keys=tuple(range(1, 2049, 8)), splits=2)


# Values stay above the 6e-5 below which an FP16 output has no full precision, whoever computes it.
EXTREME_AMPLITUDES = ((1e-4, 1.0), (1.0, 0.02), (30.0, 30.0), (1000.0, 1000.0), (4000.0, 10000.0))


def extreme_cases() -> Iterator[Case]:
    """Numbers far from unit normal: scores that overflow a careless exp, and ones that vanish."""
    for operator, splits in ((Operator.PREFILL, 1), (Operator.DECODE, 6)):
        queries = (130, 7) if operator is Operator.PREFILL else (3, 1)
        for head_dim in HEAD_DIMS:
            for amplitude, values in EXTREME_AMPLITUDES:
                name = f"{operator} head dim {head_dim}, queries and keys * {amplitude:g}, values * {values:g}"
                case = Case(name, operator, head_dim, queries, (700, 350), 4, 2, splits=splits)
                yield replace(case, amplitude=amplitude, value_amplitude=values)


def smallest_cases() -> Iterator[Case]:
    """One small case for every attention kernel variant (the merge comes with split decode): for compute-sanitizer."""
    for head_dim in HEAD_DIMS:
        yield Case(f"prefill d{head_dim}", Operator.PREFILL, head_dim, (33, 2), (70, 40), 2, 1)
        yield Case(f"decode d{head_dim}", Operator.DECODE, head_dim, (1, 1), (150, 90), 4, 2, splits=3)
        yield Case(f"decode d{head_dim}, 12 rows", Operator.DECODE, head_dim, (3, 1), (150, 90), 4, 1, splits=2)
