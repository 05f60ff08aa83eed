"""The main job in a real browser with the real engine: start, watch the stages, chat, see the timing, stop."""

import re
import subprocess
import sys
import time

from playwright.sync_api import Page, expect

from tests.panel_process import PanelProcess, wait_until

READY_TIMEOUT_MS = 180_000
ANSWER_TIMEOUT_MS = 90_000
LONG_QUESTION = "Write a long story about a small robot that explores a forest."

# Notes when the answer's text first appears and when it last grows, by the browser's own clock.
WATCH_ANSWER = """() => {
  window.seen = {sent: performance.now(), first: null, last: null, lengths: []};
  const length = () => [...document.querySelectorAll('.vp-answer')].at(-1)?.textContent.length ?? 0;
  const before = document.querySelectorAll('.vp-message').length;
  new MutationObserver(() => {
    if (document.querySelectorAll('.vp-message').length <= before) return;
    const now = length();
    if (now > (window.seen.lengths.at(-1) ?? 0)) {
      window.seen.first ??= performance.now();
      window.seen.last = performance.now();
      window.seen.lengths.push(now);
    }
  }).observe(document.querySelector('[data-chat]'), {subtree: true, childList: true, characterData: true});
}"""


# Collects every stage that was ever the present one: a small model passes some of them within one poll of a test.
WATCH_STAGES = """() => {
  window.stages = new Set();
  const look = () => document.querySelectorAll('.vp-stages .is-now').forEach((item) => window.stages.add(item.dataset.stage));
  new MutationObserver(look).observe(document.getElementById('vp-launch'), {subtree: true, childList: true});
}"""


def open_panel(page: Page, panel: PanelProcess) -> None:
    page.goto(panel.address)
    expect(page.locator("#vp-engines")).to_be_visible()


def start_engine(page: Page) -> set[str]:
    """Press Start on the embedded preset and wait until it is ready; returns the stages seen on the way."""
    page.get_by_role("tab", name="Launch").click()
    page.evaluate(WATCH_STAGES)
    page.locator('[data-do="engine.start"][data-preset="smollm2-135m-cpu"]').click()

    def is_ready() -> bool:
        failed = page.locator('[data-engine] [data-state="failed"]')
        assert failed.count() == 0, page.locator("[data-engine]").first.inner_text()
        return page.locator('[data-engine] [data-state="ready"]').count() == 1

    wait_until(is_ready, READY_TIMEOUT_MS / 1000, "the engine was not ready in time", every_s=0.2)
    return set(page.evaluate("[...window.stages]"))


def ask(page: Page, words: str) -> None:
    page.get_by_role("tab", name="Chat").click()
    box = page.locator("#vp-message textarea")
    box.fill(words)
    box.press("Enter")


def figure(page: Page, name: str) -> float:
    """A figure under the last answer, in ms or tok/s."""
    words = page.locator(f'.vp-timing summary [data-figure="{name}"]').last.inner_text()
    match = re.search(r"([\d.]+)\s*(ms|s|tok/s)", words)
    assert match, words
    return float(match[1]) * (1000 if match[2] == "s" else 1)


def test_from_an_empty_panel_to_a_timed_answer_and_back(page: Page, panel: PanelProcess) -> None:
    open_panel(page, panel)
    expect(page.get_by_text("Nothing has been started yet")).to_be_visible()

    stages = start_engine(page)
    assert "imports" in stages and stages & {"weights", "kv_cache", "warm_up"}, stages
    expect(page.locator("[data-log] div").first).to_be_attached()
    expect(page.locator('[data-chip] [data-state="ready"]')).to_be_visible()

    page.get_by_role("tab", name="Chat").click()
    page.evaluate(WATCH_ANSWER)
    ask(page, "Name three colours, then count from one to twenty in words.")
    expect(page.locator(".vp-timing summary").last).to_be_visible(timeout=ANSWER_TIMEOUT_MS)
    seen = page.evaluate("window.seen")
    ttft, tpot = figure(page, "ttft"), figure(page, "tpot")
    assert len(seen["lengths"]) >= 3, "the answer did not stream"
    assert 0 < ttft <= seen["first"] - seen["sent"] + 20
    tokens = re.search(r"(\d+) → (\d+)", page.locator('[data-figure="tokens"]').last.inner_text())
    assert tokens
    if int(tokens[2]) > 16:  # flushes of 50 ms blur a short answer's pace
        observed = (seen["last"] - seen["first"]) / (int(tokens[2]) - 1)
        assert abs(tpot - observed) <= max(8.0, 0.35 * observed), (tpot, observed)
    assert page.locator(".vp-timing").last.get_attribute("data-source") == "engine"

    ask(page, LONG_QUESTION)
    expect(page.locator("body.vp-answering")).to_be_attached()
    wait_until(lambda: len(page.locator(".vp-answer").last.inner_text()) > 30, 60, "the long answer did not begin")
    page.reload()
    expect(page.locator("body.vp-answering")).to_be_attached()
    before = len(page.locator(".vp-answer").last.inner_text())
    assert before > 30, "what had arrived before the reload is gone"
    wait_until(lambda: len(page.locator(".vp-answer").last.inner_text()) > before + 20, 60, "the answer did not go on")

    page.locator("#vp-stop").click()
    expect(page.get_by_text("Stopped by you")).to_be_visible()
    stopped_at = page.locator(".vp-answer").last.inner_text()
    time.sleep(0.5)  # long enough for twenty tokens, had it not stopped
    assert page.locator(".vp-answer").last.inner_text() == stopped_at

    run_snippets(page)
    page.locator('[data-do="engine.stop"]').click()
    expect(page.locator('[data-engine] [data-state="stopped"]')).to_be_visible(timeout=30_000)
    assert panel.engine_processes() == []


def run_snippets(page: Page) -> None:
    """The Python and curl snippets work as pasted."""
    page.get_by_role("tab", name="Launch").click()
    page.get_by_text("Use it from your own program").click()
    python, curl = (page.locator(".vp-fold[open] .vp-snippet pre").nth(number).inner_text() for number in (0, 1))
    for command in ((sys.executable, "-c", python), ("bash", "-c", f"{curl} --fail --silent --show-error")):
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr
        assert result.stdout.strip()
