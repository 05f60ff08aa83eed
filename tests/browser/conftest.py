"""A real panel process, a real Chromium, and the real CPU engine's environment, for the browser tests."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from backend.environment.environment import find_environment
from backend.state_folder import StateFolder, default_root
from tests.panel_process import PanelProcess

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
# The background flags keep Chromium from looking for its maker's servers at every start.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def find_chromium() -> str:
    """The system's Chromium; without one the tests fail and name the package."""
    path = next((found for found in map(shutil.which, CHROMIUM_NAMES) if found), None)
    if path is None:
        pytest.fail("No Chromium found. Install the package 'chromium' (Debian, Ubuntu: apt-get install chromium).")
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def prepared() -> StateFolder:
    """The state folder that `make test` prepared: it holds the real engine's environment and model."""
    folder = StateFolder(Path(os.environ.get("VOLTA_HOME") or default_root()))
    if find_environment(folder, "cpu") is None:
        pytest.fail(f"No CPU engine is installed in {folder.root}. Run 'make dev' first.")
    return folder


@pytest.fixture(scope="module")
def panel(prepared: StateFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PanelProcess]:
    """A panel with a state folder of its own that borrows the prepared environment and model."""
    home = tmp_path_factory.mktemp("home")
    for name in ("environments", "models"):
        (home / name).symlink_to(getattr(prepared, name))
    process = PanelProcess(home)
    process.start()
    yield process
    process.end()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport={"width": 1360, "height": 860}, locale="en-US")
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
