"""A case as tensors on the card, with every unused cache slot NaN, and the answer by torch in FP32."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from dflash2 import ops
from dflash2.dispatch import HeadLayout

from .cases import CacheLayout, Case, Operator

DEVICE = torch.device("cuda")
_SPARE_PAGES = 3


@dataclass
class Problem:
    """Tensors of one case; keys and values are kept by sequence for the reference."""

    case: Case
    query: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    key_cache: torch.Tensor
    value_cache: torch.Tensor
    block_table: torch.Tensor
    query_start: torch.Tensor
    kv_length: torch.Tensor
    workspace: torch.Tensor

    @property
    def scale(self) -> float:
        """Softmax scale."""
        return float(self.case.head_dim**-0.5)

    def attend(self) -> torch.Tensor:
        """Run the operator; the output starts as NaN."""
        case, output = self.case, torch.full_like(self.query, float("nan"))
        batch = (self.query, self.key_cache, self.value_cache, self.block_table, self.query_start, self.kv_length)
        score = (self.scale, case.softcap, case.window)
        longest = max(case.queries)
        if case.operator is Operator.PREFILL:
            torch.ops.dflash2.prefill_attention(*batch, output, longest, *score)
        else:
            torch.ops.dflash2.decode_attention(*batch, output, self.workspace, longest, case.splits, *score)
        return output

    def reference(self) -> torch.Tensor:
        """softmax(f(scale q.k)) v in FP32, a sequence at a time."""
        case, rows = self.case, []
        for index, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            first = int(sum(case.queries[:index]))
            query = self.query[first : first + case.queries[index]].float()
            rows.append(_attention(query, keys.float(), values.float(), case, self.scale))
        return torch.cat(rows)


def _attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, case: Case, scale: float
) -> torch.Tensor:
    group = case.query_heads // case.kv_heads
    grouped = query.unflatten(1, (case.kv_heads, group))
    scores = torch.einsum("qhgd,khd->hgqk", grouped, keys) * scale
    if case.softcap:
        scores = case.softcap * torch.tanh(scores / case.softcap)
    position = torch.arange(len(query), device=DEVICE)[:, None] + len(keys) - len(query)
    behind = position - torch.arange(len(keys), device=DEVICE)[None]
    hidden = (behind < 0) | (behind >= case.window if case.window else torch.zeros_like(behind, dtype=torch.bool))
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hgqk,khd->qhgd", weights, values).flatten(1, 2)


def make_problem(case: Case, seed: int) -> Problem:
    """Fill a case with normal numbers. Pages lie in random order; unused table entries name a page past the cache."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def normal(amplitude: float, *size: int) -> torch.Tensor:
        return (torch.randn(size, generator=generator, device=DEVICE) * amplitude).half()

    tokens, row = sum(case.queries), case.query_heads * case.head_dim
    fused = normal(case.amplitude, tokens, row + 128)  # queries are a slice of it, as of an engine's fused projection
    query = fused[:, :row].view(tokens, case.query_heads, case.head_dim)
    keys = [normal(case.amplitude, count, case.kv_heads, case.head_dim) for count in case.keys]
    values = [normal(case.value_amplitude, count, case.kv_heads, case.head_dim) for count in case.keys]
    pages_a_row = -(-max(case.keys) // case.page_size)
    used = sum(-(-count // case.page_size) for count in case.keys)
    page_count = used + _SPARE_PAGES
    order = torch.randperm(page_count, generator=generator, device=DEVICE).int()
    block_table = torch.full((len(case.keys), pages_a_row), page_count, dtype=torch.int32, device=DEVICE)
    cache = _empty_cache(case, page_count)
    taken = 0
    for index, count in enumerate(case.keys):
        pages = -(-count // case.page_size)
        block_table[index, :pages] = order[taken : taken + pages]
        taken += pages
        oldest = max(0, count - case.queries[index] - case.window + 1) if case.window else 0
        token = torch.arange(oldest, count, device=DEVICE)
        page, slot = block_table[index, token // case.page_size].long(), token % case.page_size
        cache[0][page, slot], cache[1][page, slot] = keys[index][oldest:], values[index][oldest:]
    starts = torch.tensor([0, *case.queries], device=DEVICE).cumsum(0).int()
    lengths = torch.tensor(case.keys, dtype=torch.int32, device=DEVICE)
    heads = HeadLayout(case.query_heads, case.kv_heads, case.head_dim)
    workspace = ops.new_workspace(tokens, heads, case.splits, DEVICE).fill_(float("nan"))
    return Problem(case, query, keys, values, *cache, block_table, starts, lengths, workspace)


def _empty_cache(case: Case, pages: int) -> tuple[torch.Tensor, torch.Tensor]:
    """NaN caches seen as [page][slot][head][dim], in the case's memory order."""
    inner = [case.page_size, case.kv_heads] if case.layout is CacheLayout.NHD else [case.kv_heads, case.page_size]
    memory = torch.full((pages, 2, *inner, case.head_dim), float("nan"), dtype=torch.float16, device=DEVICE)
    sides = memory[:, 0], memory[:, 1]
    if case.layout is CacheLayout.HND:
        return sides[0].transpose(1, 2), sides[1].transpose(1, 2)
    return sides
