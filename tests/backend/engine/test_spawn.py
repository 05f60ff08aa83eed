"""What is checked and handed over at a start."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.engine.spawn import check_launchable, engine_environment, is_port_free
from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec


def spec(*argv: str, **fields: object) -> LaunchSpec:
    return LaunchSpec(title="Small", preset="small", argv=argv or (sys.executable,), **fields)  # type: ignore[arg-type]


def test_an_engine_gets_a_small_environment_and_none_of_the_panels_secrets() -> None:
    base = {
        "PATH": "/bin",
        "HOME": "/home/a",
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "LD_LIBRARY_PATH": "/cuda",
        "HF_TOKEN": "hf_x",
        "OPENAI_API_KEY": "sk-x",
        "PYTHONPATH": "/home/a/repo",
        "GRADIO_TEMP_DIR": "/x",
        "http_proxy": "http://proxy",
    }
    environment = engine_environment(spec(env={"VLLM_X": "1"}), base=base, marker="a/1/b", temporary="/tmp/t")
    assert environment == {
        "PATH": "/bin",
        "HOME": "/home/a",
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "LD_LIBRARY_PATH": "/cuda",
        "VLLM_X": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "SPT_NOENV": "1",
        "TMPDIR": "/tmp/t",
        "VOLTA_RUN": "a/1/b",
    }


def test_a_preset_may_override_what_is_passed_but_not_the_marker() -> None:
    chosen = {"PATH": "/opt/bin", "VOLTA_RUN": "forged", "TMPDIR": "/elsewhere"}
    environment = engine_environment(spec(env=chosen), base={"PATH": "/bin"}, marker="a/1/b", temporary="/tmp/t")
    assert (environment["PATH"], environment["VOLTA_RUN"], environment["TMPDIR"]) == ("/opt/bin", "a/1/b", "/tmp/t")


def test_what_is_no_program_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not executable")
    (tmp_path / "text").chmod(0o600)
    for program in ("python", "/no/such/program", "/tmp", str(tmp_path / "text")):
        with pytest.raises(LaunchError, match=f"{program} is not a program"):
            check_launchable(spec(program))


def test_a_missing_working_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="does not exist"):
        check_launchable(spec(cwd=str(tmp_path / "none")))


def test_a_port_in_use_is_refused_and_a_free_one_is_not(free_port: Callable[[], int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_port_free("127.0.0.1", port)
        with pytest.raises(LaunchError, match=f"Port {port} on 127.0.0.1 is in use"):
            check_launchable(spec(port=port))
    check_launchable(spec(port=free_port()))


def test_a_port_whose_last_connections_are_still_closing_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = server.accept()
        served.close()  # the server's side closes first and stays in TIME_WAIT
        client.close()
    assert is_port_free("127.0.0.1", port)
