"""Each rule: one situation in which it fires, and one close to it in which it does not."""

from dataclasses import dataclass, replace

import pytest

from backend.environment.environment import Lack, LackKey
from backend.failure.failure import Fix, FixKind
from backend.fit.estimate import Verdict
from backend.gpu.snapshot import DriverGap, GpuCardState, NoDriver
from backend.launch.adjustments import Adjustments
from backend.preflight.examine import examine
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import CardUser, FileProblem, ListenSituation, OffloadDisk, Situation
from backend.preflight.words import WORDS
from backend.reading import Missing, MissingReason
from tests.backend.preflight.situations import (
    GIB,
    card,
    cpu_preset,
    cpu_probe,
    cpu_situation,
    facts,
    fit,
    h100,
    host,
    model,
    preset,
    probe,
    situation,
    tools,
)

ERROR, WARNING, HINT = Severity.ERROR, Severity.WARNING, Severity.HINT
UNKNOWN = Missing(MissingReason.DENIED)
V100_RECIPE = Fix(FixKind.ENVIRONMENT, "v100")
GDN = {
    "layer_types": ["linear_attention", "full_attention"] * 16,
    "model_type": "qwen3_next",
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1000, "intermediate_size": 1001}
TAKEN = card(used_bytes=12 * GIB, users=(CardUser(4711, "python", "anna", 12 * GIB),))


def two(**changes: object) -> Situation:
    """Two cards that share."""
    return situation(**{"preset": preset(gpus=2), "cards": (card(1), card(2)), **changes})


@dataclass(frozen=True)
class Case:
    rule: str
    severity: Severity
    fires: Situation
    near: Situation
    values: tuple[tuple[str, str], ...] = ()
    fix: Fix | None = None  # the first one


