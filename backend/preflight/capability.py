"""A card's compute capability by its name, as NVIDIA's table of CUDA cards lists it. NVML's readings here carry none."""

import re

_BY_NAME: tuple[tuple[str, tuple[int, int]], ...] = (
    (r"V100|TITAN V\b|GV100|PG503|PG500", (7, 0)),
    (r"XAVIER", (7, 2)),
    (
        r"\bT4G?\b|\bT(?:400|500|550|600|1000|1200|2000)\b|RTX 20[5678]0|QUADRO RTX|TITAN RTX|GTX 16[5-6]0|CMP [345]0HX",
        (7, 5),
    ),
    (r"\bA100\b|\bA100X?-|\bA30X?\b|\bA800\b|CMP 170HX", (8, 0)),
    (r"ORIN", (8, 7)),
    (r"RTX A[2456]\d{3}|RTX A500\b|RTX A1000|\bA10[GM]?\b|\bA16\b|\bA2\b|\bA40\b|RTX 30[5-9]0|CMP [79]0HX", (8, 6)),
    (r"\bL40[SG]?\b|\bL4\b|\bL20\b|\bL2\b|RTX 40[5-9]0|RTX \d{4} ADA|RTX \d{3} ADA|ADA GENERATION", (8, 9)),
    (r"\bH100\b|\bH200\b|\bH800\b|\bH20\b|GH200|\bGH\d", (9, 0)),
    (r"\bG?B300\b", (10, 3)),
    (r"\bG?B200\b|\bB100\b", (10, 0)),
    (r"\bGB10\b", (12, 1)),
    (r"RTX 50[5-9]0|RTX PRO \d{3,4}.{0,12}BLACKWELL|BLACKWELL", (12, 0)),
    (r"\bP100\b|GP100", (6, 0)),
    (r"\bP40?\b|\bP4\b|GTX 10[5-8]0|TITAN XP?\b|QUADRO P\d", (6, 1)),
    (r"\bM40\b|\bM60\b|GTX 9[5-8]0", (5, 2)),
)
_TABLE = tuple((re.compile(pattern), capability) for pattern, capability in _BY_NAME)


def capability_of(name: str) -> tuple[int, int] | None:
    """The compute capability of a card of this name; None where the name is not in the table."""
    upper = name.upper()
    return next((capability for pattern, capability in _TABLE if pattern.search(upper)), None)
