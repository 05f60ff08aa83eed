"""The schema: what may be asked for together, and what a change for one launch may be."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from backend.errors import LaunchError
from backend.launch.adjustments import Adjustments
from backend.launch.preset import INTENT_FLAGS, Preset
from backend.launch.preset_file import _model_in


def with_changes(preset: Preset, **changes: Any) -> Preset:
    return Preset.model_validate({**{name: getattr(preset, name) for name in Preset.model_fields}, **changes})


def refusal(preset: Preset, **changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        with_changes(preset, **changes)
    problem = caught.value.errors()[0]
    return f"{'.'.join(map(str, problem['loc'])) or problem['ctx']['key']}: {problem['msg']}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gpus", 1),
        ("memory_utilization", 0.9),
        ("cpu_offload_gib", 4.0),
        ("kv_offload_gib", 4.0),
        ("attention_backend", "TRITON_ATTN"),
        ("kv_cache_gib", None),
    ],
)
def test_what_needs_a_card_is_refused_on_a_cpu(cpu_preset: Preset, key: str, value: object) -> None:
    assert refusal(cpu_preset, **{key: value}).startswith(f"{key}: ")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"gpus": 0}, "gpus"),
        ({"kv_cache_gib": 2.0}, "kv_cache_gib"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype"),
        ({"kv_cache_dtype": "bfloat16"}, "kv_cache_dtype"),
        ({"engine": "cuda"}, "attention_backend"),
        ({"engine": "cuda", "attention_backend": None}, "engine"),
        ({"context": 32}, "context"),
        ({"memory_utilization": 1.1}, "memory_utilization"),
        ({"memory_utilization": float("nan")}, "memory_utilization"),
        ({"context": True}, "context"),
        ({"max_sequences": 0}, "max_sequences"),
    ],
)
def test_what_a_v100_cannot_do_is_refused(volta_preset: Preset, changes: dict[str, Any], key: str) -> None:
    assert refusal(volta_preset, **changes).startswith(f"{key}: ")


def test_an_fp8_cache_is_for_cards_from_8_9(volta_preset: Preset) -> None:
    card = {"name": "RTX 4090", "memory_gib": 24, "capability": "8.9"}
    changes = {"engine": "cuda", "attention_backend": None, "card": card, "kv_cache_dtype": "fp8"}
    assert with_changes(volta_preset, **changes).kv_cache_dtype == "fp8"


@pytest.mark.parametrize("flag", sorted(INTENT_FLAGS.keys() - {"quantization", "kv-cache-dtype", "speculative-config"}))
def test_a_flag_with_a_key_of_its_own_is_refused(volta_preset: Preset, flag: str) -> None:
    message = refusal(volta_preset, flags={flag: "1"}, sampling={"top_k": 1})
    assert INTENT_FLAGS[flag] in message


@pytest.mark.parametrize("flag", ["api-key", "port", "host", "--seed", "a b", "", "no_api_key"])
def test_flags_that_are_the_panels_or_none_at_all_are_refused(cpu_preset: Preset, flag: str) -> None:
    assert f"flags.{flag}" in refusal(cpu_preset, flags={flag: "1"})


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "CUDA_VISIBLE_DEVICES", "VLLM_CPU_KVCACHE_SPACE", "A B", "1A", ""])
def test_variables_that_are_the_panels_or_none_at_all_are_refused(cpu_preset: Preset, name: str) -> None:
    assert f"env.{name}" in refusal(cpu_preset, env={name: "1"})


def test_the_engines_own_word_for_a_quantization_may_be_named_once(volta_preset: Preset) -> None:
    named = with_changes(volta_preset, quantization="none", flags={"quantization": "bitsandbytes"})
    assert named.flags["quantization"] == "bitsandbytes"
    assert "there twice" in refusal(volta_preset, flags={"quantization": "bitsandbytes"})


@pytest.mark.parametrize(
    "speculation",
    [
        {"method": "eagle", "tokens": 2},
        {"method": "mtp", "tokens": 2, "model": "x"},
        {"method": "mtp", "tokens": 2, "lookup_max": 3},
        {"method": "ngram", "tokens": 2, "lookup_max": 3, "lookup_min": 4},
        {"method": "mtp", "tokens": 0},
    ],
)
def test_a_guess_that_lacks_or_has_too_much_is_refused(volta_preset: Preset, speculation: dict[str, Any]) -> None:
    assert refusal(volta_preset, speculation=speculation)


def test_every_key_is_described() -> None:
    def undescribed(model: type[BaseModel]) -> list[str]:
        missing = [f"{model.__name__}.{name}" for name, field in model.model_fields.items() if not field.description]
        inner = [_model_in(field.annotation) for field in model.model_fields.values()]
        return missing + [name for one in inner if one for name in undescribed(one)]

    assert undescribed(Preset) == []


def test_a_change_for_one_launch_leaves_the_rest(cpu_preset: Preset) -> None:
    changed = cpu_preset.adjusted(Adjustments(context=512, kv_cache_gib=2.5, dropped_flags=("--block-size",)))
    assert (changed.context, changed.kv_cache_gib, changed.flags) == (512, 2.5, {})
    assert changed.model_copy(update={"context": 2048, "kv_cache_gib": 1.0, "flags": cpu_preset.flags}) == cpu_preset
    assert cpu_preset.adjusted(Adjustments()) == cpu_preset


@pytest.mark.parametrize("flag", ["swap-space", "--swap_space", "--no-swap-space"])
def test_a_flag_is_dropped_however_it_is_written(cpu_preset: Preset, flag: str) -> None:
    preset = with_changes(cpu_preset, flags={"swap_space": 4, "seed": 1})
    assert preset.adjusted(Adjustments(dropped_flags=(flag,))).flags == {"seed": 1}


def test_dropping_a_flag_of_a_key_takes_the_key_back(volta_preset: Preset) -> None:
    assert volta_preset.adjusted(Adjustments(dropped_flags=("attention-backend",))).attention_backend is None


@pytest.mark.parametrize(
    "adjustments",
    [Adjustments(context=1), Adjustments(dtype="int3"), Adjustments(memory_utilization=7.0), Adjustments(gpus=2)],
)
def test_a_change_out_of_bounds_is_a_launch_error_naming_the_key(cpu_preset: Preset, adjustments: Adjustments) -> None:
    key = next(iter(adjustments.changes()))
    with pytest.raises(LaunchError, match=rf"SmolLM2.*{key}"):
        cpu_preset.adjusted(adjustments)
