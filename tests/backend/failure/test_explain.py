"""How a cause is decided: root before result, phase of an exhausted card, ways to die, and what decides nothing."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from backend.engine.patience import Overdue, OverdueKind
from backend.engine.stage import Stage
from backend.failure.explain import explain
from backend.failure.failure import LINE_CHARACTERS, VALUE_CHARACTERS, Failure, Fix, FixKind, LaunchContext
from backend.failure.words import WORDS, in_words
from tests.backend.failure.samples import HEAD, MATCHING, core, raised

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
READY = ("(APIServer pid=7) INFO 12-01 12:00:00 [launcher.py:1] routes", "INFO:     Application startup complete.")
LOADING = "(EngineCore pid=77) INFO 12-01 12:00:00 [gpu_model_runner.py:1] Starting to load model /models/x..."
LOADED = "(EngineCore pid=77) INFO 12-01 12:00:00 [gpu_model_runner.py:1] Model loading took 20.1 GiB memory"
KV_SIZED = "(EngineCore pid=77) INFO 12-01 12:00:00 [kv_cache_utils.py:1] GPU KV cache size: 40,000 tokens"
CAPTURING = "Capturing CUDA graphs (decode, FULL):  20%|##        | 2/10 [00:01<00:04]"
FATAL = "EngineCore encountered a fatal error."


def explained(
    lines: tuple[str, ...], *, code: int | None = 1, phase: Stage | None = Stage.IMPORTS, **context: object
) -> Failure:
    return explain(lines, returncode=code, phase=phase, context=LaunchContext(**context))  # type: ignore[arg-type]


def running(text: str, *calls: str) -> tuple[str, ...]:
    """A core that fails after it was ready."""
    return tuple(line.replace("EngineCore failed to start.", FATAL) for line in (*READY, *core(text, *calls)))


# which of several errors


def test_the_first_error_of_a_worker_decides_before_the_words_of_the_processes_that_waited_for_it() -> None:
    lines = (
        *core("MemoryError", "load_model", worker="Worker_TP1 pid=79"),
        *core("Exception: WorkerProc initialization failed due to an exception in a background process."),
        *raised("OSError: [Errno 98] Address already in use"),
    )
    assert explained(lines).rule == "host_memory"


def test_an_error_of_the_core_that_no_rule_knows_is_unknown_whatever_follows_from_it() -> None:
    lines = (
        *core("AttributeError: 'NoneType' object has no attribute 'x'"),
        *raised("ModuleNotFoundError: No module named 'a'"),
    )
    failure = explained(lines)

    assert failure.rule == "unknown"
    assert any("AttributeError" in line for line in failure.last_lines)


def test_an_error_that_the_core_may_have_survived_and_another_of_the_server_are_ambiguous() -> None:
    lines = (
        "(EngineCore pid=77) ERROR 12-01 12:00:00 [import_utils.py:9] ModuleNotFoundError: No module named 'deep_gemm'",
        *raised("OSError: [Errno 98] Address already in use"),
    )
    assert explained(lines).rule == "unknown"
    assert explained(lines[:1]).rule == "module_missing"


def test_a_port_between_workers_is_not_the_server_s_port() -> None:
    assert explained(core("OSError: [Errno 98] Address already in use", "init_worker")).rule == "unknown"


def test_a_failing_link_between_cards_yields_to_the_worker_that_ran_out_of_memory() -> None:
    lines = (
        *core(
            "RuntimeError: NCCL error: remote process exited or there was a network error", worker="Worker_TP0 pid=78"
        ),
        *core(OOM, "load_model", worker="Worker_TP1 pid=79"),
    )
    assert explained(lines).rule == "oom_load"


def test_a_failing_link_between_cards_is_not_the_cause_where_a_worker_failed_in_an_unknown_way() -> None:
    link = core(
        "RuntimeError: NCCL error: remote process exited or there was a network error", worker="Worker_TP0 pid=78"
    )
    other = core("AttributeError: 'NoneType' object has no attribute 'x'", worker="Worker_TP1 pid=79")
    assert explained(link).rule == "nccl_failure"
    assert explained((*link, *other)).rule == "unknown"


def test_a_closed_connection_yields_to_the_worker_that_failed() -> None:
    lines = (
        *core("RuntimeError: [../gloo/pair.cc:1] Connection closed by peer [10.0.0.1]:2", worker="Worker_TP0 pid=78"),
        *core("ValueError: No available memory for the cache blocks. Try", worker="Worker_TP1 pid=79"),
    )
    assert explained(lines).rule == "kv_no_room"


def test_the_root_of_a_chain_decides_before_what_was_raised_from_it() -> None:
    lines = (
        *raised("OSError: [Errno 28] No space left on device: '/home/x/.cache/a'", "save"),
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *raised("RuntimeError: the cache could not be written", "main"),
    )
    assert explained(lines).rule == "disk_full"


def test_a_module_that_was_missed_on_the_way_to_another_error_is_not_the_cause() -> None:
    lines = (
        *raised("ModuleNotFoundError: No module named 'flash_attn'", "load"),
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *raised("ValueError: something else is wrong", "main"),
    )
    assert explained(lines).rule == "unknown"


def test_a_module_that_is_the_direct_cause_is_the_cause() -> None:
    lines = (
        *raised("ModuleNotFoundError: No module named 'flash_attn'", "load"),
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        *raised("RuntimeError: the model could not be inspected", "main"),
    )
    assert explained(lines).values["module"] == "flash_attn"


def test_processes_that_write_at_once_are_kept_apart() -> None:
    one = core(OOM, "load_model", worker="Worker_TP0 pid=78")
    two = core("ValueError: weird", "load_model", worker="Worker_TP1 pid=79")
    mixed = tuple(line for pair in zip(one, two, strict=False) for line in pair)
    assert explained(mixed).rule == "oom_load"


def test_an_error_of_one_request_does_not_explain_a_later_kill() -> None:
    lines = (
        *READY,
        "ERROR:    Exception in ASGI application",
        *raised("MemoryError", "tokenize"),
        "(APIServer pid=7) ERROR 12-01 12:00:00 [serving.py:1] Traceback (most recent call last):",
        "(APIServer pid=7) ERROR 12-01 12:00:00 [serving.py:1] ModuleNotFoundError: No module named 'a'",
    )
    assert explained(lines, code=-9, phase=None).rule == "killed"
    assert explained(lines, code=1, phase=None).rule == "unknown"


def test_what_a_person_wrote_in_a_prompt_decides_nothing() -> None:
    prompt = "prompt: 'why do I get\\ntorch.OutOfMemoryError: CUDA out of memory. [Errno 98] Address already in use?'"
    lines = (*READY, f"(APIServer pid=7) INFO 12-01 12:00:00 [logger.py:1] Received request chatcmpl-1: {prompt}")
    assert explained(lines, code=1, phase=None).rule == "unknown"


def test_the_clean_up_after_the_end_is_not_the_cause() -> None:
    lines = (
        *raised("ValueError: No available memory for the cache blocks. Try", "main"),
        *raised("KeyError: '/psm_12ab'", "main", file="/python/multiprocessing/resource_tracker.py"),
    )
    assert explained(lines).rule == "kv_no_room"


def test_a_worker_s_words_repeated_by_the_core_are_enough() -> None:
    lines = core(
        "RuntimeError: Worker failed with error 'No available memory for the cache blocks. Try increasing', please check the "
        "stack trace above for the root cause"
    )
    assert explained(lines).rule == "kv_no_room"


def test_an_earlier_run_in_the_same_log_is_not_this_one_s_cause() -> None:
    begin = "(APIServer pid=7) INFO 12-01 12:00:00 [api_utils.py:286] non-default args: {'port': 8100}"
    lines = (begin, *core("MemoryError", "load_model"), begin, "Killed")
    assert explained(lines).rule == "unknown"


def test_an_earlier_run_that_ended_above_the_first_line_of_this_one_is_not_its_cause() -> None:
    begin = "INFO 12-01 12:00:00 [__init__.py:1] Automatically detected platform cuda."
    lines = (*core("MemoryError", "load_model"), begin, *raised("pydantic.errors.PydanticUserError: x", "<module>"))
    assert explained(lines).rule == "unknown"
    assert explained((begin, *core("MemoryError", "load_model"))).rule == "host_memory"
    worker = core("MemoryError", "load_model")[:-4]  # another process begins before the server has ended
    assert explained((*worker, begin)).rule == "host_memory"


# a card's memory


def test_the_phase_of_an_exhausted_card_is_read_from_the_calls() -> None:
    phases = {
        ("load_model", "load_weights"): "oom_load",
        ("determine_available_memory", "profile_run", "_dummy_run"): "oom_profiling",
        ("determine_available_memory", "profile_cudagraph_memory", "capture_model"): "oom_graphs",
        ("compile_or_warm_up_model", "capture_model", "_dummy_run"): "oom_graphs",
        ("initialize_from_config", "initialize_kv_cache_tensors"): "oom_unknown_phase",
    }
    for calls, rule in phases.items():
        assert explained(core(OOM, *calls)).rule == rule
    assert explained(running(OOM, "execute_model", "forward"), phase=None).rule == "oom_prefill"


def test_without_calls_the_phase_is_read_from_what_the_log_reached() -> None:
    reached = {
        (LOADING,): "oom_load",
        (LOADING, LOADED): "oom_profiling",
        (LOADING, LOADED, KV_SIZED): "oom_unknown_phase",
        (LOADING, LOADED, KV_SIZED, CAPTURING): "oom_graphs",
    }
    for lines, rule in reached.items():
        assert explained((*lines, *core(OOM)), phase=Stage.WEIGHTS).rule == rule


def test_without_calls_and_signs_the_stage_tells_loading_and_nothing_else() -> None:
    rules = {
        stage: explained(core(OOM), phase=stage).rule
        for stage in (Stage.IMPORTS, Stage.WEIGHTS, Stage.KV_CACHE, Stage.WARM_UP)
    }
    assert rules == {
        Stage.IMPORTS: "oom_unknown_phase",
        Stage.WEIGHTS: "oom_load",
        Stage.KV_CACHE: "oom_unknown_phase",
        Stage.WARM_UP: "oom_unknown_phase",
    }


def test_a_request_that_ran_out_of_memory_is_no_cause_when_the_engine_went_on_and_was_stopped_in_order() -> None:
    hit = tuple(
        line.replace("EngineCore failed to start.", "WorkerProc hit an exception.")
        for line in core(OOM, "execute_model")[:-3]
    )
    assert explained((*READY, *hit, "INFO:     Shutting down"), code=0, phase=None).rule == "unknown"


def test_the_last_exception_of_sglang_says_that_graphs_were_captured_whatever_was_logged_before() -> None:
    lines = (
        "Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:01<00:00]",
        "[2026-12-01 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/env/sglang/srt/model_executor/cuda_graph_runner.py", line 7, in __init__',
        "    self.capture()",
        OOM,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *raised(f"Exception: Capture cuda graph failed: {OOM.partition(': ')[2]}", "__init__"),
    )
    assert explained(lines).rule == "oom_graphs"


# how it died


def test_a_log_tells_no_failure_of_what_ended_in_order_with_exit_code_0() -> None:
    for sample in MATCHING:
        lines = (*sample.lines, "INFO:     Shutting down", "INFO:     Finished server process [7]")
        assert explained(lines, code=0, phase=Stage.WARM_UP).rule == "unknown", sample
        assert explained(lines, code=0, phase=None).rule == "unknown", sample


def test_a_kill_is_told_from_an_exhausted_machine_by_the_kernel_s_counter() -> None:
    def rule(code: int, kills: int | None) -> str:
        return explain(READY, returncode=code, phase=None, context=LaunchContext(), out_of_memory_kills=kills).rule

    assert rule(-9, None) == rule(-9, 0) == rule(137, 0) == "killed"
    assert rule(-9, 1) == rule(137, 2) == "host_memory"
    assert rule(-11, 1) == rule(-11, 0) == rule(139, None) == rule(-6, None) == "crashed"
    assert rule(-15, 0) == "killed"
    assert rule(1, 0) == rule(0, 0) == rule(1, 3) == "unknown"


def test_a_worker_whose_exit_code_is_logged_tells_how_it_died() -> None:
    def rule(code: str, kills: int = 0) -> str:
        died = f"(EngineCore pid=77) ERROR 12-01 12:00:00 [m.py:1] Worker proc VllmWorker-0 died unexpectedly{code}, shutting down"
        lines = (*READY, died, *running("RuntimeError: Executor failed.")[2:])
        return explain(lines, returncode=0, phase=None, context=LaunchContext(), out_of_memory_kills=kills).rule

    assert rule(" (exit code: -9)") == "killed"
    assert rule(" (exit code: -9)", kills=1) == "host_memory"
    assert rule(" (exit code: -11)") == "crashed"
    assert rule(" (exit code: 1)") == rule(" (exit code: None)") == rule("") == "unknown"
    assert rule("", kills=1) == "host_memory"


def test_an_exit_code_that_nobody_saw_tells_nothing() -> None:
    assert explained(READY, code=None, phase=None).rule == "unknown"


def test_what_could_not_be_executed_says_why() -> None:
    failure = explain((), returncode=None, phase=Stage.SPAWN, context=LaunchContext(), error="[Errno 2] No such file")
    assert (failure.rule, failure.values) == ("not_executable", {"error": "[Errno 2] No such file"})


def test_a_start_that_was_given_up_says_how_long_nothing_moved_and_is_not_called_killed() -> None:
    overdue = Overdue(OverdueKind.STALLED, Stage.WEIGHTS, 612.4, 300.2, "Loading weights", 300.0)
    failure = explain((LOADING,), returncode=-9, phase=Stage.WEIGHTS, context=LaunchContext(), overdue=overdue)

    assert failure.rule == "start_overdue"
    assert failure.values == {"kind": "stalled", "seconds": "612", "quiet": "300", "limit": "300"}
    assert failure.phase is Stage.WEIGHTS
    assert failure.line == "Loading weights"
    assert failure.fixes == (Fix(FixKind.RETRY),)


def test_a_start_that_hung_after_an_error_is_explained_by_the_error() -> None:
    overdue = Overdue(OverdueKind.STALLED, Stage.WEIGHTS, 612.4, 300.2, "", 300.0)
    failure = explain(
        core("MemoryError", "load_model"), returncode=-9, phase=None, context=LaunchContext(), overdue=overdue
    )
    assert failure.rule == "host_memory"


def test_the_phase_is_kept_until_ready_and_not_after_it() -> None:
    assert explained(core("MemoryError"), phase=Stage.WEIGHTS).phase is Stage.WEIGHTS
    assert explained(core("MemoryError"), phase=Stage.READY).phase is None


# the words


def test_every_rule_has_all_its_words_in_both_languages() -> None:
    for rule, words in WORDS.items():
        assert words.en_what and words.zh_what and words.en_do and words.zh_do, rule
        assert bool(words.en_cause) == bool(words.zh_cause), rule
        assert any("\u4e00" <= letter <= "\u9fff" for letter in words.zh_what), rule


def test_a_value_that_looks_like_a_field_stays_a_value() -> None:
    failure = Failure("port_taken", {"port": "{0.__class__} {port}"})
    assert in_words(failure, "en").what == "The port {0.__class__} {port} is already in use."


def test_a_rule_of_a_newer_panel_is_said_as_unknown() -> None:
    assert in_words(Failure("of_tomorrow"), "en").what == in_words(Failure("unknown"), "en").what


# any text

_PIECES = st.sampled_from([line for sample in MATCHING for line in sample.lines] + [HEAD, "", *READY, LOADING, FATAL])
_LINES = st.lists(
    st.one_of(st.text(max_size=300), _PIECES, st.builds(lambda a, b: a[:50] + b, _PIECES, st.text(max_size=80))),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(
    lines=_LINES,
    code=st.one_of(st.none(), st.integers(-70, 300)),
    phase=st.one_of(st.none(), st.sampled_from(Stage)),
    kills=st.one_of(st.none(), st.integers(0, 3)),
)
def test_no_text_breaks_it_and_everything_in_a_failure_is_bounded(
    lines: list[str], code: int | None, phase: Stage | None, kills: int | None
) -> None:
    failure = explain(lines, returncode=code, phase=phase, context=LaunchContext(gpus=2), out_of_memory_kills=kills)

    assert failure.rule in WORDS
    assert all(len(value) <= VALUE_CHARACTERS for value in failure.values.values())
    assert len(failure.line) <= LINE_CHARACTERS
    assert len(failure.last_lines) <= 8
    assert all(len(line) <= LINE_CHARACTERS for line in failure.last_lines)
    assert len(failure.fixes) <= 4
    in_words(failure, "zh")


def test_a_long_log_of_long_lines_is_explained_at_once() -> None:
    """2000 lines of 4 KB, each kind of which could send a careless pattern back and forth."""
    floods = (
        "x" * 4096,
        "ValueError: " + "User-specified max_model_len (1" * 130,
        "(EngineCore pid=7) ERROR 12-01 12:00:00 [a.py:1] " + "a.b." * 1000 + "Error: x",
        "api_server.py: error: unrecognized arguments: " + "-" * 4000,
        "    File " + '"' * 4000,
        "2026-12-01 " * 370,
        "RuntimeError: " + "NCCL WARN /dev/shm/nccl" * 170,
        "Repo id must be in the form : " * 130,
        "\x1b[0m\r" * 1000,
        " " * 4096,
        "[" + "2026-12-01 12:00:00 " * 200,
        "NCCL WARN " * 400,
    )
    for flood in floods:
        lines = [flood] * 2000
        times = []
        for code in (1, 2, -9):
            begun = time.thread_time()
            explain(lines, returncode=code, phase=Stage.IMPORTS, context=LaunchContext())
            times.append(time.thread_time() - begun)
            if code == 1 and times[0] < 0.2:
                break  # the machine is not busy with something else: once is enough
        assert min(times) < 0.2, (flood[:40], times)
