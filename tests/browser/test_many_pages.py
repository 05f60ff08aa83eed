"""More than one page and more than one life of the panel, with one real engine running throughout."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.test_main_job import ANSWER_TIMEOUT_MS, LONG_QUESTION, ask, open_panel, start_engine
from tests.panel_process import PanelProcess, wait_until

TABS = 8  # a browser opens six connections to a host at most


@pytest.fixture(scope="module", autouse=True)
def engine(chromium: Browser, panel: PanelProcess) -> Iterator[None]:
    with chromium.new_context(locale="en-US") as context:
        page = context.new_page()
        open_panel(page, panel)
        start_engine(page)
    yield


def answer_length(page: Page) -> int:
    return int(page.evaluate("[...document.querySelectorAll('.vp-answer')].at(-1)?.textContent.length ?? 0"))


def test_eight_tabs_of_one_browser_all_stay_live(context: BrowserContext, panel: PanelProcess) -> None:
    pages = [context.new_page() for _ in range(TABS)]
    for page in pages:
        open_panel(page, panel)
        page.get_by_role("tab", name="Chat").click()
    ask(pages[0], LONG_QUESTION)
    for page in pages:
        wait_until(lambda page=page: answer_length(page) > 0, 60, "a tab does not show the answer")
    lengths = [answer_length(page) for page in pages]
    for page, length in zip(pages, lengths, strict=True):
        wait_until(lambda page=page, length=length: answer_length(page) > length, 30, "a tab stopped growing")
    pages[-1].locator("#vp-stop").click()
    for page in pages:
        expect(page.get_by_text("Stopped by you")).to_be_visible()
    assert len({answer_length(page) for page in pages}) == 1
    for page in pages:
        page.close()


def test_two_people_chat_at_once_each_with_their_own_chat(chromium: Browser, panel: PanelProcess) -> None:
    with chromium.new_context(locale="en-US") as one, chromium.new_context(locale="zh-CN") as two:
        pages = [one.new_page(), two.new_page()]
        for page in pages:
            page.goto(panel.address)
        pages[0].locator("#vp-tab-chat-button").click()
        pages[1].locator("#vp-tab-chat-button").click()
        for page, words in zip(pages, ("My number is 73160.", "My number is 98425."), strict=True):
            page.locator("#vp-message textarea").fill(words)
            page.locator("#vp-message textarea").press("Enter")
        for page in pages:
            expect(page.locator(".vp-timing summary").last).to_be_visible(timeout=ANSWER_TIMEOUT_MS)
        assert pages[0].locator(".is-user").all_text_contents() == ["You: My number is 73160."]
        assert pages[1].locator(".is-user").all_text_contents() == ["我: My number is 98425."]
        expect(pages[1].locator(".vp-timing summary").last).to_contain_text("首 token 延迟")


def test_the_language_switches_live_and_keeps_what_was_typed(page: Page, panel: PanelProcess) -> None:
    open_panel(page, panel)
    page.get_by_role("tab", name="Chat").click()
    page.locator("#vp-message textarea").fill("half a thought")
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("tab", name="对话")).to_be_visible()
    expect(page.locator("#vp-send")).to_have_text("发送")
    expect(page.locator("[data-chip] .vp-word")).to_have_text("就绪")
    expect(page.locator("[data-chat]")).to_contain_text("请输入问题", timeout=3000)
    expect(page.locator("#vp-message textarea")).to_have_value("half a thought")
    page.reload()
    expect(page.get_by_role("tab", name="对话")).to_be_visible()
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("tab", name="Chat")).to_be_visible()


def test_settings_of_a_chat_work_and_stay(page: Page, panel: PanelProcess) -> None:
    open_panel(page, panel)
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("button", name="Chat settings").click()
    prompt = page.locator("#vp-system-prompt textarea")
    prompt.fill("You are terse.")
    prompt.blur()
    limit = page.locator("#vp-max-tokens input[type=number]")
    limit.fill("7")
    limit.blur()
    ask(page, "Tell me about the sea.")
    expect(page.get_by_text("Cut at the max tokens setting")).to_be_visible(timeout=ANSWER_TIMEOUT_MS)
    page.reload()
    page.get_by_role("tab", name="Chat").click()
    page.get_by_role("button", name="Chat settings").click()
    expect(page.locator("#vp-system-prompt textarea")).to_have_value("You are terse.")
    expect(page.locator("#vp-max-tokens input[type=number]")).to_have_value("7")


def test_a_phone_shows_everything_without_scrolling_sideways(chromium: Browser, panel: PanelProcess) -> None:
    with chromium.new_context(viewport={"width": 390, "height": 844}, locale="en-US", has_touch=True) as context:
        page = context.new_page()
        open_panel(page, panel)
        for tab in ("Launch", "Chat"):
            page.get_by_role("tab", name=tab).click()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        box = page.locator("#vp-message textarea").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 844


def test_no_request_leaves_the_machine(page: Page, panel: PanelProcess) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_panel(page, panel)
    page.wait_for_timeout(1500)
    assert asked
    assert [url for url in asked if not url.startswith((panel.address, "data:", "blob:"))] == []


def test_a_killed_panel_comes_back_with_its_engine_its_chat_and_its_pages(page: Page, panel: PanelProcess) -> None:
    open_panel(page, panel)
    ask(page, "Say a word about trees.")
    expect(page.locator(".vp-timing summary").last).to_be_visible(timeout=ANSWER_TIMEOUT_MS)
    finished = page.locator(".vp-answer").last.inner_text()
    ask(page, LONG_QUESTION)
    wait_until(lambda: answer_length(page) > 80, 60, "the long answer did not begin")
    engines = {process.pid for process in panel.engine_processes()}

    panel.kill()
    expect(page.locator("body.vp-disconnected")).to_be_attached()
    assert {process.pid for process in panel.engine_processes()} == engines, "the engine did not outlive the panel"
    panel.start()

    expect(page.locator("body:not(.vp-disconnected)")).to_be_attached()
    expect(page.locator('[data-chip] [data-state="ready"]')).to_be_visible()
    expect(page.get_by_text("Interrupted: the panel ended")).to_be_visible()
    assert page.locator(".vp-answer").first.inner_text() == finished
    ask(page, "And one about stones.")
    expect(page.locator(".vp-timing summary").last).to_be_visible(timeout=ANSWER_TIMEOUT_MS)
    page.get_by_role("tab", name="Launch").click()
    expect(page.get_by_text("Found running when the panel started")).to_be_visible()
