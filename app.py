"""The composition root: argv to settings, panel, page and server. Engines outlive it unless told otherwise."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before gradio is imported: no request leaves this machine

import ui.quick_gradio  # noqa: F401  before gradio

# isort: split
import gradio as gr
import uvicorn
from fastapi import FastAPI, WebSocket
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from backend.errors import PanelError, SettingsError
from backend.panel import Panel
from backend.settings import Settings, read_settings
from ui import downloads, page
from ui.live import MAX_MESSAGE_CHARACTERS, serve_live
from ui.theme import FAVICON, page_head, page_theme
from ui.visitor import BrowserCookie

log = logging.getLogger("volta")

SHIPPED_PRESETS = Path(__file__).parent / "presets"
GRADIO_QUEUE_POLL_S = 0.25
BACKLOG = 2048  # connections that wait to be accepted
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def build_app(panel: Panel) -> FastAPI:
    """Panel and page as one ASGI application; the panel is open as long as the application's lifespan."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await panel.open()
        try:
            yield
        finally:
            await panel.close()

    app = FastAPI(title=page.TITLE, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(BrowserCookie)
    # A page of another site whose name resolves to 127.0.0.1 must not be able to speak to the panel.
    app.add_middleware(
        TrustedHostMiddleware, allowed_hosts=[*_LOOPBACK_NAMES, panel.settings.host, *panel.settings.allowed_hosts]
    )

    @app.get("/healthz")
    async def health() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @app.websocket("/live")
    async def live(websocket: WebSocket) -> None:
        await serve_live(panel, websocket)

    app.include_router(downloads.router(panel))
    blocks = page.build(panel)
    slow_the_queue(blocks)
    gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        theme=page_theme(),
        head=page_head(),
        favicon_path=str(FAVICON),
        footer_links=[],
        run_history=False,
        mcp_server=False,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        show_error=False,
    )
    return app


def slow_the_queue(blocks: gr.Blocks) -> None:
    """Let Gradio's two idle loops look for work four times a second.

    They wake every 1 and 10 ms otherwise, for 3-4 % of a core with no page open. Our handlers leave the queue out, so
    nothing waits for it. There is no public setting.
    """
    blocks._queue.sleep_when_free = GRADIO_QUEUE_POLL_S
    blocks._queue.progress_update_sleep_when_free = GRADIO_QUEUE_POLL_S


class Server(uvicorn.Server):
    """uvicorn that tells the person at the terminal, and a browser, when it serves."""

    def __init__(self, config: uvicorn.Config, *, settings: Settings) -> None:
        super().__init__(config)
        self._settings = settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        engines = "engines end with it" if self._settings.stop_engines_on_exit else "engines go on"
        log.info("Volta Panel is at %s (Ctrl+C ends it; %s)", self._settings.address, engines)
        if self._settings.open_browser == "yes" or (self._settings.open_browser == "auto" and has_desktop()):
            # a thread of its own that nobody waits for: a text browser in a terminal never returns
            threading.Thread(target=webbrowser.open, args=(self._settings.address,), daemon=True).start()


def has_desktop() -> bool:
    """Whether a browser window could appear for the person who started us."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and not os.environ.get("SSH_CONNECTION")


def main(argv: Sequence[str]) -> int:
    """Run the panel until it is told to end. Returns the exit status."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        settings = read_settings(argv)
        logging.getLogger().setLevel(settings.log_level.upper())
        for chatty in ("httpx", "httpx2"):  # a line for every health check and every question otherwise
            logging.getLogger(chatty).setLevel(logging.WARNING)
        return _serve(settings)
    except PanelError as err:
        log.error("%s", err)
        return 2


def _serve(settings: Settings) -> int:
    panel = Panel(settings, shipped_presets=SHIPPED_PRESETS)
    panel.take_folder()
    with listening_socket(settings) as listener:
        app = build_app(panel)
        os.chdir(settings.state_folder.work)  # Gradio serves files below the working folder: an empty one
        config = uvicorn.Config(
            app,
            root_path=settings.root_path,
            log_level="warning",
            log_config=None,
            timeout_graceful_shutdown=5,
            ws_max_size=2 * MAX_MESSAGE_CHARACTERS,
            ws_ping_interval=20,
            server_header=False,
            access_log=False,
        )
        server = Server(config, settings=settings)
        asyncio.run(server.serve(sockets=[listener]))
    return 0 if server.started else 1


def listening_socket(settings: Settings) -> socket.socket:
    """The socket to serve on, taken before anything slow is done.

    Raises:
        SettingsError: somebody else listens there.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)  # two can bind, only one can listen
    except OSError as err:
        listener.close()
        raise SettingsError(
            f"Port {settings.port} on {settings.host} cannot be used: {err.strerror}.", hint="Choose another by --port."
        ) from err
    return listener


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
