"""The model: its files, its class, how long a context it was made for, and whether the cards can share it."""

from collections.abc import Iterator

from backend.failure.failure import Fix, FixKind
from backend.fit.layers import LayerKind
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import EngineModels, ModelSituation, Situation
from backend.preflight.target import flag_of, has_strange_plugins

CONFIG_FILE = "config.json"
SMALLEST_CONTEXT = 64  # that a preset may ask for
MOST_NAMED = 4
_WEIGHT_ENDINGS = (".safetensors", ".bin", ".pt", ".gguf", ".safetensors.index.json")
_SUFFIXES = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel", "Model")
_TRUE_WORDS = frozenset({"1", "true"})


def model_not_here(situation: Situation) -> Iterator[Finding]:
    """The model is not on this machine."""
    if situation.model.folder is None:
        yield Finding("model_not_here", Severity.ERROR, {"model": situation.model.name[:200]}, field="model")


def files_missing(situation: Situation) -> Iterator[Finding]:
    """Files that the engine will look for are not there."""
    missing = situation.model.missing_files
    for rule, names in _by_kind(missing):
        severity = Severity.WARNING if _is_unused(situation, rule) else Severity.ERROR
        yield Finding(rule, severity, {"files": _named(names), "count": str(len(names))}, field="model")
    lost = situation.model.lost_files
    if lost:
        yield Finding("files_lost", Severity.WARNING, {"files": _named(lost), "count": str(len(lost))}, field="model")


def _by_kind(missing: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    tokenizer = tuple(name for name in missing if name.startswith("tokenizer"))
    weights = tuple(name for name in missing if name.endswith(_WEIGHT_ENDINGS))
    config = tuple(name for name in missing if name == CONFIG_FILE)
    others = tuple(name for name in missing if name not in {*tokenizer, *weights, *config})
    kinds = (("config_missing", config), ("tokenizer_missing", tokenizer), ("weights_missing", weights))
    yield from ((rule, names) for rule, names in kinds if names)
    if others:
        yield "files_missing", others


def files_corrupt(situation: Situation) -> Iterator[Finding]:
    """Files that are there and are broken, or not as long as they should be."""
    for problem in situation.model.corrupt_files[:MOST_NAMED]:
        is_weights = problem.file.endswith(_WEIGHT_ENDINGS)
        severity = Severity.WARNING if is_weights and _is_unused(situation, "weights_missing") else Severity.ERROR
        values = {
            "file": problem.file[:100],
            "reason": problem.reason[:200],
            "count": str(len(situation.model.corrupt_files)),
        }
        yield Finding("file_corrupt", severity, values, field="model")


def files_changed(situation: Situation) -> Iterator[Finding]:
    """Files that are whole, and not those that were downloaded."""
    changed = situation.model.changed_files
    if changed:
        yield Finding("files_changed", Severity.HINT, {"files": _named(changed)}, field="model")


def _is_unused(situation: Situation, rule: str) -> bool:
    """Whether a flag makes the engine look elsewhere, or not at all. Files that it does not need do no harm."""
    if rule == "weights_missing":
        return flag_of(situation, "load-format") not in (None, "auto", "safetensors")
    if rule == "tokenizer_missing":
        names = ("tokenizer", "skip-tokenizer-init", "tokenizer-mode")
        return any(flag_of(situation, name) is not None for name in names)
    if rule == "config_missing":
        return flag_of(situation, "hf-config-path") is not None or flag_of(situation, "config-format") is not None
    return False


def model_not_read(situation: Situation) -> Iterator[Finding]:
    """What the model is like is not known, so its context, heads and size could not be checked."""
    model = situation.model
    if model.folder is None or model.facts is not None:
        return
    is_told = bool(model.missing_files or model.corrupt_files)
    if model.facts_error and not is_told:
        yield Finding("facts_unreadable", Severity.WARNING, {"reason": model.facts_error[:200]}, field="model")
    elif not is_told:
        yield Finding("model_not_read", Severity.HINT, {"model": model.name[:200]}, field="model")


def files_not_checked(situation: Situation) -> Iterator[Finding]:
    """Nobody looked whether the files are whole."""
    model = situation.model
    if model.folder is not None and not model.was_checked and model.facts is not None:
        yield Finding("files_not_checked", Severity.HINT, {"model": model.name[:200]}, field="model")


def context_above_model(situation: Situation) -> Iterator[Finding]:
    """More context than the model was made for: vLLM refuses, unless it is told that this is meant."""
    limit = context_limit(situation.model)
    context = situation.preset.context
    if limit is None or context <= limit:
        return
    values = {"context": str(context), "limit": str(limit)}
    fixes = (Fix(FixKind.CONTEXT, str(limit)),) if limit >= SMALLEST_CONTEXT else ()
    allowed = situation.preset.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "").strip().lower() in _TRUE_WORDS
    stretched = any(flag_of(situation, name) is not None for name in ("hf-overrides", "rope-scaling"))
    if allowed or stretched:
        yield Finding("context_stretched", Severity.WARNING, values, fixes, "context")
    else:
        yield Finding("context_above_model", Severity.ERROR, values, fixes, "context")


