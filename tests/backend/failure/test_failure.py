"""A failure and what was asked survive being written down: both are part of an engine's record."""

from pydantic import TypeAdapter

from backend.engine.stage import Stage
from backend.failure.failure import Failure, Fix, FixKind, LaunchContext


def test_a_failure_is_read_back_as_it_was_written() -> None:
    adapter = TypeAdapter(Failure)
    failure = Failure(
        "kv_too_small",
        {"context": "32768"},
        line="ValueError: To serve",
        phase=Stage.KV_CACHE,
        last_lines=("a", "b"),
        fixes=(Fix(FixKind.CONTEXT, "896"), Fix(FixKind.RETRY)),
    )
    assert adapter.validate_json(adapter.dump_json(failure)) == failure


def test_what_was_asked_is_read_back_as_it_was_written() -> None:
    adapter = TypeAdapter(LaunchContext)
    context = LaunchContext(context=4096, memory_utilization=0.9, engine="volta", eager=True)
    assert adapter.validate_json(adapter.dump_json(context)) == context


def test_only_an_unknown_failure_is_not_known() -> None:
    assert Failure("killed").is_known
    assert not Failure("unknown").is_known
