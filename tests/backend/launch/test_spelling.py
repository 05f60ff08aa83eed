"""Spelling: every shipped preset in the words of every version, tried against that version's own --help."""

import json
from dataclasses import replace
from typing import Any

import pytest

from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.notes import WORDS
from backend.launch.preset import Preset, Speculation
from backend.launch.preset_file import read_preset
from backend.launch.spelling import Spelled, spell
from backend.launch.spelling_error import SpellingError
from tests.backend.launch.vllm_versions import SHIPPED, VERSIONS, tools_of

NAMES = sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def preset_named(name: str) -> Preset:
    return read_preset(SHIPPED / f"{name}.yaml")


def changed(preset: Preset, **changes: Any) -> Preset:
    return Preset.model_validate({**{name: getattr(preset, name) for name in Preset.model_fields}, **changes})


def options(spelled: Spelled) -> dict[str, list[str]]:
    """Flag -> its values; a flag may be there only once."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for word in spelled.options:
        if word.startswith("--"):
            flag, _, value = word.partition("=")
            assert flag not in found, f"{flag} is there twice"
            current = found.setdefault(flag, [value] if value else [])
        else:
            current.append(word)
    return found


def test_the_three_versions_are_there() -> None:
    assert VERSIONS == ("0.19.1", "0.23.0", "0.32.0")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_each_shipped_preset_is_spelled_with_flags_and_choices_of_the_version(name: str, version: str) -> None:
    preset = preset_named(name)
    tools = tools_of(version, preset.engine)
    spelled = spell(preset, tools)
    assert options(spelled)["--max-model-len"] == [str(preset.context)]
    for flag, values in options(spelled).items():
        assert flag in tools.flags, f"{flag} is not in {version}"
        assert all(value in tools.choices.get(flag, (value,)) for value in values), f"{flag} {values} in {version}"
    for note in spelled.notes:
        assert note.in_language("en") != note.in_language("zh")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_v100_always_calculates_in_half(volta_preset: Preset, version: str) -> None:
    tools = tools_of(version, EngineKind.VOLTA)
    assert options(spell(volta_preset, tools))["--dtype"] == ["half"]
    automatic = spell(changed(volta_preset, dtype="auto"), tools)
    assert options(automatic)["--dtype"] == ["half"]
    assert "dtype_half" in [note.key for note in automatic.notes]
    with pytest.raises(SpellingError, match="bfloat16"):
        spell(changed(volta_preset, card=None, dtype="bfloat16"), tools)


def test_dflash2_is_called_custom_and_keeps_to_triton(volta_preset: Preset) -> None:
    found = options(spell(volta_preset, tools_of("0.19.1", EngineKind.VOLTA)))
    assert (found["--attention-backend"], found["--gdn-prefill-backend"]) == (["CUSTOM"], ["triton"])


def test_a_version_without_the_flag_gets_its_attention_backend_by_environment(volta_preset: Preset) -> None:
    tools = tools_of("0.19.1", EngineKind.VOLTA)
    older = replace(tools, flags=tools.flags - {"--attention-backend", "--gdn-prefill-backend"})
    spelled = spell(volta_preset, older)
    assert spelled.env["VLLM_ATTENTION_BACKEND"] == "CUSTOM"
    assert not {"--attention-backend", "--gdn-prefill-backend"} & options(spelled).keys()
    assert "backend_by_env" in [note.key for note in spelled.notes]


def test_without_dflash2_the_engines_own_attention_is_used_and_said(volta_preset: Preset) -> None:
    without = replace(tools_of("0.19.1", EngineKind.VOLTA), plugins=())
    spelled = spell(changed(volta_preset, quantization="none"), without)
    assert not {"--attention-backend", "--gdn-prefill-backend"} & options(spelled).keys()
    assert "no_dflash2_attention" in [note.key for note in spelled.notes]


def test_nvfp4_on_a_v100_without_dflash2_is_refused_before_the_engine_does(volta_preset: Preset) -> None:
    with pytest.raises(SpellingError, match="NVFP4 weights on a V100.*unquantized"):
        spell(volta_preset, replace(tools_of("0.19.1", EngineKind.VOLTA), plugins=()))


def test_a_quantization_the_checkpoint_declares_is_not_passed(volta_preset: Preset) -> None:
    tools = tools_of("0.19.1", EngineKind.VOLTA)
    for declared in ("modelopt", "compressed-tensors", None):
        assert "--quantization" not in options(spell(volta_preset, tools, declared_quantization=declared))
    with pytest.raises(SpellingError, match="nvfp4.*awq"):
        spell(volta_preset, tools, declared_quantization="awq")
    with pytest.raises(SpellingError, match="not quantized"):
        spell(volta_preset, tools, declared_quantization="")


def test_fp8_is_made_at_load_where_the_weights_are_not_quantized(volta_preset: Preset) -> None:
    spelled = spell(changed(volta_preset, quantization="fp8"), tools_of("0.32.0"), declared_quantization="")
    assert options(spelled)["--quantization"] == ["fp8"]


@pytest.mark.parametrize("choices", [(), ("awq", "modelopt_fp4"), ("nvfp4", "awq")])
def test_nvfp4_as_a_flag_becomes_what_this_vllm_calls_it(volta_preset: Preset, choices: tuple[str, ...]) -> None:
    tools = tools_of("0.19.1", EngineKind.VOLTA)
    tools = replace(tools, choices={**tools.choices, "--quantization": choices} if choices else tools.choices)
    spelled = spell(changed(volta_preset, quantization="none", flags={"quantization": "nvfp4"}), tools)
    expected = "nvfp4" if "nvfp4" in choices else "modelopt_fp4"
    assert options(spelled)["--quantization"] == [expected]
    assert ("quantization_own_name" in [note.key for note in spelled.notes]) == (expected != "nvfp4")


def test_cards_share_by_tensor_or_by_pipeline(volta_preset: Preset) -> None:
    tools = tools_of("0.19.1", EngineKind.VOLTA)
    assert options(spell(changed(volta_preset, gpus=4), tools))["--tensor-parallel-size"] == ["4"]
    spread = options(spell(changed(volta_preset, gpus=2, parallel="pipeline"), tools))
    assert spread["--pipeline-parallel-size"] == ["2"]
    assert "--tensor-parallel-size" not in spread


def test_guesses_and_sampling_are_json(volta_preset: Preset) -> None:
    preset = changed(
        volta_preset,
        speculation=Speculation(method="ngram", tokens=3, lookup_max=4, lookup_min=2),
        sampling={"temperature": 0.6, "top_k": 20},
    )
    found = options(spell(preset, tools_of("0.32.0")))
    assert json.loads(found["--speculative-config"][0]) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
    }
    assert json.loads(found["--override-generation-config"][0]) == {"temperature": 0.6, "top_k": 20}


def test_the_second_model_is_named_by_its_folder(volta_preset: Preset) -> None:
    preset = changed(volta_preset, speculation={"method": "eagle3", "tokens": 2, "model": "Draft"})
    config = options(spell(preset, tools_of("0.19.1"), draft="/models/draft"))["--speculative-config"][0]
    assert json.loads(config)["model"] == "/models/draft"


def test_switches_have_both_their_forms(volta_preset: Preset) -> None:
    preset = changed(volta_preset, prefix_caching=False, chunked_prefill=True, eager=True)
    found = options(spell(preset, tools_of("0.32.0")))
    assert {"--no-enable-prefix-caching", "--enable-chunked-prefill", "--enforce-eager"} <= found.keys()
    calm = options(spell(changed(preset, eager=False, flags={"no-enable-log-requests": True}), tools_of("0.32.0")))
    assert "--no-enable-log-requests" in calm
    assert "--enforce-eager" not in calm


def test_offload_sizes_are_plain_numbers(volta_preset: Preset) -> None:
    found = options(spell(changed(volta_preset, kv_offload_gib=8.0, cpu_offload_gib=1.5), tools_of("0.32.0")))
    assert (found["--kv-offloading-size"], found["--cpu-offload-gb"]) == (["8"], ["1.5"])


@pytest.mark.parametrize(
    ("version", "gib", "variable", "flag"),
    [
        ("0.19.1", 1.0, "1", None),
        ("0.19.1", 0.5, "1", None),
        ("0.19.1", 2.25, "3", None),
        ("0.32.0", 2.0, "2", None),
        ("0.32.0", 0.25, None, str(256 * 1024**2)),
    ],
)
def test_part_of_a_gib_is_rounded_up_where_the_engine_takes_whole_ones(
    cpu_preset: Preset, version: str, gib: float, variable: str | None, flag: str | None
) -> None:
    spelled = spell(changed(cpu_preset, kv_cache_gib=gib), tools_of(version, EngineKind.CPU))
    assert spelled.env.get("VLLM_CPU_KVCACHE_SPACE") == variable
    assert options(spelled).get("--kv-cache-memory-bytes", [None])[0] == flag
    rounded = variable is not None and float(variable) != gib
    assert ("kv_cache_rounded" in [note.key for note in spelled.notes]) == rounded


@pytest.mark.parametrize(("version", "reports"), [("0.19.1", False), ("0.23.0", False), ("0.32.0", True)])
def test_metrics_flags_are_passed_where_the_probe_shows_them(cpu_preset: Preset, version: str, reports: bool) -> None:
    spelled = spell(cpu_preset, tools_of(version, EngineKind.CPU))
    assert ("--enable-per-request-metrics" in options(spelled)) == reports == spelled.reports_request_metrics
    assert "--enable-prompt-tokens-details" in options(spelled)
    unprobed = spell(cpu_preset, EngineTools(EngineKind.CPU))
    assert "--enable-prompt-tokens-details" not in options(unprobed)
    assert not unprobed.reports_request_metrics


def test_an_unknown_flag_is_named_with_version_and_nearest(cpu_preset: Preset) -> None:
    with pytest.raises(SpellingError) as caught:
        spell(changed(cpu_preset, flags={"block-sice": 32}), tools_of("0.32.0"))
    assert str(caught.value) == "vLLM 0.32.0 has no flag --block-sice. Did you mean --block-size?"
    assert (caught.value.flag, caught.value.nearest) == ("block-sice", "block-size")


def test_a_value_that_is_no_choice_is_named_with_the_choices(cpu_preset: Preset) -> None:
    with pytest.raises(SpellingError, match=r"--load-format|--tokenizer-mode|--runner turbo.*generate"):
        spell(changed(cpu_preset, flags={"runner": "turbo"}), tools_of("0.32.0"))


def test_an_intent_the_version_lacks_is_refused_by_the_name_of_its_key(volta_preset: Preset) -> None:
    tools = tools_of("0.19.1")
    tools = replace(tools, flags=tools.flags - {"--kv-offloading-size"})
    with pytest.raises(SpellingError, match=r"kv_offload_gib asks for: it has no --kv-offloading-size"):
        spell(changed(volta_preset, kv_offload_gib=4.0), tools)


def test_values_that_begin_with_a_dash_stay_values(cpu_preset: Preset) -> None:
    spelled = spell(changed(cpu_preset, flags={"max-logprobs": -1, "seed": 7.0}), tools_of("0.32.0"))
    assert "--max-logprobs=-1" in spelled.options
    assert options(spelled)["--seed"] == ["7"]


def test_lists_and_dotted_flags_are_passed_on(cpu_preset: Preset) -> None:
    preset = changed(cpu_preset, flags={"lora-modules": ["a=/a", "b=/b"], "compilation-config.mode": 0})
    spelled = spell(preset, tools_of("0.32.0"))
    assert options(spelled)["--lora-modules"] == ["a=/a", "b=/b"]
    assert options(spelled)["--compilation-config.mode"] == ["0"]


def test_a_dropped_flag_is_left_out_whoever_added_it(volta_preset: Preset) -> None:
    dropped = ("gdn-prefill-backend", "--no-enable-prefix-caching", "nothing-of-ours")
    preset = changed(volta_preset, prefix_caching=False).adjusted(Adjustments(dropped_flags=dropped))
    spelled = spell(preset, tools_of("0.19.1", EngineKind.VOLTA), dropped=dropped)
    assert not {"--gdn-prefill-backend", "--no-enable-prefix-caching"} & options(spelled).keys()
    assert "left_out" in [note.key for note in spelled.notes]


def test_every_sentence_is_there_in_both_languages_with_the_same_values() -> None:
    for key, (en, zh) in WORDS.items():
        assert sorted(fields(en)) == sorted(fields(zh)), key
        assert any("一" <= letter <= "鿿" for letter in zh), key


def fields(sentence: str) -> set[str]:
    return {part.partition("}")[0] for part in sentence.split("{")[1:]}
