"""Snippets: they are valid programs, and no key is in them. The browser test runs them against the engine."""

import shlex
import subprocess

import pytest

from backend.launch.plan import LaunchSpec
from backend.launch.snippets import curl_snippet, python_snippet

PLAIN = LaunchSpec(title="t", preset="p", argv=("/x",), port=8100, served_model='odd"name')
KEYED = LaunchSpec(title="t", preset="p", argv=("/x",), port=8100, served_model="m", secrets=frozenset({"sk-1"}))


@pytest.mark.parametrize("spec", [PLAIN, KEYED])
def test_the_python_snippet_compiles(spec: LaunchSpec) -> None:
    compile(python_snippet(spec), "snippet", "exec")


def test_the_curl_snippet_is_one_command() -> None:
    result = subprocess.run(["bash", "-n", "-c", curl_snippet(KEYED)], capture_output=True, timeout=10, check=False)
    assert result.returncode == 0
    assert shlex.split(curl_snippet(PLAIN).replace("\\\n", ""))[1] == "http://127.0.0.1:8100/v1/chat/completions"


def test_a_key_is_a_variable_never_its_value() -> None:
    for snippet in (python_snippet(KEYED), curl_snippet(KEYED)):
        assert "VOLTA_ENGINE_KEY" in snippet
        assert "sk-1" not in snippet
