"""The form's values read back: what was changed, what was not, and what cannot be."""

from pathlib import Path

import pytest

from backend.launch.adjustments import Adjustments
from backend.launch.preset_file import read_preset
from ui.launch_form import FIELDS, FormError, fields_for, preset_value, read_env, read_flags, read_form, shown_values
from ui.strings import Language

PRESETS = Path(__file__).parents[2] / "presets"
CPU = read_preset(PRESETS / "smollm2-135m-cpu.yaml")
V100 = read_preset(PRESETS / "qwen3.8-27b-nvfp4-v100-mtp.yaml")


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_form_that_nobody_touched_changes_nothing(path: Path) -> None:
    preset = read_preset(path)
    assert read_form(preset, shown_values(preset, Adjustments())) == Adjustments()


def test_every_field_of_a_kind_of_engine_is_shown_and_no_other() -> None:
    assert {field.name for field in fields_for(CPU)} >= {"context", "kv_cache_gib", "model"}
    assert "memory_utilization" not in {field.name for field in fields_for(CPU)}
    assert "kv_cache_gib" not in {field.name for field in fields_for(V100)}
    assert len({field.name for field in FIELDS}) == len(FIELDS)


def test_changed_values_are_read_as_their_kinds() -> None:
    fields = {
        **shown_values(V100, Adjustments()),
        "context": "4096",
        "memory_utilization": "0.85",
        "prefix_caching": "on",
        "speculation": "off",
        "flags": "--seed 1\n--no-enable-x\n--hf-overrides '{\"a\": 1}'",
        "env": "A=b=c",
        "environment": "lab",
        "card/GPU-1": True,
        "card/GPU-2": False,
        "host": "0.0.0.0",
        "port": "8123",
        "dropped": "swap-space",
        "model": "owner/other",
    }
    assert read_form(V100, fields) == Adjustments(
        model="owner/other",
        context=4096,
        memory_utilization=0.85,
        prefix_caching=True,
        speculation="off",
        flags={"seed": "1", "enable-x": False, "hf-overrides": '{"a": 1}'},
        env={"A": "b=c"},
        environment="lab",
        cards=("GPU-1",),
        host="0.0.0.0",
        port=8123,
        dropped_flags=("swap-space",),
    )


def test_a_model_of_the_hub_is_called_like_its_repository() -> None:
    adjusted = CPU.adjusted(Adjustments(model="owner/other"))
    assert adjusted.model.name == "other" and adjusted.model.huggingface is not None
    assert adjusted.model.huggingface.repo == "owner/other"
    assert CPU.adjusted(Adjustments(model="plain")).model.huggingface is None


def test_more_cards_ticked_than_the_preset_has_change_their_number() -> None:
    fields = {**shown_values(V100, Adjustments()), "card/GPU-1": True, "card/GPU-2": True}
    assert read_form(V100, fields).gpus == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("context", "many"),
        ("context", "12"),
        ("context", "1e9"),
        ("kv_cache_gib", "nan"),
        ("kv_cache_gib", "inf"),
        ("dtype", "float128"),
        ("prefix_caching", "perhaps"),
        ("port", "80"),
        ("host", "example.com"),
        ("served_name", "x" * 97),
    ],
)
def test_what_cannot_be_is_named_in_both_languages(name: str, value: str) -> None:
    with pytest.raises(FormError) as caught:
        read_form(CPU, {**shown_values(CPU, Adjustments()), name: value})
    assert caught.value.in_language(Language.ZH) != caught.value.in_language(Language.EN)


@pytest.mark.parametrize("line", ["seed 1", "--", "--x 'unclosed"])
def test_a_line_that_is_no_flag_is_named(line: str) -> None:
    with pytest.raises(FormError, match="line 2"):
        read_flags(f"--fine\n{line}")


def test_a_line_that_is_no_variable_is_named_without_its_value() -> None:
    with pytest.raises(FormError) as caught:
        read_env("A=b\nsk-secret-value")
    assert "line 2" in str(caught.value) and "sk-secret" not in str(caught.value)


def test_preset_values_are_texts() -> None:
    assert preset_value(CPU, "eager") == "on"
    assert preset_value(CPU, "max_sequences") == ""
    assert preset_value(V100, "speculation") == "mtp"
