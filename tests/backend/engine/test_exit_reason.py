"""Why a run ended: vLLM's real last words are boiled down to the line that tells."""

import pytest

from backend.engine.exit_reason import QUOTE_CHARACTERS, explain_exit, explain_stuck, telling_line
from backend.engine.run_folder import RunExit

GENERIC = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)


def ended(returncode: int | None, *, error: str = "") -> RunExit:
    return RunExit(returncode=returncode, ended_at=1.0, error=error)


@pytest.mark.parametrize(
    ("lines", "quote"),
    [
        (("api_server.py: error: unrecognized arguments: --swap-space 4",), "unrecognized arguments: --swap-space 4"),
        (("OSError: [Errno 98] Address already in use",), "[Errno 98] Address already in use"),
        (("  Value error, User-specified max_model_len (32768) is greater than the derived",), "max_model_len (32768)"),
        (
            (
                "(EngineCore pid=2) ERROR 12-01 08:00:00 [core.py:1] Traceback (most recent call last):",
                "(EngineCore pid=2) ERROR 12-01 08:00:00 [core.py:1] ValueError: To serve at least one request with 2048",
                GENERIC,
            ),
            "ValueError: To serve at least one request with 2048",
        ),
        (
            (
                "(Worker pid=3) ERROR 12-01 [multiproc_executor.py:1] safetensors_rust.SafetensorError: Error while x",
                "(EngineCore pid=2) ERROR 12-01 [core.py:1] Exception: WorkerProc initialization failed due to an x",
                GENERIC,
            ),
            "SafetensorError: Error while x",
        ),
        (("huggingface_hub.errors.HFValidationError: Repo id must be in the form 'x'",), "HFValidationError: Repo id"),
        (("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",), "CUDA out of memory"),
        ((GENERIC,), ""),
        (("INFO all is well",), ""),
        ((), ""),
    ],
)
def test_the_telling_line_is_found(lines: tuple[str, ...], quote: str) -> None:
    found = telling_line(lines)
    assert quote in found
    assert bool(found) == bool(quote)
    assert "Engine core initialization failed" not in found


def test_a_warning_that_mentions_an_error_is_not_quoted() -> None:
    warning = "(APIServer pid=1) WARNING 12-01 [x.py:1] can cause errors like `OSError: [Errno 24] Too many open files`"
    assert telling_line((warning, "UserWarning: RuntimeError: later")) == ""


def test_a_killed_engine_core_is_told_although_vllm_exits_with_zero() -> None:
    lines = (
        "(APIServer pid=1) WARNING [core_client.py:817] [shutdown] MPClient: engine core exited unexpectedly; cleanup",
        "(APIServer pid=1) ERROR [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered",
    )
    found = explain_exit(ended(0), lines, was_ready=True)
    assert found.reason == "The engine exited with code 0: engine core exited unexpectedly"
    assert "out of memory" in found.hint


def test_a_killed_worker_is_told_and_not_the_errors_that_follow_from_it() -> None:
    core = "(EngineCore pid=10455) ERROR 12-01 08:45:22"
    lines = (
        f"{core} [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down.",
        f"{core} [core.py:1512] EngineCore encountered a fatal error.",
        f'{core} [core.py:1512]     raise RuntimeError("Executor failed.")',
        f"{core} [core.py:1512] RuntimeError: Executor failed.",
    )
    found = explain_exit(ended(0), lines, was_ready=True)
    assert found.reason == "The engine exited with code 0: Worker proc VllmWorker-0 died unexpectedly"
    assert "out of memory" in found.hint


def test_a_long_line_is_shortened() -> None:
    assert len(telling_line((f"ValueError: {'x' * 5000}",))) == QUOTE_CHARACTERS


def test_a_code_is_named_with_the_quote() -> None:
    reason = explain_exit(ended(2), ("x.py: error: unrecognized arguments: --y",), was_ready=False).reason
    assert reason == "The engine exited with code 2 before it was ready: error: unrecognized arguments: --y"


def test_without_a_quote_the_log_is_pointed_at() -> None:
    found = explain_exit(ended(0), (), was_ready=True)
    assert (found.reason, found.hint) == ("The engine exited with code 0.", "The log may tell why.")


@pytest.mark.parametrize(
    ("returncode", "word", "hint"),
    [
        (-9, "killed by SIGKILL", "out of memory"),
        (-11, "SIGSEGV", "compiled code"),
        (137, "code 137 (SIGKILL)", "memory"),
    ],
)
def test_a_signal_is_named_and_explained(returncode: int, word: str, hint: str) -> None:
    found = explain_exit(ended(returncode), (), was_ready=True)
    assert word in found.reason
    assert hint in found.hint


def test_an_unknown_signal_number_is_not_fatal() -> None:
    assert "-99" in explain_exit(ended(-99), (), was_ready=True).reason


def test_a_killed_keeper_is_named_when_no_code_is_known() -> None:
    assert "keeper" in explain_exit(ended(None), (), was_ready=True).reason


def test_a_program_that_could_not_be_executed_is_named() -> None:
    found = explain_exit(ended(None, error="Permission denied: /x/python"), (), was_ready=False)
    assert found.reason == "The engine could not be executed: Permission denied: /x/python."


def test_processes_that_cannot_be_ended_are_listed() -> None:
    assert "pid 7, 9" in explain_stuck((7, 9)).reason
