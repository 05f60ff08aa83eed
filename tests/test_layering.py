"""app -> ui -> backend, dflash2 apart, and no engine library in the panel: read from the imports themselves."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGINE_LIBRARIES = {"torch", "vllm", "transformers"}


def imports_of(path: Path) -> Iterator[str]:
    """Top-level names of everything a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0]


def modules_below(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found, f"nothing to check in {folder}"
    return found


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("backend", {"ui", "app", "gradio", "dflash2", *ENGINE_LIBRARIES}),
        ("ui", {"app", "dflash2", "psutil", "pynvml", "openai", "httpx", "sqlite3", "subprocess", *ENGINE_LIBRARIES}),
        ("kernels/dflash2", {"backend", "ui", "app", "gradio"}),
    ],
)
def test_imports_go_one_way(folder: str, forbidden: set[str]) -> None:
    # The scripts that setup runs inside an engine environment are the engine's, not the panel's.
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules_below(folder)
        for name in imports_of(path)
        if name in forbidden
    ]
    assert offences == []


def test_only_ui_and_app_import_gradio() -> None:
    importers = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        if not {".venv", ".venv-kernels"} & set(path.parts) and "gradio" in imports_of(path)
    }
    assert importers - {"tests"} == {"app.py", "ui"}


def test_the_running_panel_loads_no_engine_library() -> None:
    code = f"import sys, app; print(sorted(set(sys.modules) & {ENGINE_LIBRARIES!r}))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"


def test_kernels_is_not_a_package() -> None:
    # transformers looks for a top-level package of that name and would execute ours
    assert not (ROOT / "kernels" / "__init__.py").exists()