def context_limit(model: ModelSituation) -> int | None:
    """Tokens that vLLM allows for this model; None: any, or not known."""
    if model.context_limit is not None:
        return model.context_limit
    return model.facts.max_position if model.facts else None


def context_limit_unknown(situation: Situation) -> Iterator[Finding]:
    """The config does not say how long a context the model was made for. vLLM then takes any."""
    if situation.model.facts is not None and context_limit(situation.model) is None:
        yield Finding("context_limit_unknown", Severity.HINT, {"context": str(situation.preset.context)}, (), "context")


def model_class(situation: Situation) -> Iterator[Finding]:
    """vLLM has no such model class. Its own registry decides; without it nothing is claimed."""
    facts, models = situation.model.facts, situation.engine_models
    if facts is None:
        return
    values = {"architecture": facts.architecture or "-", "version": situation.tools.title}
    if models is None or not facts.architecture:
        yield Finding("model_class_unchecked", Severity.HINT, values, field="model")
    elif facts.architecture in models.classes:
        return
    elif facts.architecture in models.removed:
        yield Finding("model_class_removed", Severity.ERROR, values, field="model")
    elif facts.architecture in models.transformers or _has_relative(facts.architecture, models):
        yield Finding("model_class_by_transformers", Severity.HINT, values, field="model")
    else:
        severity = Severity.WARNING if _may_come_from_elsewhere(situation) else Severity.ERROR
        yield Finding("model_class_unknown", severity, values, field="model")


def model_type(situation: Situation) -> Iterator[Finding]:
    """Neither vLLM nor transformers can read a config of this type."""
    facts, models = situation.model.facts, situation.engine_models
    if facts is None or models is None or not models.model_types or not facts.model_type:
        return
    if facts.model_type not in models.model_types:
        values = {"model_type": facts.model_type[:100], "version": situation.tools.title}
        severity = Severity.WARNING if _may_come_from_elsewhere(situation) else Severity.ERROR
        yield Finding("model_type_unknown", severity, values, field="model")


def _may_come_from_elsewhere(situation: Situation) -> bool:
    """A plugin, or the model's own code, may bring what vLLM itself does not list."""
    has_own_code = situation.model.brings_code and flag_of(situation, "trust-remote-code") is True
    overrides = any(flag_of(situation, name) is not None for name in ("hf-overrides", "model-impl", "config-format"))
    return has_own_code or overrides or has_strange_plugins(situation)


def _has_relative(architecture: str, models: EngineModels) -> bool:
    """vLLM takes XForY for XForCausalLM where it has that: it converts classifiers and bare models by their name."""
    stem = architecture.partition("For")[0].removesuffix("Model")
    return bool(stem) and any(stem + suffix in models.classes for suffix in _SUFFIXES)


def own_code(situation: Situation) -> Iterator[Finding]:
    """The model runs Python code of its own."""
    if flag_of(situation, "trust-remote-code") is True and situation.model.brings_code:
        yield Finding("own_code", Severity.WARNING, {"model": situation.model.name[:200]}, field="flags")


def heads_divide(situation: Situation) -> Iterator[Finding]:
    """Tensor parallelism gives each card the same number of heads and columns."""
    preset, facts = situation.preset, situation.model.facts
    if facts is None or preset.gpus < 2 or preset.parallel != "tensor":
        return
    gpus = preset.gpus
    if _divides(situation, gpus):
        return
    fewer = next((count for count in range(gpus - 1, 0, -1) if _divides(situation, count)), None)
    fixes = (Fix(FixKind.GPUS, str(fewer)),) if fewer else ()
    if gpus <= facts.layer_count:
        fixes = (*fixes, Fix(FixKind.PARALLEL, "pipeline"))
    values = {
        "heads": str(facts.attention_heads),
        "kv_heads": str(facts.kv_heads),
        "columns": str(facts.intermediate_size),
        "gpus": str(gpus),
    }
    yield Finding("heads_do_not_divide", Severity.ERROR, values, fixes, "gpus")


def _divides(situation: Situation, gpus: int) -> bool:
    facts = situation.model.facts
    assert facts is not None
    if facts.attention_heads % gpus:
        return False
    has_kv_heads = facts.kv_heads > 0 and not any(layer.kind is LayerKind.MLA for layer in facts.kv_layers)
    if has_kv_heads and facts.kv_heads % gpus and gpus % facts.kv_heads:
        return False
    return bool(facts.experts) or facts.intermediate_size % gpus == 0


def stages_divide(situation: Situation) -> Iterator[Finding]:
    """Pipeline parallelism gives each card at least one layer."""
    preset, facts = situation.preset, situation.model.facts
    if facts is None or preset.parallel != "pipeline" or preset.gpus <= max(1, facts.layer_count):
        return
    values = {"layers": str(facts.layer_count), "gpus": str(preset.gpus)}
    yield Finding("more_cards_than_layers", Severity.ERROR, values, (Fix(FixKind.GPUS, "1"),), "gpus")


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(name[:60] for name in names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown}, …"


RULES = (
    model_not_here,
    files_missing,
    files_corrupt,
    files_changed,
    model_not_read,
    files_not_checked,
    context_above_model,
    context_limit_unknown,
    model_class,
    model_type,
    own_code,
    heads_divide,
    stages_divide,
)
