"""The string table: complete in both languages, every key used, every used key there."""

import re
import string
from pathlib import Path

import pytest

from backend.engine.status import EngineState, GaveUp, NoticeKey, Stage, StopPhase
from backend.environment.environment import EnvironmentKind, EnvironmentState
from backend.environment.views import AttachedState, InstallState
from backend.failure.failure import FixKind
from backend.fit.estimate import SegmentKind, Verdict
from backend.gpu.snapshot import DriverGap, GpuCardState
from backend.known_models import Gap
from backend.launch.engine_kind import EngineKind
from backend.preflight.finding import Severity
from backend.preview.previews import PreviewKind
from ui.launch_form import FIELDS
from ui.render_findings import FIELD_OF
from ui.strings import STRINGS, Language, preferred_language, text

UI = Path(__file__).parents[2] / "ui"
COMPUTED = {
    *(f"state.{state}" for state in EngineState),
    *(f"stage.{stage}" for stage in Stage),
    *(f"gap.{gap}" for gap in DriverGap),
    *(f"card.{state}" for state in GpuCardState),
    *(f"timing.{figure}" for figure in ("ttft", "tpot", "prefill", "decode")),
    *(f"unit.{unit}" for unit in ("s", "min", "h", "d")),
    *(f"fix.{kind}" for kind in FixKind),
    *(f"notice.{key}" for key in NoticeKey),
    *(f"gave_up.{why}" for why in GaveUp),
    *(f"stop.{phase}" for phase in StopPhase),
    *(f"launch.{box}" for box in ("autostart", "restart_on_crash")),
    *(f"log.level_{level}" for level in ("info", "warning", "error")),
    *(f"env.kind_{kind}" for kind in EnvironmentKind),
    *(f"env.add_{kind}" for kind in EnvironmentKind if kind is not EnvironmentKind.MANAGED),
    *(f"env.state_{state}" for state in EnvironmentState),
    *(f"env.install_{state}" for state in InstallState),
    *(f"env.server_{state}" for state in AttachedState),
    *(f"env.runs_{kind}" for kind in EngineKind),
    *(f"preset.needs_{kind}" for kind in EngineKind),
    *(f"field.{field.name}{part}" for field in FIELDS for part in ("", "_cost")),
    *(f"form.severity_{severity}" for severity in Severity),
    *(f"set.{kind}" for kind in FIELD_OF),
    *(f"verdict.{verdict}" for verdict in Verdict),
    *(f"fit.{segment}" for segment in SegmentKind),
    *(f"fit.gap_{gap}" for gap in Gap),
    *(f"preview.{kind}" for kind in PreviewKind),
    *(f"form.{switch}" for switch in ("on", "off")),
}
SAME_IN_BOTH = {
    *("bar.cpu", "launch.curl", "launch.python", "preset.cards_one", "preset.cards_many"),
    *("preview.shell", "preview.docker", "preview.compose"),
}


def fields(words: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(words) if name}


@pytest.mark.parametrize("key", STRINGS)
def test_both_languages_say_it_with_the_same_fields(key: str) -> None:
    english, chinese = STRINGS[key]
    assert english.strip() and chinese.strip()
    assert fields(english) == fields(chinese)
    if key not in SAME_IN_BOTH:
        assert re.search(r"[\u4e00-\u9fff]|token", chinese), f"{key} is not in Chinese: {chinese}"
        assert not re.search(r"[\u4e00-\u9fff]", english)


def test_every_computed_key_is_there() -> None:
    assert COMPUTED - set(STRINGS) == set()


def test_every_string_is_used_and_every_used_string_exists() -> None:
    code = "\n".join(path.read_text() for path in [*UI.glob("*.py"), *UI.glob("assets/*.js")])
    mentioned = set(re.findall(r"""["'`]([a-z_]+(?:\.[a-z_]+)*)["'`]""", code))
    unused = set(STRINGS) - mentioned - COMPUTED
    assert unused == set()
    asked = set(re.findall(r"""(?:text|template|word)\(\s*["']([a-z_]+\.[a-z_]+)["']""", code)) | set(
        re.findall(r"""\w+="((?:chat|tab)\.[a-z_]+)\"""", code)
    )
    assert asked - set(STRINGS) == set()


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", Language.ZH),
        ("en-US,en;q=0.9,zh;q=0.8", Language.EN),
        ("de-DE,de;q=0.9", Language.EN),
        ("fr, zh-TW;q=0.5", Language.ZH),
        ("", Language.EN),
        (";;,,\x00", Language.EN),
    ],
)
def test_the_first_known_language_of_the_browser_wins(header: str, language: Language) -> None:
    assert preferred_language(header) is language


def test_a_missing_field_is_an_error_not_a_gap() -> None:
    with pytest.raises(KeyError):
        text("launch.run", Language.EN)
