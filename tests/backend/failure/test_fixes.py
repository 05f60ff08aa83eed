"""The values on the buttons are computed from the message and from what was asked, never guessed where neither tells."""

from backend.failure.failure import Fix, FixKind, LaunchContext
from backend.failure.fixes import fixes_for


def fixes(rule: str, values: dict[str, str] | None = None, **context: object) -> dict[str, str]:
    found = fixes_for(rule, values or {}, LaunchContext(**context))  # type: ignore[arg-type]
    return {fix.kind.value: fix.value for fix in found}


def test_a_context_is_lowered_to_what_the_message_says_fits() -> None:
    assert fixes("context_too_long", {"limit": "2048"}) == {"context": "2048"}
    assert fixes("kv_too_small", {"limit": "896", "needed": "8.0"}, engine="cuda", memory_utilization=0.95) == {
        "context": "896"
    }


def test_a_context_too_short_to_talk_in_is_not_offered() -> None:
    assert fixes("kv_too_small", {"limit": "16", "needed": "0.3"}, engine="cuda", memory_utilization=0.95) == {}


def test_a_small_kv_cache_grows_on_a_cpu_by_its_size_and_on_a_card_by_its_share() -> None:
    values = {"limit": "896", "needed": "1.13"}
    assert fixes("kv_too_small", values, engine="cpu", kv_cache_gib=0.5)["kv_cache_gib"] == "1.25"
    assert fixes("kv_too_small", values, engine="volta", memory_utilization=0.85)["memory_utilization"] == "0.90"
    assert "memory_utilization" not in fixes("kv_too_small", values, engine="volta", memory_utilization=0.97)


def test_a_kv_cache_that_is_too_big_is_lowered_below_what_is_free() -> None:
    assert fixes("kv_too_big", {"available": "17.93"}) == {"kv_cache_gib": "8.75"}
    assert fixes("kv_too_big", {"available": "0.2"}) == {}
    assert fixes("kv_too_big", {"available": "a lot"}) == {}


def test_a_card_in_use_gives_the_share_that_is_free_rounded_down() -> None:
    assert fixes("gpu_memory_taken", {"free": "20.31", "total": "31.73"}) == {"memory_utilization": "0.64"}
    assert fixes("gpu_memory_taken", {"free": "0.5", "total": "31.73"}) == {}
    assert fixes("gpu_memory_taken", {"free": "1", "total": "0"}) == {}


def test_the_number_of_cards_becomes_the_largest_that_divides_the_heads() -> None:
    assert fixes("tensor_parallel_indivisible", {"heads": "9", "gpus": "2"}) == {"gpus": "1"}
    assert fixes("tensor_parallel_indivisible", {"heads": "24", "gpus": "7"}) == {"gpus": "6"}
    assert fixes("tensor_parallel_indivisible", {"heads": "24", "gpus": "999999999"}) == {}


def test_cards_that_are_not_there_are_not_asked_for_again() -> None:
    assert fixes("too_few_gpus", {"available": "2"}) == {"gpus": "2"}
    assert fixes("too_few_gpus", {"available": "0"}) == {}


def test_each_unknown_flag_can_be_dropped() -> None:
    found = fixes_for("unknown_flag", {"flags": "--swap-space 4 --preemption-mode=swap --swap-space"}, LaunchContext())
    assert found == (Fix(FixKind.DROP_FLAG, "swap-space"), Fix(FixKind.DROP_FLAG, "preemption-mode"))


def test_flags_that_every_launch_needs_are_not_dropped() -> None:
    assert fixes("bad_flag_value", {"flag": "max-model-len"}) == {}
    assert fixes("bad_flag_value", {"flag": "seed"}) == {"drop_flag": "seed"}


def test_a_prefill_gets_steps_of_512_and_then_smaller_ones() -> None:
    assert fixes("oom_prefill", batched_tokens=8192)["batched_tokens"] == "512"
    assert fixes("oom_prefill")["batched_tokens"] == "512"
    assert fixes("oom_prefill", batched_tokens=512)["batched_tokens"] == "256"
    assert "batched_tokens" not in fixes("oom_prefill", batched_tokens=128)


def test_a_step_is_never_made_smaller_than_the_requests_at_once() -> None:
    assert fixes("oom_prefill", max_sequences=1024)["batched_tokens"] == "1024"
    assert fixes("oom_prefill", batched_tokens=8192, max_sequences=16)["batched_tokens"] == "512"
    assert fixes("oom_prefill", batched_tokens=512, max_sequences=384)["batched_tokens"] == "384"
    assert "batched_tokens" not in fixes("oom_prefill", batched_tokens=1024, max_sequences=1024)


def test_steps_smaller_than_the_context_are_raised_to_it_where_the_engine_asks_for_that() -> None:
    found = fixes_for("bad_flag_value", {"flag": "max-num-batched-tokens", "least": "2048"}, LaunchContext())
    assert found == (Fix(FixKind.BATCHED_TOKENS, "2048"), Fix(FixKind.DROP_FLAG, "max-num-batched-tokens"))


def test_a_context_beyond_the_stored_tokens_is_lowered_to_their_number() -> None:
    assert fixes("kv_too_small", {"context": "32768", "limit": "13952"}, engine="cuda", memory_utilization=0.95) == {
        "context": "13952"
    }


def test_the_trial_run_gets_fewer_requests_where_the_message_counts_them() -> None:
    assert fixes("oom_profiling", {"sequences": "256"}) == {"max_sequences": "128", "memory_utilization": "0.85"}
    assert fixes("oom_profiling", max_sequences=16, batched_tokens=2048) == {
        "batched_tokens": "512",
        "max_sequences": "8",
    }


def test_weights_that_do_not_fit_get_more_cards_and_nothing_is_lowered() -> None:
    assert fixes("oom_load", gpus=1, engine="volta", memory_utilization=0.9) == {"gpus": "2"}
    assert fixes("oom_load") == {}


def test_graphs_get_less_memory_for_the_rest_or_are_left_out() -> None:
    assert fixes("oom_graphs", memory_utilization=0.92) == {"memory_utilization": "0.87", "eager": "true"}
    assert fixes("oom_graphs", memory_utilization=0.92, eager=True) == {"memory_utilization": "0.87"}


def test_the_v100_environment_is_offered_to_a_v100_only() -> None:
    assert fixes("no_kernel_image", engine="volta") == {"environment": "v100"}
    assert fixes("no_kernel_image", engine="cuda") == {}


def test_a_quantization_can_only_be_taken_back_when_it_was_asked_for() -> None:
    assert fixes("unknown_quantization", quantization="awq") == {"quantization": "none"}
    assert fixes("unknown_quantization", quantization="none") == fixes("unknown_quantization") == {}
    assert fixes("quantization_mismatch", quantization="awq") == {"quantization": "none"}


def test_a_machine_without_memory_gets_half_the_kv_cache() -> None:
    assert fixes("host_memory", kv_cache_gib=4.0) == {"kv_cache_gib": "2"}
    assert fixes("host_memory", kv_cache_gib=0.25) == {}
    assert fixes("host_memory") == {}


def test_the_others_have_the_one_change_that_helps() -> None:
    assert fixes("port_taken") == {"port": ""}
    assert fixes("bf16_unsupported") == {"dtype": "float16"}
    assert fixes("no_compiler", {"language": "C++"}) == {"eager": "true"}
    assert fixes("no_compiler", {"language": "C"}) == {}
    assert fixes("killed") == fixes("start_overdue") == {"retry": ""}
    assert fixes("weights_corrupt") == fixes("unknown") == {}
