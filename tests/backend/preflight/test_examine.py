"""All rules together: over random situations nothing crashes, and what is known to end a start is never called fine."""

import math
import time
from string import Formatter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.environment.environment import Lack, LackKey
from backend.errors import PanelError
from backend.fit.estimate import STARTS, Verdict
from backend.gpu.snapshot import DriverGap, GpuCardState, NoDriver
from backend.launch.adjustments import Adjustments
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Preset
from backend.preflight.examine import examine, worst
from backend.preflight.finding import FORM_FIELDS, VALUE_CHARACTERS, Severity
from backend.preflight.situation import (
    CardSituation,
    CardUser,
    FileProblem,
    HostSituation,
    ListenSituation,
    ModelSituation,
    OffloadDisk,
    Situation,
)
from backend.preflight.words import WORDS, in_words
from backend.reading import Missing, MissingReason
from tests.backend.preflight.situations import (
    GIB,
    MODELS,
    PRESET,
    cpu_probe,
    facts,
    fit,
    probe,
    situation,
    tools,
)

UNKNOWN = Missing(MissingReason.TIMEOUT, "no answer")
SIZES = st.one_of(st.just(UNKNOWN), st.integers(0, 200 * GIB))
NAMES = st.sampled_from(["Tesla V100-SXM2-32GB", "NVIDIA A100", "NVIDIA H100", "something", ""])

USERS = st.none() | st.lists(
    st.builds(
        CardUser, st.integers(1, 99999), st.text(max_size=60), st.text(max_size=60), st.none() | st.integers(0, 10**11)
    ),
    max_size=5,
).map(tuple)
CARDS = st.builds(
    CardSituation,
    uuid=st.sampled_from(["GPU-a", "GPU-b", "GPU-c", ""]),
    name=NAMES,
    capability=st.sampled_from([None, (7, 0), (7, 5), (8, 0), (9, 0), (12, 0)]),
    total_bytes=st.one_of(st.just(UNKNOWN), st.sampled_from([0, 16 * GIB, 32 * GIB, 80 * GIB])),
    used_bytes=SIZES,
    state=st.sampled_from([*([GpuCardState.OK] * 8), *GpuCardState]),
    users=USERS,
)
FACTS = st.none() | st.builds(
    facts,
    st.sampled_from([0.5, 8.0, 60.0]),
    architectures=st.sampled_from([["LlamaForCausalLM"], ["AquilaForCausalLM"], ["Odd"], []]),
    model_type=st.sampled_from(["llama", "odd"]),
    num_attention_heads=st.sampled_from([8, 12, 32]),
    num_key_value_heads=st.sampled_from([2, 4, 8]),
    head_dim=st.sampled_from([16, 48, 64, 80, 128, 256]),
    max_position_embeddings=st.sampled_from([None, 2048, 32768]),
    quantization_config=st.sampled_from(
        [None, {"quant_method": "awq"}, {"quant_method": "fp8"}, {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}]
    ),
)
FILES = st.lists(st.sampled_from(["config.json", "tokenizer.json", "model.safetensors", "a.bin", "x.py"]), max_size=2)
MODEL = st.builds(
    ModelSituation,
    name=st.text(max_size=300),
    folder=st.sampled_from(["/models/a", "/models/a", "/models/a", None]),
    facts=FACTS,
    facts_error=st.sampled_from(["", "config.json: hidden_size is missing."]),
    missing_files=st.sampled_from([(), (), ()]) | FILES.map(tuple),
    lost_files=FILES.map(tuple),
    corrupt_files=st.just(()) | FILES.map(lambda names: tuple(FileProblem(name, "cut off") for name in names)),
    was_checked=st.booleans(),
    weight_bytes=st.none() | st.integers(0, 100 * GIB),
    context_limit=st.sampled_from([None, None, 4096]),
    brings_code=st.booleans(),
    template_dates=st.none() | st.booleans(),
)
HOST = st.builds(
    HostSituation,
    memory_total_bytes=SIZES,
    memory_available_bytes=SIZES,
    is_limited=st.booleans(),
    disk_free_bytes=SIZES,
    offload_disk=st.none() | st.builds(OffloadDisk, st.just("/d"), st.none() | st.integers(0, 10**12), SIZES),
)
LISTEN = st.builds(
    ListenSituation,
    host=st.sampled_from(["127.0.0.1", "0.0.0.0", "::", "lab", "300.1.1.1"]),
    port=st.none() | st.integers(1, 65535),
    port_free=st.sampled_from([None, True, True, False]),
    port_user=st.text(max_size=300),
    has_key=st.booleans(),
    host_is_local=st.sampled_from([None, True, False]),
)
TOOLS = st.builds(
    tools,
    vllm=st.sampled_from(["0.19.1", "0.32.0", "0.23.0", "dev", None]),
    plugins=st.sampled_from([(), ("dflash2",), ("dflash2", "other")]),
    flags=st.sampled_from([frozenset(), frozenset({"--dtype"})]),
    image=st.sampled_from([None, None, "vllm:latest"]),
)
PROBE = st.sampled_from(
    [
        None,
        cpu_probe(),
        probe(),
        probe(torch_archs=("sm_80", "sm_90")),
        probe(cuda="13.0", torch_archs=("sm_80", "compute_90")),
        probe(cuda=None, hip="6.4"),
        probe(cuda="11.8"),
        probe(cuda="odd"),
        probe(vllm=None),
    ]
)


