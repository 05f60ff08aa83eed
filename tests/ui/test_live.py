"""The WebSocket of a page against a real panel process and a real (fake) engine process."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import websockets

from backend.state_folder import StateFolder
from tests.fakes.engine_environment import make_fake_environment
from tests.live_client import LiveClient
from tests.panel_process import PanelProcess

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PanelProcess]:
    folder = StateFolder(tmp_path_factory.mktemp("home"))
    folder.create()
    make_fake_environment(folder, "--ttft", "0.05", "--gap", "0.02")
    process = PanelProcess(folder.root)
    process.start()
    yield process
    process.end()


@pytest.fixture
async def tab(panel: PanelProcess) -> AsyncIterator[LiveClient]:
    async with LiveClient(panel.address) as client:
        yield client


def shows_state(state: str):  # type: ignore[no-untyped-def]
    return lambda frame: frame["type"] == "slot" and frame["slot"] == "bar" and f'data-state="{state}"' in frame["html"]


def is_engine_list(frame):  # type: ignore[no-untyped-def]
    return frame["type"] == "list" and frame["list"] == "engines" and frame["items"]


async def start_engine(tab: LiveClient) -> None:
    await tab.tell({"do": "engine.start", "preset": "smollm2-135m-cpu"})
    await tab.wait_for(shows_state("ready"))


async def answer_of(tab: LiveClient) -> str:
    """The blocks of the next finished answer."""
    frame = await tab.wait_for(lambda frame: frame["type"] == "grow" and not frame["answering"])
    return "".join(frame["blocks"])


async def test_a_question_without_an_engine_is_refused_beside_the_box(tab: LiveClient) -> None:
    await tab.press_send("Anybody?")
    notice = await tab.wait_for(lambda frame: frame["type"] == "slot" and frame["slot"] == "chat/notice")
    assert "No engine is ready to answer" in notice["html"]


async def test_start_ask_stop_over_the_socket(panel: PanelProcess, tab: LiveClient) -> None:
    await start_engine(tab)
    await tab.press_send("Hello?")
    assert "Hello quick1 brown2" in await answer_of(tab)
    engine = next(frame["items"][0][0] for frame in tab.frames if is_engine_list(frame))
    await tab.tell({"watch": [engine]})
    log = await tab.wait_for(lambda frame: frame["type"] == "log")
    assert any("Application startup complete" in text for _, text in log["lines"])
    await tab.tell({"language": "zh"})  # draws the card anew, its log empty
    log = await tab.wait_for(lambda frame: frame["type"] == "log" and frame["reset"])
    assert any("Application startup complete" in text for _, text in log["lines"])
    await tab.tell({"do": "engine.stop", "engine": engine})
    await tab.wait_for(
        lambda frame: (
            frame["type"] == "slot" and frame["slot"] == f"engine/{engine}" and 'data-state="stopped"' in frame["html"]
        )
    )
    assert panel.engine_processes() == []


async def test_two_people_chat_at_once_and_do_not_see_each_other(panel: PanelProcess, tab: LiveClient) -> None:
    await start_engine(tab)
    async with LiveClient(panel.address) as other:
        await asyncio.gather(tab.press_send("First secret"), other.press_send("Second secret"))
        await asyncio.gather(answer_of(tab), answer_of(other))
        assert "Second secret" not in json.dumps(tab.frames)
        assert "First secret" not in json.dumps(other.frames)
        assert "Second secret" in json.dumps(other.frames)


async def test_a_second_tab_of_the_same_browser_sees_the_answer_grow(panel: PanelProcess, tab: LiveClient) -> None:
    await start_engine(tab)
    async with LiveClient(panel.address, cookies=tab.cookies) as twin:
        await tab.press_send("Shared?")
        assert await answer_of(tab) == await answer_of(twin)


async def test_stop_and_clear_end_an_answer_in_the_middle(tab: LiveClient) -> None:
    await start_engine(tab)
    for wish in ("chat.stop", "chat.clear"):
        await tab.press_send("Long?")
        await tab.wait_for(lambda frame: frame["type"] == "grow" and "Hello" in "".join(frame["blocks"]))
        await tab.tell({"do": wish})
        if wish == "chat.stop":
            ended = await tab.wait_for(lambda frame: frame["type"] == "grow" and not frame["answering"])
            assert "Stopped by you" in ended["foot"]
    frame = await tab.wait_for(lambda frame: frame["type"] == "chat")
    assert frame["messages"] == []


@pytest.mark.parametrize(
    "message",
    ['{"do": "engine.stop", "engine": "../../etc"}', '{"do": "no.such"}', '{"do": "engine.start", "preset": ["x"]}'],
)
async def test_a_wrong_wish_changes_nothing_and_the_tab_lives_on(tab: LiveClient, message: str) -> None:
    await tab.tell(json.loads(message))
    await tab.tell({"language": "zh"})
    words = await tab.wait_for(lambda frame: frame["type"] == "words" and frame["language"] == "zh")
    assert words["words"]["copied"] == "已复制"


@pytest.mark.parametrize(
    "garbage", ["", "[", "[]", "null", '"x"', "x" * 1_400_000, "[" * 200_000, '{"watch": 5}', '{"language": {}}']
)
async def test_garbage_does_not_end_the_connection(panel: PanelProcess, tab: LiveClient, garbage: str) -> None:
    socket = await tab.connect()
    async with socket:
        await socket.send(garbage)
        await socket.send('{"language": "zh"}')
        async with asyncio.timeout(15):
            while '"language":"zh"' not in str(await socket.recv()):
                pass


async def test_another_sites_page_is_refused(tab: LiveClient) -> None:
    with pytest.raises(websockets.InvalidStatus):
        await tab.connect(origin="http://evil.example")


async def test_without_the_cookie_nothing_is_told(panel: PanelProcess) -> None:
    with pytest.raises(websockets.InvalidStatus):
        await websockets.connect(
            panel.address.replace("http", "ws") + "live",
            origin=websockets.Origin(panel.address.rstrip("/")),
            proxy=None,
        )


def test_a_foreign_host_name_is_refused(panel: PanelProcess) -> None:
    assert httpx.get(panel.address, headers={"host": "evil.example"}, trust_env=False).status_code == 400


def test_the_browser_cookie_is_out_of_scripts_reach(panel: PanelProcess) -> None:
    cookie = httpx.get(panel.address, trust_env=False).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


def test_a_second_panel_on_the_same_folder_refuses_politely(panel: PanelProcess) -> None:
    second = PanelProcess(panel.home)
    with pytest.raises(AssertionError, match="the panel ended with 2") as caught:
        second.start()
    assert f"Another panel already uses the state folder {panel.home}" in str(caught.value)
    assert str(panel.pid) in str(caught.value)


def test_no_file_of_the_machine_is_served(panel: PanelProcess) -> None:
    for path in (
        "gradio_api/file=/etc/passwd",
        f"gradio_api/file={panel.home}/panel.db",
        "gradio_api/file=../panel.db",
        "../../etc/passwd",
    ):
        assert httpx.get(panel.address + path, trust_env=False).status_code in (403, 404), path


def test_nothing_of_settings_or_paths_is_in_the_config(panel: PanelProcess) -> None:
    config = httpx.get(panel.address + "config", trust_env=False).text
    assert str(panel.home) not in config
    assert str(Path.home()) not in config
