"""Fixes: each button of a failure changes one thing, on top of what was changed before."""

from typing import Any

import pytest

from backend.errors import LaunchError
from backend.failure.failure import Fix, FixKind
from backend.launch.adjustments import Adjustments


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        (Fix(FixKind.CONTEXT, "896"), {"context": 896}),
        (Fix(FixKind.MEMORY_UTILIZATION, "0.85"), {"memory_utilization": 0.85}),
        (Fix(FixKind.MAX_SEQUENCES, "8"), {"max_sequences": 8}),
        (Fix(FixKind.BATCHED_TOKENS, "512"), {"max_batched_tokens": 512}),
        (Fix(FixKind.KV_CACHE_GIB, "2"), {"kv_cache_gib": 2.0}),
        (Fix(FixKind.DTYPE, "float16"), {"dtype": "float16"}),
        (Fix(FixKind.GPUS, "1"), {"gpus": 1}),
        (Fix(FixKind.QUANTIZATION, "none"), {"quantization": "none"}),
        (Fix(FixKind.EAGER, "true"), {"eager": True}),
        (Fix(FixKind.PORT, "8123"), {"port": 8123}),
        (Fix(FixKind.DROP_FLAG, "--swap-space"), {"dropped_flags": ("swap-space",)}),
        (Fix(FixKind.ENVIRONMENT, "v100"), {"environment": "v100"}),
        (Fix(FixKind.RETRY), {}),
    ],
)
def test_a_fix_changes_one_thing_and_keeps_the_others(fix: Fix, expected: dict[str, Any]) -> None:
    assert Adjustments(served := 4096).with_fix(fix) == Adjustments(**{"context": served, **expected})


def test_every_kind_of_fix_is_known() -> None:
    for kind in FixKind:
        assert isinstance(Adjustments().with_fix(Fix(kind, "1")), Adjustments)


def test_another_port_forgets_the_pinned_one() -> None:
    assert Adjustments(port=8100).with_fix(Fix(FixKind.PORT)) == Adjustments()


def test_a_flag_is_dropped_once() -> None:
    drop = Fix(FixKind.DROP_FLAG, "swap-space")
    assert Adjustments().with_fix(drop).with_fix(drop).dropped_flags == ("swap-space",)


@pytest.mark.parametrize(
    "fix",
    [Fix(FixKind.CONTEXT, "many"), Fix(FixKind.CONTEXT), Fix(FixKind.KV_CACHE_GIB, "-"), Fix(FixKind.DROP_FLAG, "--")],
)
def test_a_fix_without_a_usable_value_is_refused(fix: Fix) -> None:
    with pytest.raises(LaunchError):
        Adjustments().with_fix(fix)
