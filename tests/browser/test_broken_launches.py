"""Real engines that fail in twelve ways, each explained on the page by its right cause; three are looked at in a browser."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from backend.environment.environment import find_environment
from backend.state_folder import StateFolder
from tests.fakes.broken_launches import BROKEN_LAUNCHES, BrokenLaunch, make_home, preset_name, release_ports
from tests.live_client import LiveClient, in_own_loop
from tests.panel_process import PanelProcess, wait_until

AT_ONCE = 3  # engines that start at the same time: two cores, and 1 GB each
FAILED_TIMEOUT_S = 240.0
LOOK_TIMEOUT_S = 180.0
NUMBERS = {broken.name: number for number, broken in enumerate(BROKEN_LAUNCHES)}


@pytest.fixture(scope="module")
def panel(prepared: StateFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PanelProcess]:
    folder = StateFolder(tmp_path_factory.mktemp("home"))
    engine = find_environment(prepared, "cpu")
    assert engine is not None
    make_home(folder, prepared, engine)
    process = PanelProcess(folder.root)
    process.start()
    yield process
    release_ports()
    process.end()


class Board:
    """What the page shows, read from the frames of one tab."""

    def __init__(self, tab: LiveClient) -> None:
        self._tab = tab

    def html(self, slot: str) -> str:
        frames = [frame for frame in self._tab.frames if frame["type"] == "slot" and frame["slot"] == slot]
        return frames[-1]["html"] if frames else ""

    async def wait_for_environment(self) -> None:
        """Until the panel has looked at the lab's own Python."""
        async with asyncio.timeout(LOOK_TIMEOUT_S):
            while "runs on the CPU" not in self.html("environment/lab"):
                await asyncio.sleep(0.1)

    async def wait_for_engine(self, title: str) -> str:
        """The id of the engine whose card has this title."""
        async with asyncio.timeout(60):
            while True:
                refused = [frame["text"] for frame in self._tab.frames if frame["type"] == "toast"]
                assert refused == []
                for frame in self._tab.frames:
                    if (
                        frame["type"] == "slot"
                        and re.fullmatch(r"engine/[a-z0-9]+", frame["slot"])
                        and title in frame["html"]
                    ):
                        return str(frame["slot"].removeprefix("engine/"))
                await asyncio.sleep(0.1)

    async def wait_for_rule(self, engine_id: str) -> str:
        async with asyncio.timeout(FAILED_TIMEOUT_S):
            while True:
                found = re.search(r'data-rule="(\w+)"', self.html(f"engine/{engine_id}/now"))
                if found:
                    return found.group(1)
                if 'data-state="ready"' in self.html(f"engine/{engine_id}"):
                    return "ready"
                await asyncio.sleep(0.1)


async def provoke(broken: BrokenLaunch, panel: PanelProcess, tab: LiveClient, turns: asyncio.Semaphore) -> str:
    """Start the broken preset; returns what was wrong with the explanation, "" when it was right."""
    async with turns:
        board = Board(tab)
        await tab.tell({"do": "engine.start", "preset": preset_name(NUMBERS[broken.name])})
        engine_id = await board.wait_for_engine(f"Broken: {broken.name}")
        if broken.meanwhile is not None:
            await asyncio.to_thread(broken.meanwhile, panel, engine_id)
        rule = await board.wait_for_rule(engine_id)
        html = board.html(f"engine/{engine_id}/now")
        if rule not in broken.rules:
            return f"{broken.name}: explained as {rule}: {html}"
        return "" if broken.button in html else f"{broken.name}: no button with {broken.button!r}: {html}"


async def listen(tab: LiveClient) -> None:
    while True:
        await tab.next_frames(timeout_s=FAILED_TIMEOUT_S)


@pytest.mark.timeout(900)
def test_twelve_failures_of_real_engines_are_each_explained_rightly(panel: PanelProcess) -> None:
    wrong = in_own_loop(provoke_all(panel))
    assert [repr(words) for words in wrong if words] == []
    assert panel.engine_processes() == []


