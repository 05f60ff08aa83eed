"""All rules over one situation. Pure, and well below 5 ms."""

from collections.abc import Callable, Iterator

from backend.preflight import (
    rules_cards,
    rules_environment,
    rules_fit,
    rules_formats,
    rules_host,
    rules_model,
    rules_prefix,
    rules_service,
)
from backend.preflight.finding import RANK, Finding, Severity
from backend.preflight.situation import Situation

Rule = Callable[[Situation], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *rules_environment.RULES,
    *rules_cards.RULES,
    *rules_model.RULES,
    *rules_formats.RULES,
    *rules_fit.RULES,
    *rules_host.RULES,
    *rules_service.RULES,
    *rules_prefix.RULES,
)


def examine(situation: Situation) -> tuple[Finding, ...]:
    """Everything that speaks against this launch, the worst first; equal ones in the order of the rules."""
    found = (finding for rule in RULES for finding in rule(situation))
    return tuple(sorted(found, key=lambda finding: RANK[finding.severity]))


def worst(findings: tuple[Finding, ...]) -> Severity | None:
    """How bad it is altogether; None: nothing speaks against it."""
    return min((finding.severity for finding in findings), key=RANK.__getitem__, default=None)
