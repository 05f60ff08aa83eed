"""Which model classes an environment's own vLLM and transformers list, read as text: nothing of them is imported."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from backend.environment.environment import EngineEnvironment, EnvironmentKind
from backend.preflight.situation import EngineModels

REGISTRY = "vllm/model_executor/models/registry.py"
MOST_BYTES = 4 * 1024 * 1024
_CONFIGS = "vllm/transformers_utils/config.py"
_TRANSFORMERS = tuple(
    f"transformers/models/auto/{name}.py" for name in ("configuration_auto", "auto_mappings", "modeling_auto")
)
_GONE = frozenset({"_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS"})
_PAIR = re.compile(r"""\(\s*['"]([\w.-]{1,100})['"],\s*['"]([A-Za-z]\w{1,120})['"]""")
_KEYWORD = re.compile(r"^\s{4}([a-z][\w]{1,80})=['\"]", re.MULTILINE)
_QUOTED = re.compile(r"""^\s{4}['"]([\w.-]{1,100})['"]:""", re.MULTILINE)


def read_engine_models(environment: EngineEnvironment, sites: Sequence[str] = ()) -> EngineModels | None:
    """What the environment lists; None where its packages are not on this disk or their lists look otherwise.

    `sites` are its folders of packages as its probe told them.
    """
    if environment.kind not in (EnvironmentKind.MANAGED, EnvironmentKind.PYTHON):
        return None
    folders = [Path(site) for site in sites]
    if environment.kind is EnvironmentKind.MANAGED:
        folders += sorted(environment.venv.glob("lib/python3.*/site-packages"))
    for folder in folders:
        registry = folder / REGISTRY
        try:
            return _read(folder, registry.stat().st_mtime_ns)
        except OSError:
            continue
    return None


@lru_cache(maxsize=16)
def _read(site: Path, modified_ns: int) -> EngineModels | None:
    try:
        tree = ast.parse(_text(site / REGISTRY))
    except (SyntaxError, ValueError, RecursionError):
        return None
    tables = dict(_tables(tree))
    classes = {name for table, names in tables.items() if table not in _GONE for name in names}
    if not classes:
        return None
    removed = {name for table, names in tables.items() if table in _GONE for name in names}
    pairs = [pair for name in _TRANSFORMERS for pair in _PAIR.findall(_text(site / name))]
    types = {model_type for model_type, _ in pairs}
    own = _text(site / _CONFIGS)
    if types and own:
        types |= {*_KEYWORD.findall(own), *_QUOTED.findall(own)}
    return EngineModels(
        classes=frozenset(classes),
        removed=frozenset(removed - classes),
        transformers=frozenset(name for _, name in pairs if not name.endswith("Config")),
        model_types=frozenset(types) if own else frozenset(),
    )


def _tables(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each table of the module and the names that are its keys."""
    for node in tree.body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id.endswith("_MODELS") and isinstance(value, ast.Dict):
            keys = (key.value for key in value.keys if isinstance(key, ast.Constant))
            yield target.id, tuple(key for key in keys if isinstance(key, str))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
