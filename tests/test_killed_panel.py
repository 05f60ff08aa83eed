"""kill -9 of a whole panel while two engines run and one starts: the next panel has all three as they are."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from backend.state_folder import StateFolder
from tests.fakes.engine_environment import make_fake_environment
from tests.live_client import LiveClient
from tests.panel_process import PanelProcess, wait_until

pytestmark = pytest.mark.faults

ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))
SHIPPED = Path(__file__).parents[1] / "presets" / "smollm2-135m-cpu.yaml"
SLOW_START_S = 25.0


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[PanelProcess]:
    folder = StateFolder(tmp_path)
    folder.create()
    make_fake_environment(folder)
    for name, options in (("one", ""), ("two", ""), ("slow", f"--slow-start {SLOW_START_S}")):
        values = yaml.safe_load(SHIPPED.read_text())
        values |= {"name": name, "served_name": name, "env": {"FAKE_ENGINE_OPTIONS": options}}
        values["title"] = {"en": f"Engine {name}", "zh": f"引擎 {name}"}
        (folder.presets / f"{name}.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    process = PanelProcess(tmp_path)
    process.start()
    yield process
    process.end()


class Board:
    """The newest content of every slot of one tab."""

    def __init__(self, tab: LiveClient) -> None:
        self._tab = tab

    async def until(self, states: dict[str, str], *, timeout_s: float = 40.0) -> dict[str, str]:
        """Wait until the engines of these titles are in these states; returns their cards."""

        def shown() -> dict[str, str]:
            slots = {f["slot"]: f["html"] for f in self._tab.frames if f["type"] == "slot"}
            heads = [html for slot, html in slots.items() if re.fullmatch(r"engine/\w+", slot)]
            return {name: html for name in states for html in heads if f">Engine {name}<" in html}

        def holds(_: object) -> bool:
            cards = shown()
            return all(f'data-state="{state}"' in cards.get(name, "") for name, state in states.items())

        if not holds(None):
            await self._tab.wait_for(holds, timeout_s=timeout_s)
        return shown()


def leaders(panel: PanelProcess) -> dict[str, int]:
    """Pid of each engine by its preset."""
    found = {}
    for process in panel.engine_processes():
        words = process.cmdline()
        if "--served-model-name" in words and "backend.engine.keeper" not in words:
            found[words[words.index("--served-model-name") + 1]] = process.pid
    return found


@pytest.mark.parametrize("_round", ROUNDS)
async def test_two_running_and_one_starting_are_all_there_again(panel: PanelProcess, _round: int) -> None:
    async with LiveClient(panel.address) as tab:
        for name in ("one", "two"):
            await tab.tell({"do": "engine.start", "preset": name})
        await Board(tab).until({"one": "ready", "two": "ready"})
        await tab.tell({"do": "engine.start", "preset": "slow"})
        await Board(tab).until({"slow": "starting"})
    wait_until(lambda: len(leaders(panel)) == 3, 20, "three engines did not come to life")
    before = leaders(panel)

    panel.kill()
    assert leaders(panel) == before, "an engine did not outlive the panel"
    panel.start()

    async with LiveClient(panel.address) as tab:
        cards = await Board(tab).until({"one": "ready", "two": "ready", "slow": "starting"})
        assert leaders(panel) == before, "an engine was restarted"
        assert all("Run 1<" in html for html in cards.values()), cards
        await Board(tab).until({"slow": "ready"})
        assert leaders(panel) == before