@st.composite
def presets(draw: st.DrawFn) -> Preset:
    kind = draw(st.sampled_from(list(EngineKind)))
    values: dict[str, Any] = {
        "engine": kind.value,
        "context": draw(st.sampled_from([64, 2048, 8192, 131072])),
        "dtype": draw(st.sampled_from(["auto", "float16", "bfloat16"])),
        "quantization": draw(st.sampled_from(["none", "nvfp4", "awq", "fp8"])),
        "prefix_caching": draw(st.sampled_from([None, True, False])),
        "kv_cache_dtype": draw(st.sampled_from([None, "auto", "fp8", "bfloat16"])),
        "max_sequences": draw(st.sampled_from([None, 1, 64])),
        "flags": draw(
            st.sampled_from([{}, {}, {"load-format": "dummy"}, {"trust-remote-code": True}, {"hf_overrides": "{}"}])
        ),
        "env": draw(st.sampled_from([{}, {}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}])),
    }
    if kind is EngineKind.CPU:
        sizes = draw(st.sampled_from([0.25, 4.0, 300.0]))
        values |= {"gpus": 0, "memory_utilization": None, "kv_cache_gib": sizes}
    else:
        values |= {
            "gpus": draw(st.integers(1, 8)),
            "parallel": draw(st.sampled_from(["tensor", "pipeline"])),
            "memory_utilization": draw(st.sampled_from([None, 0.1, 0.9, 1.0])),
            "cpu_offload_gib": draw(st.sampled_from([None, None, 4.0, 400.0])),
            "kv_offload_gib": draw(st.sampled_from([None, None, 4.0, 400.0])),
            "attention_backend": draw(st.sampled_from([None, "FLASH_ATTN", "TRITON_ATTN"])),
        }
    return Preset.model_validate({**PRESET, **values})


ESTIMATES = st.none() | st.builds(fit, st.sampled_from([*Verdict, Verdict.FITS, Verdict.FITS]))


SITUATIONS = st.builds(
    Situation,
    preset=presets(),
    tools=TOOLS,
    model=MODEL,
    probe=PROBE,
    lacks=st.sampled_from([(), (Lack(LackKey.NO_DFLASH2),), (Lack(LackKey.BROKEN_DFLASH2, "x" * 400),)]),
    engine_models=st.sampled_from([None, MODELS]),
    cards=st.lists(CARDS, max_size=4).map(tuple),
    others=st.lists(CARDS, max_size=3).map(tuple),
    driver_version=st.sampled_from(["", "odd", "470.1", "524.99", "535.1", "580.95.05", "590.44"]),
    open_kernel_module=st.sampled_from([None, True, False]),
    card_gap=st.none() | st.builds(NoDriver, st.sampled_from(DriverGap), st.text(max_size=300)),
    host=HOST,
    listen=LISTEN,
    estimate=ESTIMATES,
    estimate_error=st.text(max_size=300),
    longest_context=st.none() | st.integers(1, 10**6),
    most_sequences=st.none() | st.integers(0, 8192),
    system_prompt=st.text(max_size=200),
    served_names=st.sampled_from([(), ("a-model",)]),
)


