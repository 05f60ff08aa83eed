"""Who asks: the viewer, language and trustworthiness of a request, read from its cookies and headers."""

import re
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.viewer import Role, Viewer
from ui.strings import Language, preferred_language

BROWSER_COOKIE = "volta_browser"
LANGUAGE_COOKIE = "volta_language"
_BROWSER_ID = re.compile(r"[0-9a-f]{32}")
_YEAR_S = 365 * 24 * 3600


def viewer_of(cookies: Mapping[str, str]) -> Viewer | None:
    """The viewer behind a request; None before the browser has got its cookie. Everybody is the local admin for now."""
    browser = cookies.get(BROWSER_COOKIE, "")
    return Viewer(user="local", role=Role.ADMIN, browser=browser) if _BROWSER_ID.fullmatch(browser) else None


def language_of(cookies: Mapping[str, str], headers: Mapping[str, str], *, default: str = "auto") -> Language:
    """The language a person chose, else the setting, else what the browser prefers."""
    chosen = cookies.get(LANGUAGE_COOKIE, "")
    if chosen in set(Language):
        return Language(chosen)
    if default != "auto":
        return Language(default)
    return preferred_language(headers.get("accept-language", ""))


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a WebSocket was opened by our own page: browsers send cookies along from any site's."""
    return urlsplit(headers.get("origin", "")).netloc == headers.get("host", "")


class BrowserCookie:
    """Middleware: gives every browser that opens a page a random id, readable by no script."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or _has_browser_id(scope):
            await self._app(scope, receive, send)
            return
        cookie = f"{BROWSER_COOKIE}={secrets.token_hex(16)}; Path=/; Max-Age={_YEAR_S}; HttpOnly; SameSite=Lax"

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def _has_browser_id(scope: Scope) -> bool:
    header = next((value for name, value in scope["headers"] if name == b"cookie"), b"").decode("latin-1")
    return viewer_of(cookie_parser(header)) is not None
