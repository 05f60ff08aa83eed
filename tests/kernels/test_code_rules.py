"""Rules of the tree that no reviewer should have to remember: types, lint, directions of import, no top-level package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from dflash2.extras import PREDICT_HINT, VALIDATE_HINT

PROJECT = Path(__file__).parents[2] / "kernels"
PACKAGE = PROJECT / "dflash2"
CHECK_TIMEOUT_S = 300
# torch is optional: only these modules may import it, and dflash2 itself never imports them on its own.
MAY_IMPORT_TORCH = {"ops.py", "tensors.py"}


def run_check(*arguments: str) -> None:
    """Run a checker in the project's folder; its output is the failure."""
    result = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def top_level_imports(path: Path) -> set[str]:
    """Top packages that a module imports when it is imported itself."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def every_import(path: Path) -> set[str]:
    """Top packages that a module imports anywhere."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_types_are_strict() -> None:
    run_check("mypy", "--config-file", "pyproject.toml", "dflash2")


def test_lint_is_clean() -> None:
    run_check("ruff", "check", "dflash2", "setup.py")


def test_dflash2_imports_neither_the_panel_nor_an_engine() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not every_import(path) & {"backend", "ui", "gradio", "vllm", "transformers"}, path


def test_torch_is_imported_by_the_operators_only() -> None:
    importers = {path.name for path in PACKAGE.rglob("*.py") if "torch" in top_level_imports(path)}
    assert importers == MAY_IMPORT_TORCH


def test_kernels_is_no_package() -> None:
    """transformers would import a top-level `kernels` in place of its own."""
    assert not (PROJECT / "__init__.py").exists()


def test_the_extras_that_hints_name_exist() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for hint in (PREDICT_HINT, VALIDATE_HINT):
        (extra,) = re.findall(r"\./kernels\[(\w+)\]", hint)
        assert extra in project["optional-dependencies"]
