"""kernels/README.md: its commands exist and its numbers are those of the table and the record."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from dflash2 import cli, compile_gate
from dflash2.variants import HEAD_DIMS

PROJECT = Path(__file__).parents[2] / "kernels"
README = (PROJECT / "README.md").read_text()
COMMANDS = [line.split("#")[0].strip() for line in README.splitlines() if line.startswith("    ")]


def dflash2_commands() -> list[list[str]]:
    """Arguments of every `dflash2 ...` line; brackets mark what is optional."""
    lines = [line for line in COMMANDS if line.startswith("dflash2 ")]
    return [shlex.split(line.replace("[", "").replace("]", ""))[1:] for line in lines]


def test_there_are_commands_to_test() -> None:
    assert len(dflash2_commands()) >= 4


@pytest.mark.parametrize("arguments", dflash2_commands(), ids=" ".join)
def test_every_dflash2_command_is_understood(arguments: list[str]) -> None:
    assert cli.build_parser().parse_args(arguments).command == arguments[0]


def test_the_compile_gate_understands_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compile_gate.main(["--help"])
    known = capsys.readouterr().out
    options = re.findall(r"python -m dflash2\.compile_gate (--\w+)", README)
    assert options
    assert all(option in known for option in options)


def test_every_file_it_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.(?:cu|py|c|json|md))`", README)
    assert named
    for name in named:
        assert (PROJECT / name).exists() or (PROJECT / "dflash2" / name).exists(), name


def test_it_says_which_head_dims_there_are() -> None:
    listed = ", ".join(map(str, HEAD_DIMS))
    assert f"Head dims {listed}" in README


def test_it_says_that_it_is_not_the_public_dflash_2_and_that_nothing_was_measured() -> None:
    assert 'not the public "DFlash 2"' in README
    assert "Nothing in this folder was measured on a V100" in README
