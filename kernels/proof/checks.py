"""The checks: each returns what it found; nothing here prints or decides the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from .cases import Case, Operator, extreme_cases, model_cases
from .problem import DEVICE, make_problem

MOST_ABSOLUTE_ERROR = 2e-3
MOST_RELATIVE_ERROR = 1e-3


@dataclass
class CheckResult:
    """How many cases a check ran, how the worst one did, and the failures in full."""

    check: str
    limit: float
    measure: str
    cases: int = 0
    worst: float = 0.0
    worst_case: str = ""
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: Case, error: float) -> None:
        """Count one case; NaN fails."""
        self.cases += 1
        if not error <= self.worst:
            self.worst, self.worst_case = error, case.name
        if not error <= self.limit:
            self.failures.append({"error": error, **asdict(case)})


def check_absolute(name: str, cases: Iterable[Case], seed: int) -> CheckResult:
    """Largest absolute difference to torch in FP32, on unit-normal inputs."""
    result = CheckResult(name, MOST_ABSOLUTE_ERROR, "largest absolute error")
    for index, case in enumerate(cases):
        problem = make_problem(case, seed + index)
        result.add(case, float((problem.attend().float() - problem.reference()).abs().max()))
    return result


def check_models(seed: int) -> CheckResult:
    """Model shapes."""
    return check_absolute("model shapes", model_cases(), seed)


def check_extremes(seed: int) -> CheckResult:
    """Norm-wise relative difference on inputs far from unit normal."""
    result = CheckResult("extreme values", MOST_RELATIVE_ERROR, "norm of the error / norm of the answer")
    for index, case in enumerate(extreme_cases()):
        problem = make_problem(case, seed + index)
        expected = problem.reference()
        result.add(case, float((problem.attend().float() - expected).norm() / expected.norm()))
    return result


def check_determinism(seed: int) -> CheckResult:
    """Bits that differ between two runs."""
    result = CheckResult("determinism", 0.0, "elements that differ between two runs")
    for index, case in enumerate(list(model_cases())[:20]):
        problem = make_problem(case, seed + index)
        result.add(case, float((problem.attend() != problem.attend()).sum()))
    return result


def check_graph_replay(seed: int) -> CheckResult:
    """A captured CUDA graph replayed after the tensors it captured got another batch's numbers."""
    result = CheckResult("CUDA graph replay", MOST_ABSOLUTE_ERROR, "largest absolute error after the change")
    for operator, splits in ((Operator.DECODE, 5), (Operator.PREFILL, 1)):
        queries = (1, 1, 1) if operator is Operator.DECODE else (40, 7, 100)
        case = Case(f"{operator} graph", operator, 128, queries, (900, 110, 300), 8, 2, splits=splits)
        captured, other = make_problem(case, seed), make_problem(replace(case, keys=(300, 900, 110)), seed + 1)
        captured.attend()  # loads the kernels outside of the capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = captured.attend()
        for name in ("query", "key_cache", "value_cache", "block_table", "query_start", "kv_length"):
            getattr(captured, name).copy_(getattr(other, name))
        graph.replay()
        result.add(case, float((output.float() - other.reference()).abs().max()))
    return result


def check_kv_write(seed: int) -> CheckResult:
    """Cache elements that differ from torch's own scatter, for both layouts and skipped tokens."""
    result = CheckResult("KV write", 0.0, "cache elements that differ from torch indexing")
    generator = torch.Generator(DEVICE).manual_seed(seed)
    for head_dim in (64, 96, 128, 192, 256):
        for tokens in (1, 37, 4096):
            name = f"{tokens} tokens of head dim {head_dim}"
            case = Case(name, Operator.PREFILL, head_dim, (tokens,), (tokens,), 4, 4)
            cache = torch.randn(tokens // 16 + 2, 2, 16, 4, head_dim, generator=generator, device=DEVICE).half()
            new = torch.randn(tokens, 2, 4, head_dim, generator=generator, device=DEVICE).half()
            slots = torch.randperm(cache.shape[0] * 16, generator=generator, device=DEVICE)[:tokens]
            slots[::5] = -1
            expected = cache.clone()
            kept = slots >= 0
            page, slot = slots[kept] // 16, slots[kept] % 16
            expected[page, 0, slot], expected[page, 1, slot] = new[kept, 0], new[kept, 1]
            torch.ops.dflash2.kv_write(new[:, 0], new[:, 1], cache[:, 0], cache[:, 1], slots)
            result.add(case, float((cache != expected).sum()))
    return result


CHECKS: dict[str, Callable[[int], CheckResult]] = {
    "models": check_models,
    "extremes": check_extremes,
    "determinism": check_determinism,
    "graphs": check_graph_replay,
    "kv_write": check_kv_write,
}
