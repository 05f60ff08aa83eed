"""Removed flags: each is translated, left out with a reason, or refused with a replacement, in every version."""

import json
from typing import Any

import pytest

from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.preset import Flag, Preset
from backend.launch.removed_flags import REMOVED
from backend.launch.spelling import Spelled, spell
from backend.launch.spelling_error import SpellingError
from tests.backend.launch.test_spelling import changed, options
from tests.backend.launch.vllm_versions import VERSIONS, tools_of

REMOVED_LATELY = {
    "max-num-partial-prefills",
    "max-long-partial-prefills",
    "calculate-kv-scales",
    "override-attention-dtype",
}
PLAUSIBLE: dict[str, Flag] = {
    "preemption-mode": "recompute",
    "rope-scaling": '{"type": "yarn", "factor": 4.0}',
    "guided-decoding-backend": "xgrammar:no-fallback",
    "speculative-model": "[ngram]",
    "task": "generate",
    "device": "cuda",
    "override-pooler-config": '{"normalize": true}',
    "enable-reasoning": False,
}


def spelled(preset: Preset, version: str, **flags: Any) -> Spelled:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return spell(changed(preset, flags=named), tools_of(version, preset.engine))


def keys(result: Spelled) -> set[str]:
    return {note.key for note in result.notes}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("flag", sorted(REMOVED))
def test_no_removed_flag_reaches_a_version_without_it(cpu_preset: Preset, flag: str, version: str) -> None:
    tools = tools_of(version, EngineKind.CPU)
    if flag in REMOVED_LATELY and version != "0.32.0":
        assert f"--{flag}" in tools.flags
        return
    assert f"--{flag}" not in tools.flags
    try:
        result = spell(changed(cpu_preset, flags={flag: PLAUSIBLE.get(flag, 1)}), tools)
    except SpellingError as err:
        assert f"--{flag}" in err.message
        assert err.note.in_language("zh") != err.note.in_language("en")
        return
    assert f"--{flag}" not in options(result)
    assert options(result).keys() <= tools.flags
    assert any(note.values.get("flag") == flag for note in result.notes)
    for note in result.notes:
        assert note.in_language("zh") != note.in_language("en")


@pytest.mark.parametrize("flag", sorted(REMOVED))
def test_a_preset_for_an_environment_not_probed_yet_has_no_removed_flag(cpu_preset: Preset, flag: str) -> None:
    try:
        result = spell(changed(cpu_preset, flags={flag: PLAUSIBLE.get(flag, 1)}), EngineTools(EngineKind.CPU))
    except SpellingError:
        return
    assert f"--{flag}" not in options(result)


def test_swap_space_becomes_one_buffer_for_all_cards(volta_preset: Preset) -> None:
    result = spelled(changed(volta_preset, gpus=2), "0.32.0", swap_space=4)
    assert options(result)["--kv-offloading-size"] == ["8"]
    assert "swap_to_offload" in keys(result)


def test_swap_space_is_left_out_where_offload_cannot_serve_every_model(volta_preset: Preset) -> None:
    result = spelled(volta_preset, "0.19.1", swap_space=4)
    assert "--kv-offloading-size" not in options(result)
    assert "swap_left_out" in keys(result)
    assert "swap_zero" in keys(spelled(volta_preset, "0.32.0", swap_space=0))


def test_swap_space_does_not_touch_an_offload_that_is_set(volta_preset: Preset) -> None:
    result = spelled(changed(volta_preset, kv_offload_gib=2.0), "0.32.0", swap_space=4)
    assert options(result)["--kv-offloading-size"] == ["2"]
    assert "already_set" in keys(result)


def test_preemption_by_recomputing_is_what_happens_and_by_swapping_is_refused(volta_preset: Preset) -> None:
    assert "is_default" in keys(spelled(volta_preset, "0.19.1", preemption_mode="recompute"))
    with pytest.raises(SpellingError) as caught:
        spelled(volta_preset, "0.19.1", preemption_mode="swap")
    assert str(caught.value) == (
        "vLLM 0.19.1 cannot swap requests to main memory; it always calculates a preempted request again. "
        "Use kv_offload_gib instead."
    )


def test_the_size_of_a_prefill_chunk_is_the_number_of_batched_tokens(volta_preset: Preset) -> None:
    plain = changed(volta_preset, max_batched_tokens=None)
    assert options(spelled(plain, "0.19.1", chunked_prefill_size=512))["--max-num-batched-tokens"] == ["512"]
    kept = spelled(changed(volta_preset, max_batched_tokens=1024), "0.19.1", chunked_prefill_size=512)
    assert options(kept)["--max-num-batched-tokens"] == ["1024"]
    off = changed(volta_preset, chunked_prefill=None)
    assert "--no-enable-chunked-prefill" in options(spelled(off, "0.19.1", chunked_prefill_size=-1))


