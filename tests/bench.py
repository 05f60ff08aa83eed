"""What the panel costs: start, memory, CPU, and the delay it adds to a first token. python -m tests.bench [--quick]"""

import argparse
import asyncio
import contextlib
import datetime
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from openai import AsyncOpenAI
from playwright.sync_api import sync_playwright

from backend.state_folder import StateFolder
from tests.browser.conftest import CHROMIUM_FLAGS, find_chromium
from tests.fakes.engine_environment import make_fake_environment
from tests.live_client import LiveClient
from tests.panel_process import ROOT, PanelProcess, free_port, wait_until
from tests.tiers import cpu_model

ENGINE_TTFT_S = 0.05
ENGINE_GAP_S = 0.02
QUESTION = "How long does it take?"


@dataclass(frozen=True)
class Row:
    """One figure and its limit, if there is one."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    def line(self) -> str:
        verdict = "" if self.limit is None else "ok" if self.value <= self.limit else "TOO MUCH"
        limit = "" if self.limit is None else f"≤ {self.limit:g}"
        return f"| {self.name} | {self.value:.2f} {self.unit} | {limit} | {verdict} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter: 10 s for each CPU figure, 10 questions")
    quick = parser.parse_args().quick
    seconds, questions = (10.0, 10) if quick else (60.0, 60)
    with tempfile.TemporaryDirectory() as home, panel_with_fake_engine(Path(home)) as panel:
        rows = [
            Row("panel: process start to first page", median_first_page(), "s", 2.0),
            *bare_rows(seconds),
            *panel_rows(panel, seconds),
            *asyncio.run(delay_rows(panel, questions)),
        ]
    print(f"\n{cpu_model()}, {os.cpu_count()} cores, {datetime.date.today().isoformat()}, `make bench`\n")
    print("| figure | value | limit | |\n|---|---|---|---|")
    print("\n".join(row.line() for row in rows))
    return 0 if all(row.limit is None or row.value <= row.limit for row in rows) else 1


@contextlib.contextmanager
def panel_with_fake_engine(home: Path) -> Iterator[PanelProcess]:
    """A panel whose preset starts the fake engine, with a known TTFT and pace."""
    folder = StateFolder(home)
    folder.create()
    make_fake_environment(folder, "--ttft", str(ENGINE_TTFT_S), "--gap", str(ENGINE_GAP_S))
    panel = PanelProcess(home)
    panel.start()
    try:
        yield panel
    finally:
        panel.end()


def median_first_page() -> float:
    """Seconds from exec to a served page, median of three starts on an empty state folder."""
    times = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as home:
            panel = PanelProcess(Path(home))
            panel.start()
            assert panel.first_page_s is not None
            times.append(panel.first_page_s)
            panel.end()
    return statistics.median(times)


def bare_rows(seconds: float) -> list[Row]:
    """The framework alone, in the same setting."""
    port = free_port()
    process = subprocess.Popen((sys.executable, "-m", "tests.fakes.bare_gradio", str(port)), cwd=ROOT)
    try:
        address = f"http://127.0.0.1:{port}/"
        wait_until(lambda: _answers(address), 60, "the bare page did not come up")
        with page_open(address):
            cpu = cpu_percent(process.pid, seconds)
        return [
            Row("bare Gradio: memory (RSS)", rss_mib(process.pid), "MiB"),
            Row("bare Gradio: CPU, a page open", cpu, "% of a core"),
        ]
    finally:
        process.terminate()
        process.wait(timeout=20)


def panel_rows(panel: PanelProcess, seconds: float) -> list[Row]:
    """The panel with its engine running and nobody asking."""
    no_page = cpu_percent(panel.pid, seconds)
    with page_open(panel.address, start_engine=True):
        with_page = cpu_percent(panel.pid, seconds)
    return [
        Row("panel process: memory (RSS)", rss_mib(panel.pid), "MiB", 200),
        Row("panel: CPU, no page", no_page, "% of a core", 2.5),
        Row("panel: CPU, a page open, an engine ready", with_page, "% of a core", 2.5),
    ]


@contextlib.contextmanager
def page_open(address: str, *, start_engine: bool = False) -> Iterator[None]:
    """Chromium showing the page; with the engine started and ready where asked."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_FLAGS))
        page = browser.new_page()
        page.goto(address)
        if start_engine:
            page.locator("#vp-tab-launch-button").click()
            page.locator('[data-do="engine.start"][data-preset="smollm2-135m-cpu"]').click()
            page.locator('[data-engine] [data-state="ready"]').wait_for(timeout=60_000)
        page.wait_for_timeout(2000)
        yield
        browser.close()


async def delay_rows(panel: PanelProcess, questions: int) -> list[Row]:
    """First token at the page's WebSocket, from pressing Send, against a direct client's; in turn, in one run."""
    async with LiveClient(panel.address) as tab:
        await tab.wait_for(lambda frame: frame["type"] == "slot" and 'data-state="ready"' in frame["html"])
        engine_port = int(_engine_port(panel))
        client = AsyncOpenAI(base_url=f"http://127.0.0.1:{engine_port}/v1", api_key="none")
        direct, through = [], []
        for number in range(questions + 2):
            pair = await direct_ttft(client), await panel_ttft(tab)
            if number >= 2:  # the first two warm the connections
                direct.append(pair[0])
                through.append(pair[1])
    delays = [1000 * (b - a) for a, b in zip(direct, through, strict=True)]
    return [
        Row("direct client: TTFT, median", 1000 * statistics.median(direct), "ms"),
        Row("page: TTFT, median", 1000 * statistics.median(through), "ms"),
        Row("added to a first token, median", statistics.median(delays), "ms", 5.0),
        Row("added to a first token, 90th percentile", statistics.quantiles(delays, n=10)[-1], "ms"),
    ]


async def direct_ttft(client: AsyncOpenAI) -> float:
    begun = time.perf_counter()
    stream = await client.chat.completions.create(
        model="smollm2-135m", messages=[{"role": "user", "content": QUESTION}], max_tokens=8, stream=True
    )
    first = None
    async for chunk in stream:
        if first is None and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter()
    assert first is not None
    return first - begun


async def panel_ttft(tab: LiveClient) -> float:
    await tab.tell({"do": "chat.clear"})
    await tab.wait_for(lambda frame: frame["type"] == "chat" and not frame["messages"])
    begun = time.perf_counter()
    await tab.press_send(QUESTION)
    await tab.wait_for(lambda frame: frame["type"] == "grow" and "Hello" in "".join(frame["blocks"]))
    seconds = time.perf_counter() - begun
    await tab.wait_for(lambda frame: frame["type"] == "grow" and not frame["answering"])
    return seconds


def _engine_port(panel: PanelProcess) -> str:
    command = next(p.cmdline() for p in panel.engine_processes() if "--port" in p.cmdline())
    return command[command.index("--port") + 1]


def cpu_percent(pid: int, seconds: float) -> float:
    """CPU of a process and its children over a while, in percent of one core. Engines are not its children."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    begun = [process.cpu_times() for process in processes]
    time.sleep(seconds)  # the measurement itself
    ended = [process.cpu_times() for process in processes]
    return 100 * sum((b.user + b.system) - (a.user + a.system) for a, b in zip(begun, ended, strict=True)) / seconds


def rss_mib(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 2**20


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    sys.exit(main())
