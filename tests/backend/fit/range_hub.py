"""A hub for tests: a real HTTP server that gives parts of files, and misbehaves where it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlparse


@dataclass
class RangeHub:
    """Files by name, and what is wrong with this hub."""

    files: dict[str, bytes]
    lengths: dict[str, int] = field(default_factory=dict)  # of files that are longer than their bytes here
    ignores_range: bool = False
    statuses: list[int] = field(default_factory=list)  # given before any file is
    breaks_off: int = 0  # answers that stop in the middle
    stalls: bool = False
    sent_bytes: int = 0
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)  # name, range, authorization
    address: str = ""
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(hub: RangeHub) -> Iterator[RangeHub]:
    """Serve this hub while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(self, hub)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def _answer(handler: BaseHTTPRequestHandler, hub: RangeHub) -> None:
    where = urlparse(handler.path)
    name = parse_qs(where.query).get("FilePath", [unquote(where.path.rpartition("/")[2])])[0]
    asked = handler.headers.get("Range")
    hub.asked.append((name, asked, handler.headers.get("Authorization")))
    if hub.stalls:
        hub.released.wait(30)
    status = hub.statuses.pop(0) if hub.statuses else 200
    if status != 200 or name not in hub.files:
        _send(handler, hub, status if status != 200 else 404, b"", {})
        return
    content = hub.files[name]
    if asked is None or hub.ignores_range:
        _send(handler, hub, 200, content, {})
        return
    first, _, last = asked.removeprefix("bytes=").partition("-")
    part = content[int(first) : int(last) + 1]
    total = hub.lengths.get(name, len(content))
    _send(handler, hub, 206, part, {"Content-Range": f"bytes {first}-{int(first) + len(part) - 1}/{total}"})


def _send(handler: BaseHTTPRequestHandler, hub: RangeHub, status: int, body: bytes, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for key, value in headers.items():
        handler.send_header(key, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if hub.breaks_off and body:
        hub.breaks_off -= 1
        body = body[: len(body) // 2]
        handler.close_connection = True
    handler.wfile.write(body)
    hub.sent_bytes += len(body)