def ends_for_sure(given_: Situation) -> list[str]:
    """What is known to end the start, said once more without the rules: only facts that are certain count."""
    preset, model, cards, has = given_.preset, given_.model, given_.cards, given_.probe
    on_card = preset.engine is not EngineKind.CPU
    volta = on_card and any(card.capability == (7, 0) for card in cards)
    reasons = []
    if model.folder is None:
        reasons.append("no model")
    if "config.json" in model.missing_files:
        reasons.append("no config")
    if "tokenizer.json" in model.missing_files:
        reasons.append("no tokenizer")
    if preset.flags.get("load-format") is None and (
        "model.safetensors" in model.missing_files
        or any(problem.file == "model.safetensors" for problem in model.corrupt_files)
    ):
        reasons.append("no whole weights")
    longest = model.context_limit or (model.facts.max_position if model.facts else None)
    if longest and preset.context > longest and not preset.env and "hf_overrides" not in preset.flags:
        reasons.append("context")
    if on_card and model.facts and preset.parallel == "tensor" and model.facts.attention_heads % preset.gpus:
        reasons.append("heads")
    if has is not None and has.cuda is not None and not on_card:
        reasons.append("a CUDA build for no card")
    if has is not None and has.is_cpu_build and on_card:
        reasons.append("a CPU build for a card")
    if has is not None and has.torch_archs == ("sm_80", "sm_90") and volta:
        reasons.append("torch without sm_70")
    if has is not None and has.cuda == "12.8" and on_card and given_.tools.image is None:
        reasons += ["driver too old"] if given_.driver_version in ("470.1", "524.99") else []
    if volta and given_.driver_version == "590.44":
        reasons.append("driver without Volta")
    if volta and given_.open_kernel_module:
        reasons.append("open module")
    if volta and preset.dtype == "bfloat16":
        reasons.append("bfloat16")
    if volta and preset.kv_cache_dtype in ("fp8", "bfloat16"):
        reasons.append("KV cache format")
    if volta and preset.quantization == "nvfp4" and given_.tools.flags and not given_.tools.plugins:
        reasons.append("NVFP4")
    if on_card and cards and len(cards) < preset.gpus:
        reasons.append("too few cards")
    if on_card and any(card.state in (GpuCardState.LOST, GpuCardState.HUNG) for card in cards):
        reasons.append("card dropped")
    if on_card and preset.memory_utilization is not None and any(_is_full(card, preset) for card in cards):
        reasons.append("card taken")
    if on_card and not cards and given_.card_gap is not None and given_.card_gap.gap is DriverGap.NO_DRIVER:
        reasons.append("no driver")
    if given_.listen.port is not None and given_.listen.port_free is False:
        reasons.append("port")
    available = given_.host.memory_available_bytes
    offload = (preset.cpu_offload_gib or 0) * preset.gpus + (preset.kv_offload_gib or 0)
    if not isinstance(available, Missing) and offload * GIB > available:
        reasons.append("offload")
    if not isinstance(available, Missing) and (preset.kv_cache_gib or 0) * GIB > available:
        reasons.append("KV cache in main memory")
    if not isinstance(given_.host.disk_free_bytes, Missing) and given_.host.disk_free_bytes < 1024:
        reasons.append("disk")
    if given_.estimate is not None and given_.estimate.verdict not in STARTS:
        reasons.append("memory")
    known = given_.engine_models is not None and model.facts is not None and model.facts.architecture == "Odd"
    if known and not model.brings_code and "other" not in given_.tools.plugins and not preset.flags:
        reasons.append("class")
    return reasons