def test_rope_flags_become_one_override(volta_preset: Preset) -> None:
    result = spelled(volta_preset, "0.19.1", rope_scaling='{"type": "yarn", "factor": 4}', rope_theta=1e6)
    assert json.loads(options(result)["--hf-overrides"][0]) == {
        "rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 1e6}
    }
    with pytest.raises(SpellingError, match="not a JSON object"):
        spelled(volta_preset, "0.19.1", rope_scaling="yarn")


def test_the_old_flags_of_speculation_become_one_config(volta_preset: Preset) -> None:
    plain = changed(volta_preset, speculation=None)
    result = spelled(plain, "0.32.0", speculative_model="[ngram]", num_speculative_tokens=5, ngram_prompt_lookup_max=4)
    assert json.loads(options(result)["--speculative-config"][0]) == {
        "method": "ngram",
        "num_speculative_tokens": 5,
        "prompt_lookup_max": 4,
    }
    set_already = changed(volta_preset, speculation={"method": "mtp", "tokens": 1})
    kept = spelled(set_already, "0.32.0", num_speculative_tokens=5)
    assert json.loads(options(kept)["--speculative-config"][0])["num_speculative_tokens"] == 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"guided-decoding-backend": "outlines:no-fallback"}, {"backend": "outlines"}),
        ({"guided-decoding-disable-any-whitespace": True}, {"backend": "xgrammar", "disable_any_whitespace": True}),
        (
            {"guided-decoding-disable-any-whitespace": True, "guided-decoding-backend": "guidance"},
            {"backend": "guidance", "disable_any_whitespace": True},
        ),
        (
            {"guided-decoding-disable-any-whitespace": True, "guided-decoding-backend": "outlines"},
            {"backend": "outlines"},
        ),
        (
            {"guided-decoding-disable-additional-properties": True},
            {"backend": "guidance", "disable_additional_properties": True},
        ),
    ],
)
def test_guided_decoding_became_structured_outputs(
    cpu_preset: Preset, flags: dict[str, Flag], expected: dict[str, object]
) -> None:
    result = spell(changed(cpu_preset, flags=flags), tools_of("0.32.0", EngineKind.CPU))
    assert json.loads(options(result)["--structured-outputs-config"][0]) == expected
    assert len([note for note in result.notes if "guided" in note.values.get("flag", "")]) == len(flags)


def test_reasoning_is_switched_on_by_its_parser(cpu_preset: Preset) -> None:
    assert "--reasoning-parser" in options(
        spelled(cpu_preset, "0.32.0", enable_reasoning=True, reasoning_parser="qwen3")
    )
    with pytest.raises(SpellingError, match="reasoning-parser"):
        spelled(cpu_preset, "0.32.0", enable_reasoning=True)


def test_request_logs_are_off_unless_asked_for(cpu_preset: Preset) -> None:
    assert "is_default" in keys(spelled(cpu_preset, "0.32.0", disable_log_requests=True))
    assert "--enable-log-requests" in options(spelled(cpu_preset, "0.32.0", no_disable_log_requests=True))


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("generate", {}),
        ("embed", {"--runner": ["pooling"], "--convert": ["embed"]}),
        ("reward", {"--runner": ["pooling"]}),
    ],
)
def test_a_task_is_a_runner_and_a_conversion(cpu_preset: Preset, task: str, expected: dict[str, list[str]]) -> None:
    found = options(spelled(cpu_preset, "0.32.0", task=task))
    assert {flag: found[flag] for flag in ("--runner", "--convert") if flag in found} == expected


def test_the_words_of_pooling_are_todays(cpu_preset: Preset) -> None:
    found = options(spelled(cpu_preset, "0.32.0", override_pooler_config='{"pooling_type": "CLS", "normalize": true}'))
    assert json.loads(found["--pooler-config"][0]) == {"pooling_type": "CLS", "use_activation": True}


def test_what_is_gone_for_good_is_refused(cpu_preset: Preset) -> None:
    with pytest.raises(SpellingError, match="gone from vLLM"):
        spelled(cpu_preset, "0.32.0", enable_lora_bias=True)
    assert "no_effect" in keys(spelled(cpu_preset, "0.32.0", enable_lora_bias=False))


def test_a_word_where_a_number_belongs_is_refused(cpu_preset: Preset) -> None:
    with pytest.raises(SpellingError, match="not a number"):
        spelled(cpu_preset, "0.32.0", swap_space="lots")