CASES = [
    # environment and driver
    Case("environment_not_asked", HINT, situation(probe=None), situation()),
    Case("not_a_cpu_build", ERROR, cpu_situation(probe=probe()), cpu_situation(), fix=Fix(FixKind.ENVIRONMENT, "cpu")),
    Case("cpu_build", ERROR, situation(probe=cpu_probe()), cpu_situation(), fix=V100_RECIPE),
    Case(
        "rocm_build",
        ERROR,
        situation(probe=probe(cuda=None, hip="6.4", torch_archs=("gfx942",))),
        situation(probe=probe(hip=None)),
    ),
    Case(
        "torch_lacks_card",
        ERROR,
        situation(probe=probe(torch="2.11.0+cu128", torch_archs=("sm_75", "sm_80", "compute_120"))),
        situation(probe=probe(torch="2.14.0+ours", vllm="0.32.0+sm70", torch_archs=("sm_70",))),
        (("needed", "sm_70"), ("card", "Tesla V100-SXM2-32GB")),
        V100_RECIPE,
    ),
    Case("cuda_too_new", WARNING, situation(probe=probe(cuda="13.0")), situation(probe=probe(cuda="12.9"))),
    Case(
        "driver_too_old",
        ERROR,
        situation(driver_version="524.10"),
        situation(driver_version="525.60.13"),
        (("needed", "525"),),
    ),
    Case("driver_without_volta", ERROR, situation(driver_version="590.44"), situation(driver_version="580.126")),
    Case("open_module", ERROR, situation(open_kernel_module=True), situation(open_kernel_module=True, cards=(h100(),))),
    Case(
        "no_cards",
        ERROR,
        situation(cards=(), card_gap=NoDriver(DriverGap.NO_DRIVER, "The kernel module is not loaded.")),
        cpu_situation(card_gap=NoDriver(DriverGap.NO_DRIVER, "The kernel module is not loaded.")),
        (("reason", "The kernel module is not loaded."),),
    ),
    Case("cards_not_known", HINT, situation(cards=()), cpu_situation()),
    Case(
        "dflash2_broken",
        WARNING,
        situation(lacks=(Lack(LackKey.BROKEN_DFLASH2, "no libcuda"),)),
        situation(lacks=(Lack(LackKey.BROKEN_DFLASH2, "no libcuda"),), cards=(h100(),)),
    ),
    Case("no_dflash2", HINT, situation(lacks=(Lack(LackKey.NO_DFLASH2),)), situation(), fix=V100_RECIPE),
    Case(
        "card_needs_volta_kind",
        WARNING,
        situation(preset=preset(engine="cuda")),
        situation(preset=preset(engine="cuda"), cards=(card(name="Tesla T4", capability=(7, 5)),)),
    ),
    # cards
    Case(
        "card_dropped",
        ERROR,
        situation(cards=(card(state=GpuCardState.LOST, detail="GPU is lost"),), others=(card(2),)),
        situation(others=(card(2, state=GpuCardState.HUNG),)),
        (("state", "lost"),),
        Fix(FixKind.CARDS, "GPU-2"),
    ),
    Case("card_not_read", HINT, situation(cards=(card(state=GpuCardState.STARTING),)), situation()),
    Case("another_card_dropped", HINT, situation(others=(card(2, state=GpuCardState.LOST),)), situation()),
    Case("too_few_cards", ERROR, two(cards=(card(),)), two(), (("have", "1"),), Fix(FixKind.GPUS, "1")),
    Case(
        "card_taken",
        ERROR,
        situation(cards=(TAKEN,)),
        situation(cards=(card(used_bytes=3 * GIB),)),
        (("who", "python (4711, anna) 12.00 GiB"), ("used", "12.00 GiB"), ("free", "20.00 GiB")),
        Fix(FixKind.MEMORY_UTILIZATION, "0.62"),
    ),
    Case(
        "card_in_use",
        WARNING,
        situation(cards=(TAKEN,), preset=preset(memory_utilization=0.6)),
        situation(cards=(card(used_bytes=300 * 1024**2),)),
    ),
    Case("card_memory_unknown", HINT, situation(cards=(card(used_bytes=UNKNOWN),)), situation()),
    Case(
        "uneven_cards",
        WARNING,
        two(cards=(card(1), card(2, name="Tesla V100-PCIE-16GB", total_bytes=16 * GIB))),
        two(cards=(card(1), card(2, name="Tesla V100-PCIE-32GB"))),
    ),
    # the model
    Case("model_not_here", ERROR, situation(model=model(folder=None, facts=None)), situation()),
    Case(
        "config_missing",
        ERROR,
        situation(model=model(missing_files=("config.json",), facts=None)),
        situation(model=model(lost_files=("generation_config.json",))),
    ),
    Case(
        "tokenizer_missing",
        ERROR,
        situation(model=model(missing_files=("tokenizer.json",))),
        situation(model=model(lost_files=("tokenizer_config.json",))),
    ),
    Case(
        "weights_missing",
        ERROR,
        situation(model=model(missing_files=("model-00002-of-00002.safetensors",))),
        situation(model=model(changed_files=("model-00002-of-00002.safetensors",))),
    ),
    Case("files_missing", ERROR, situation(model=model(missing_files=("params.json",))), situation()),
    Case("files_lost", WARNING, situation(model=model(lost_files=("generation_config.json",))), situation()),
    Case(
        "file_corrupt",
        ERROR,
        situation(model=model(corrupt_files=(FileProblem("model.safetensors", "10 bytes"),))),
        situation(model=model(changed_files=("model.safetensors",))),
    ),
    Case("files_changed", HINT, situation(model=model(changed_files=("config.json",))), situation()),
    Case("facts_unreadable", WARNING, situation(model=model(facts=None, facts_error="no layers")), situation()),
    Case("model_not_read", HINT, situation(model=model(facts=None)), situation()),
    Case("files_not_checked", HINT, situation(model=model(was_checked=False)), situation()),
    Case(
        "context_above_model",
        ERROR,
        situation(preset=preset(context=32769)),
        situation(preset=preset(context=32768)),
        (("limit", "32768"),),
        Fix(FixKind.CONTEXT, "32768"),
    ),
    Case(
        "context_stretched",
        WARNING,
        situation(preset=preset(context=65536, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})),
        situation(preset=preset(context=65536), model=model(context_limit=131072)),
    ),
    Case("context_limit_unknown", HINT, situation(model=model(facts=facts(max_position_embeddings=None))), situation()),
    Case("model_class_unchecked", HINT, situation(engine_models=None), situation()),
    Case(
        "model_class_unknown",
        ERROR,
        situation(model=model(facts=facts(architectures=["StrangeForCausalLM"]))),
        situation(model=model(facts=facts(architectures=["Qwen3ForCausalLM"]))),
        (("architecture", "StrangeForCausalLM"),),
    ),
    Case(
        "model_class_removed",
        ERROR,
        situation(model=model(facts=facts(architectures=["AquilaForCausalLM"]))),
        situation(),
    ),
    Case(
        "model_class_by_transformers",
        HINT,
        situation(model=model(facts=facts(architectures=["LlamaForSequenceClassification"]))),
        situation(),
    ),
    Case("model_type_unknown", ERROR, situation(model=model(facts=facts(model_type="strange"))), situation()),
    Case(
        "own_code",
        WARNING,
        situation(preset=preset(flags={"trust-remote-code": True}), model=model(brings_code=True)),
        situation(preset=preset(flags={"trust-remote-code": True})),
    ),
    Case(
        "heads_do_not_divide",
        ERROR,
        situation(preset=preset(gpus=3), cards=(card(1), card(2), card(3))),
        situation(preset=preset(gpus=3, parallel="pipeline"), cards=(card(1), card(2), card(3))),
        (("heads", "32"),),
        Fix(FixKind.GPUS, "2"),
    ),
    Case(
        "more_cards_than_layers",
        ERROR,
        situation(preset=preset(gpus=33, parallel="pipeline"), cards=tuple(map(card, range(33)))),
        situation(preset=preset(gpus=32, parallel="pipeline"), cards=tuple(map(card, range(32)))),
    ),
    # formats
    Case(
        "bfloat16",
        ERROR,
        situation(preset=preset(dtype="bfloat16")),
        situation(preset=preset(dtype="bfloat16"), cards=(h100(),)),
        fix=Fix(FixKind.DTYPE, "float16"),
    ),
    Case(
        "kv_cache_format",
        ERROR,
        situation(preset=preset(kv_cache_dtype="fp8")),
        situation(preset=preset(kv_cache_dtype="float16")),
        fix=Fix(FixKind.KV_CACHE_DTYPE, "auto"),
    ),
    Case(
        "kv_cache_format_of_checkpoint",
        ERROR,
        situation(
            model=model(
                facts=facts(
                    quantization_config={
                        "quant_method": "modelopt",
                        "quant_algo": "NVFP4",
                        "kv_cache_quant_algo": "FP8",
                    }
                )
            )
        ),
        situation(model=model(facts=facts(quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"}))),
        fix=Fix(FixKind.KV_CACHE_DTYPE, "float16"),
    ),
    Case(
        "nvfp4_needs_dflash2",
        ERROR,
        situation(preset=preset(quantization="nvfp4"), tools=tools(plugins=())),
        situation(preset=preset(quantization="nvfp4")),
        fix=V100_RECIPE,
    ),
    Case(
        "nvfp4_dflash2_broken",
        ERROR,
        situation(preset=preset(quantization="nvfp4"), lacks=(Lack(LackKey.BROKEN_DFLASH2, "no libcuda"),)),
        situation(lacks=(Lack(LackKey.BROKEN_DFLASH2, "no libcuda"),)),
    ),
    Case(
        "quantization_needs_newer_card",
        ERROR,
        situation(model=model(facts=facts(quantization_config={"quant_method": "awq", "bits": 4}))),
        situation(model=model(facts=facts(quantization_config={"quant_method": "gptq", "bits": 4}))),
        (("needed", "7.5"),),
    ),
    Case(
        "head_dim_unsupported",
        ERROR,
        cpu_situation(model=model(facts=facts(head_dim=48))),
        cpu_situation(model=model(facts=facts(head_dim=80))),
    ),
    Case(
        "head_dim_not_dflash2",
        WARNING,
        situation(preset=preset(attention_backend="dflash2"), model=model(facts=facts(head_dim=80))),
        situation(preset=preset(attention_backend="dflash2"), model=model(facts=facts(head_dim=192))),
    ),
    Case(
        "head_dim_small",
        WARNING,
        situation(model=model(facts=facts(head_dim=16))),
        situation(model=model(facts=facts(head_dim=32))),
    ),
    Case(
        "attention_needs_newer_card",
        ERROR,
        situation(preset=preset(attention_backend="FLASH_ATTN")),
        situation(preset=preset(attention_backend="TRITON_ATTN")),
        fix=Fix(FixKind.DROP_FLAG, "attention-backend"),
    ),
    # memory
    Case("fit_unknown", HINT, situation(estimate=None), situation()),
    Case("fit_cannot_lay_out", ERROR, situation(estimate=fit(Verdict.CANNOT_LAY_OUT)), situation()),
    Case("fit_too_little_free", ERROR, situation(estimate=fit(Verdict.TOO_LITTLE_FREE)), situation()),
    Case(
        "fit_weights_too_large",
        ERROR,
        situation(estimate=fit(Verdict.WEIGHTS_TOO_LARGE), others=(card(2),)),
        situation(),
        fix=Fix(FixKind.GPUS, "2"),
    ),
    Case("fit_loading_too_large", ERROR, situation(estimate=fit(Verdict.LOADING_TOO_LARGE)), situation()),
    Case("fit_no_kv_room", ERROR, situation(estimate=fit(Verdict.NO_KV_ROOM)), situation()),
    Case(
        "fit_context_too_long",
        ERROR,
        situation(estimate=fit(Verdict.CONTEXT_TOO_LONG), longest_context=5000),
        situation(),
        (("longest", "5000"),),
        Fix(FixKind.CONTEXT, "5000"),
    ),
    Case(
        "fit_fewer_at_once",
        HINT,
        situation(estimate=fit(Verdict.FEWER_AT_ONCE), most_sequences=2),
        situation(),
        fix=Fix(FixKind.MAX_SEQUENCES, "2"),
    ),
    # the machine
    Case("disk_full", ERROR, situation(host=host(disk_free_bytes=1024)), situation(host=host(disk_free_bytes=GIB))),
    Case("disk_small", WARNING, situation(host=host(disk_free_bytes=GIB)), situation()),
    Case("disk_unknown", HINT, situation(host=host(disk_free_bytes=UNKNOWN)), situation()),
    Case("memory_unknown", HINT, situation(host=host(memory_available_bytes=UNKNOWN)), situation()),
    Case(
        "memory_of_cpu_engine",
        ERROR,
        cpu_situation(preset=cpu_preset(kv_cache_gib=44.0)),
        cpu_situation(preset=cpu_preset(kv_cache_gib=32.0)),
        fix=Fix(FixKind.KV_CACHE_GIB, "35"),
    ),
    Case(
        "memory_for_loading",
        WARNING,
        situation(host=host(memory_available_bytes=GIB)),
        situation(host=host(memory_available_bytes=3 * GIB)),
    ),
    Case(
        "offload_memory",
        ERROR,
        situation(preset=preset(kv_offload_gib=60.0)),
        situation(preset=preset(kv_offload_gib=40.0)),
        fix=Fix(FixKind.KV_OFFLOAD_GIB, "43"),
    ),
    Case(
        "offload_disk_full",
        ERROR,
        situation(host=host(offload_disk=OffloadDisk("/nvme/kv", 100 * GIB, 50 * GIB, False))),
        situation(host=host(offload_disk=OffloadDisk("/nvme/kv", 40 * GIB, 50 * GIB, False))),
    ),
    Case(
        "offload_disk_slow",
        WARNING,
        situation(host=host(offload_disk=OffloadDisk("/hdd/kv", 40 * GIB, 50 * GIB, True))),
        situation(host=host(offload_disk=OffloadDisk("/hdd/kv", 40 * GIB, 50 * GIB, None))),
    ),
    Case("offload_disk_unknown", HINT, situation(host=host(offload_disk=OffloadDisk("/kv", None))), situation()),
    Case(
        "offload_without_reuse",
        WARNING,
        situation(preset=preset(kv_offload_gib=4.0, prefix_caching=False)),
        situation(preset=preset(kv_offload_gib=4.0)),
        fix=Fix(FixKind.PREFIX_CACHING, "true"),
    ),
    Case("weights_offload_is_slow", HINT, situation(preset=preset(cpu_offload_gib=4.0)), situation()),
    # how it is reached
    Case(
        "port_taken",
        ERROR,
        situation(listen=ListenSituation(port=8100, port_free=False, port_user="nginx (812)")),
        situation(listen=ListenSituation(port=8100, port_free=True)),
        (("who", "nginx (812)"),),
        Fix(FixKind.PORT),
    ),
    Case("port_unknown", HINT, situation(listen=ListenSituation(port=8100)), situation(listen=ListenSituation())),
    Case(
        "port_needs_rights",
        WARNING,
        situation(listen=ListenSituation(port=80)),
        situation(listen=ListenSituation(port=80, port_free=True)),
    ),
    Case(
        "host_not_here",
        ERROR,
        situation(listen=ListenSituation("192.0.2.7", host_is_local=False, has_key=True)),
        situation(listen=ListenSituation("10.1.1.7", host_is_local=None, has_key=True)),
        fix=Fix(FixKind.HOST, "127.0.0.1"),
    ),
    Case(
        "open_without_key",
        WARNING,
        situation(listen=ListenSituation("0.0.0.0")),
        situation(listen=ListenSituation("0.0.0.0", has_key=True)),
        fix=Fix(FixKind.HOST, "127.0.0.1"),
    ),
    Case("name_taken", HINT, situation(served_names=("a-model",)), situation(served_names=("another",))),
    # equal beginnings
    Case(
        "prompt_changes",
        WARNING,
        situation(system_prompt="You help. It is {{now}}."),
        situation(system_prompt="You help. Write {{name}} where a name belongs."),
        (("found", "{{now}}"),),
    ),
    Case(
        "prompt_has_a_date",
        HINT,
        situation(system_prompt="Today is Tuesday, December 1, 2026."),
        situation(system_prompt="Say dates as people do."),
    ),
    Case("template_changes", HINT, situation(model=model(template_dates=True)), situation()),
    Case(
        "prefix_caching_off",
        HINT,
        situation(preset=preset(prefix_caching=False)),
        situation(preset=preset(prefix_caching=True)),
        fix=Fix(FixKind.PREFIX_CACHING, "true"),
    ),
    Case(
        "states_not_cached",
        HINT,
        situation(model=model(facts=facts(**GDN))),
        situation(model=model(facts=facts(**GDN)), preset=preset(prefix_caching=True)),
    ),
    Case(
        "prompt_too_long",
        WARNING,
        situation(system_prompt="word " * 8000),
        situation(system_prompt="word " * 2000),
    ),
    Case("cache_evicted", HINT, situation(estimate=fit(full_requests=1.2)), situation(estimate=fit(full_requests=3.0))),
]


def found(rule: str, examined: Situation) -> tuple[Finding, ...]:
    return tuple(finding for finding in examine(examined) if finding.rule == rule)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_fires_with_its_severity_figures_and_fix(case: Case) -> None:
    (finding,) = found(case.rule, case.fires)
    assert finding.severity is case.severity
    assert set(case.values) <= set(finding.values.items())
    if case.fix is not None:
        assert finding.fixes[0] == case.fix
    for fix in finding.fixes:
        Adjustments().with_fix(fix)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_is_silent_in_a_situation_close_to_it(case: Case) -> None:
    assert not found(case.rule, case.near)


def test_every_rule_has_a_case() -> None:
    assert sorted(case.rule for case in CASES) == sorted(WORDS)


def test_nothing_speaks_against_a_situation_in_which_all_is_well() -> None:
    assert examine(situation()) == ()
    assert examine(cpu_situation()) == ()


def test_an_image_may_bring_what_makes_up_for_an_old_driver() -> None:
    (finding,) = found("driver_too_old", situation(driver_version="470.1", tools=tools(image="vllm:v1")))
    assert finding.severity is WARNING


def test_cuda_13_needs_a_driver_of_its_own() -> None:
    cuda13 = probe(cuda="13.0", torch_archs=("sm_90",))
    assert found("driver_too_old", situation(driver_version="575.1", probe=cuda13, cards=(h100(),)))
    assert not found("driver_too_old", situation(driver_version="580.1", probe=cuda13, cards=(h100(),)))


@pytest.mark.parametrize(
    ("archs", "capability", "runs"),
    [
        (("sm_80",), (8, 6), True),
        (("sm_86",), (8, 0), False),
        (("sm_90a",), (9, 0), True),
        (("sm_100f",), (10, 3), True),
        (("sm_70", "compute_70"), (12, 0), True),
        (("compute_90",), (8, 9), False),
        (("sm_120",), (12, 0), True),
        (("gfx942", "", "sm_x"), (7, 0), False),
    ],
)
def test_code_runs_on_its_own_major_version_and_ptx_on_newer_ones(
    archs: tuple[str, ...], capability: tuple[int, int], runs: bool
) -> None:
    examined = situation(probe=probe(torch_archs=archs), cards=(card(capability=capability),))
    assert bool(found("torch_lacks_card", examined)) is not runs


def test_what_only_the_preset_says_of_the_card_is_no_error() -> None:
    (finding,) = found("torch_lacks_card", situation(cards=(), probe=probe(torch_archs=("sm_90",))))
    assert finding.severity is WARNING


def test_experts_have_columns_of_their_own() -> None:
    assert not found("heads_do_not_divide", two(model=model(facts=facts(**MOE))))
    assert found("heads_do_not_divide", two(model=model(facts=facts(intermediate_size=1001))))


def test_a_flag_that_loads_no_weights_makes_broken_ones_a_warning() -> None:
    broken = model(corrupt_files=(FileProblem("model.safetensors", "cut off"),))
    (finding,) = found("file_corrupt", situation(model=broken, preset=preset(flags={"load-format": "dummy"})))
    assert finding.severity is WARNING


def test_another_plugin_may_bring_a_model_class() -> None:
    strange = model(facts=facts(architectures=["StrangeForCausalLM"]))
    (finding,) = found("model_class_unknown", situation(model=strange, tools=tools(plugins=("dflash2", "strange"))))
    assert finding.severity is WARNING
    (finding,) = found("model_class_unknown", situation(model=strange, tools=tools(plugins=("lora_hf_hub_resolver",))))
    assert finding.severity is ERROR


def test_the_engines_own_default_of_requests_is_not_held_against_it() -> None:
    asked_nothing = preset(max_sequences=None)
    fewer = fit(Verdict.FEWER_AT_ONCE, full_requests=20.0)
    assert not found("fit_fewer_at_once", situation(preset=asked_nothing, estimate=fewer))
    assert found("fit_fewer_at_once", situation(preset=asked_nothing, estimate=replace(fewer, full_requests=1.1)))


def test_a_card_that_is_taken_is_told_once() -> None:
    examined = situation(cards=(TAKEN,), estimate=fit(Verdict.TOO_LITTLE_FREE))
    assert len(found("card_taken", examined)) == 1
    assert not found("fit_too_little_free", examined)


def test_only_newer_engines_take_a_part_of_a_gib_of_kv_cache() -> None:
    too_much = cpu_preset(kv_cache_gib=44.0)
    (old,) = found("memory_of_cpu_engine", cpu_situation(preset=too_much))
    (new,) = found("memory_of_cpu_engine", cpu_situation(preset=too_much, tools=tools(vllm="0.32.0", plugins=())))
    assert old.fixes == (Fix(FixKind.KV_CACHE_GIB, "35"),) and new.fixes == (Fix(FixKind.KV_CACHE_GIB, "35.75"),)


def test_a_free_card_is_offered_before_a_smaller_share() -> None:
    (finding,) = found("card_taken", situation(cards=(TAKEN,), others=(card(2), card(3, used_bytes=20 * GIB))))
    assert finding.fixes[0] == Fix(FixKind.CARDS, "GPU-2")


@pytest.mark.parametrize(
    "prompt",
    [
        "It is {{ current_date }}.",
        "Now: ${NOW}",
        "<current_datetime> help",
        "{date} is today",
        "{{ now() | date('%Y') }}",
        "Session {{session_id}}: help",
        "Id {{ $randomUuid }}",
        "[CURRENT DATE] Be kind.",
        "Today %Y-%m-%d.",
        "{{ strftime_now('%d %b %Y') }}",
        "f'{datetime.now()}'",
        "$(date +%s)",
        "{{user.timestamp}}",
    ],
)
def test_placeholders_that_change_are_seen(prompt: str) -> None:
    assert found("prompt_changes", situation(system_prompt=prompt))


@pytest.mark.parametrize(
    "prompt",
    [
        "Be kind {always}.",
        "Fields: {name}, {city}.",
        "An update on dates <b>now</b>",
        'Answer {{ question }} in JSON like {"date": "..."}',
        'Return {"time": 3}',
        "[1] and [2] are sources. Take your time.",
    ],
)
def test_placeholders_that_do_not_change_are_left_alone(prompt: str) -> None:
    assert not found("prompt_changes", situation(system_prompt=prompt))


def test_a_long_prompt_is_searched_in_time() -> None:
    for piece in ("{{now(", "{{ ", "${date|", "2026-", "[current ", "today is "):
        examine(situation(system_prompt=piece * 8000))


def test_only_loopback_counts_as_this_machine_only() -> None:
    for address in ("127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"):
        assert not found("open_without_key", situation(listen=ListenSituation(address)))
    for address in ("0.0.0.0", "::", "10.0.0.7", "lab.example", ""):
        assert found("open_without_key", situation(listen=ListenSituation(address)))