RULES_FOR: dict[str, set[str]] = {
    "no model": {"model_not_here"},
    "no config": {"config_missing"},
    "no tokenizer": {"tokenizer_missing"},
    "no whole weights": {"weights_missing", "file_corrupt"},
    "context": {"context_above_model"},
    "heads": {"heads_do_not_divide"},
    "a CUDA build for no card": {"not_a_cpu_build"},
    "a CPU build for a card": {"cpu_build"},
    "torch without sm_70": {"torch_lacks_card"},
    "driver too old": {"driver_too_old"},
    "driver without Volta": {"driver_without_volta"},
    "open module": {"open_module"},
    "bfloat16": {"bfloat16"},
    "KV cache format": {"kv_cache_format"},
    "NVFP4": {"nvfp4_needs_dflash2"},
    "too few cards": {"too_few_cards"},
    "card dropped": {"card_dropped"},
    "card taken": {"card_taken"},
    "no driver": {"no_cards"},
    "port": {"port_taken"},
    "offload": {"offload_memory"},
    "KV cache in main memory": {"memory_of_cpu_engine"},
    "disk": {"disk_full"},
    "memory": {rule for rule in WORDS if rule.startswith("fit_")} | {"card_taken"},
    "class": {"model_class_unknown"},
}


def _is_full(card: CardSituation, preset: Preset) -> bool:
    if isinstance(card.total_bytes, Missing) or isinstance(card.used_bytes, Missing) or not card.total_bytes:
        return False
    if card.state is not GpuCardState.OK or preset.memory_utilization is None:
        return False
    return math.ceil(card.total_bytes * preset.memory_utilization) > max(0, card.total_bytes - card.used_bytes)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(SITUATIONS)
def test_what_ends_the_start_for_sure_is_an_error_in_any_situation(given_: Situation) -> None:
    findings = examine(given_)
    reasons = ends_for_sure(given_)
    assert worst(findings) is Severity.ERROR or not reasons
    errors = {finding.rule for finding in findings if finding.severity is Severity.ERROR}
    for reason in reasons:  # many things are wrong at once in most of these: each must be told, not only one
        assert errors & RULES_FOR[reason], reason
    for finding in findings:
        assert all(len(value) <= VALUE_CHARACTERS + 150 for value in finding.values.values())
        for fix in finding.fixes:
            _is_usable(given_.preset, Adjustments().with_fix(fix))
        for language in ("en", "zh"):
            words = in_words(finding, language)
            assert words.what and "…" not in WORDS[finding.rule].en_what


def _is_usable(preset: Preset, adjustments: Adjustments) -> None:
    """A fix may be refused by what else is set, and never by a value that is none."""
    try:
        preset.adjusted(adjustments)
    except PanelError as err:
        assert "cannot be changed so" in str(err)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(SITUATIONS)
def test_every_sentence_finds_its_values_and_every_field_is_one_of_the_form(given_: Situation) -> None:
    for finding in examine(given_):
        words = WORDS[finding.rule]
        for sentence in (words.en_what, words.zh_what, words.en_do, words.zh_do):
            assert {name for _, name, _, _ in Formatter().parse(sentence) if name} <= set(finding.values)
        assert finding.field == "" or finding.field in FORM_FIELDS or finding.field in Preset.model_fields


def test_findings_come_worst_first() -> None:
    ranks = [
        list(Severity).index(finding.severity) for finding in examine(situation(probe=None, driver_version="590.1"))
    ]
    assert ranks == sorted(ranks) and len(set(ranks)) > 1


def test_nothing_known_is_neither_an_error_nor_fine() -> None:
    dark = situation(
        probe=None,
        engine_models=None,
        cards=(),
        driver_version="",
        open_kernel_module=None,
        model=ModelSituation("A-Model", "/models/a"),
        host=HostSituation(),
        listen=ListenSituation(port=8100),
        estimate=None,
    )
    findings = examine(dark)
    assert {finding.severity for finding in findings} == {Severity.HINT}
    assert len(findings) >= 6


@pytest.mark.parametrize("prompt", ["", "You help. " * 3000, "{{now(" * 10_000, "2026-12- " * 5000])
def test_a_situation_is_examined_in_5_ms(prompt: str) -> None:
    examined = situation(system_prompt=prompt, probe=None, estimate=fit(Verdict.CONTEXT_TOO_LONG))
    examine(examined)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        examine(examined)
        times.append(time.perf_counter() - began)
    assert sorted(times)[10] <= 0.005