async def provoke_all(panel: PanelProcess) -> list[str | BaseException]:
    async with LiveClient(panel.address) as tab:
        listening = asyncio.create_task(listen(tab))
        await Board(tab).wait_for_environment()
        turns = asyncio.Semaphore(AT_ONCE)
        provoked = (provoke(broken, panel, tab, turns) for broken in BROKEN_LAUNCHES)
        wrong = await asyncio.gather(*provoked, return_exceptions=True)
        listening.cancel()
        await asyncio.wait({listening})
    return wrong


def start(page: Page, panel: PanelProcess, name: str) -> str:
    """Start a broken preset by its button; returns the selector of its engine's card once this very run has failed."""
    number = NUMBERS[name]
    open_launch_page(page, panel)
    card = page.locator("[data-engine].vp-engine", has=page.get_by_role("heading", name=f"Broken: {name}", exact=True))
    run = re.search(r"Run (\d+)", card.inner_text()) if card.count() else None
    page.locator(f'[data-preset-card="{preset_name(number)}"] [data-do="engine.start"]').click()
    expect(card.get_by_text(f"Run {int(run.group(1)) + 1 if run else 1}", exact=True)).to_be_visible()
    expect(card.locator("[data-rule]")).to_be_visible(timeout=FAILED_TIMEOUT_S * 1000)
    return f'[data-engine="{card.get_attribute("data-engine")}"].vp-engine'


def open_launch_page(page: Page, panel: PanelProcess) -> None:
    """The page itself chooses a tab once, soon after it has loaded: press until ours stays."""
    page.goto(panel.address)
    presets = page.locator("#vp-launch")
    for _ in range(3):
        page.get_by_role("tab", name="Launch").click()
        page.wait_for_timeout(700)
        if presets.is_visible():
            return
    expect(presets).to_be_visible()


@pytest.mark.parametrize("name", ["context too long", "no tokenizer", "unknown flag"])
def test_a_failure_is_explained_in_the_browser(page: Page, panel: PanelProcess, name: str) -> None:
    card = page.locator(start(page, panel, name))
    assert card.locator("[data-rule]").get_attribute("data-rule") in BROKEN_LAUNCHES[NUMBERS[name]].rules
    expect(card.locator(".vp-what")).not_to_be_empty()
    expect(card.locator(".vp-evidence").first).not_to_be_empty()
    expect(card.locator(".vp-stages .is-broken")).to_be_visible()
    page.get_by_role("button", name="中文").click()
    expect(card.locator(".vp-what")).to_have_text(re.compile(r"[\u4e00-\u9fff]"))
    page.get_by_role("button", name="English").click()


def test_the_button_of_a_failure_mends_it(page: Page, panel: PanelProcess) -> None:
    card = page.locator(start(page, panel, "context too long"))
    card.get_by_role("button", name="Start with 8192 tokens of context").click()
    expect(card.locator('[data-state="ready"]')).to_be_visible(timeout=180_000)
    expect(card.get_by_text("changed: context 8192")).to_be_visible()
    card.get_by_role("button", name="Stop").click()
    expect(card.locator('[data-state="stopped"]')).to_be_visible(timeout=30_000)
    wait_until(lambda: not panel.engine_processes(), 20, "the engine did not end")


def test_a_run_that_failed_keeps_its_log_to_download(page: Page, panel: PanelProcess, tmp_path: Path) -> None:
    card = page.locator(start(page, panel, "unknown flag"))
    with page.expect_download() as download:
        card.get_by_role("link", name="Download").click()
    path = tmp_path / "run.log"
    download.value.save_as(path)
    assert "unrecognized arguments: --swap-space" in path.read_text()
    search = card.get_by_placeholder("Search the log")
    search.fill("unrecognized arguments")
    expect(card.locator(".vp-log > div:visible").first).to_contain_text("unrecognized arguments")
