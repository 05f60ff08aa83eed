"""How the engine is reached: its address, its port, its key, its name."""

import ipaddress
from collections.abc import Iterator

from backend.failure.failure import Fix, FixKind
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import Situation

FIRST_OPEN_PORT = 1024
LOOPBACK = "127.0.0.1"


def port_taken(situation: Situation) -> Iterator[Finding]:
    """Somebody listens there."""
    listen = situation.listen
    if listen.port is None:
        return
    values = {"port": str(listen.port), "who": listen.port_user[:100] or "?"}
    if listen.port_free is False:
        yield Finding("port_taken", Severity.ERROR, values, (Fix(FixKind.PORT),), "port")
    elif listen.port_free is None:
        yield Finding("port_unknown", Severity.HINT, {"port": str(listen.port)}, field="port")


def port_needs_rights(situation: Situation) -> Iterator[Finding]:
    """Ports below 1024 are for root as a rule."""
    port = situation.listen.port
    if port is not None and port < FIRST_OPEN_PORT and situation.listen.port_free is not True:
        yield Finding("port_needs_rights", Severity.WARNING, {"port": str(port)}, (Fix(FixKind.PORT),), "port")


def host_not_here(situation: Situation) -> Iterator[Finding]:
    """An address that this machine does not have cannot be listened on."""
    if situation.listen.host_is_local is False:
        fixes = (Fix(FixKind.HOST, LOOPBACK),)
        yield Finding("host_not_here", Severity.ERROR, {"host": situation.listen.host[:100]}, fixes, "host")


def open_without_key(situation: Situation) -> Iterator[Finding]:
    """Everyone who reaches the address may use the engine."""
    listen = situation.listen
    if not is_loopback(listen.host) and not listen.has_key:
        fixes = (Fix(FixKind.HOST, LOOPBACK),)
        yield Finding("open_without_key", Severity.WARNING, {"host": listen.host[:100]}, fixes, "host")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name that is not localhost is taken for reachable."""
    if host.lower() in ("localhost", "ip6-localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def name_taken(situation: Situation) -> Iterator[Finding]:
    """Another engine that runs serves the same name: clients cannot tell the two apart."""
    if situation.preset.served_name in situation.served_names:
        yield Finding("name_taken", Severity.HINT, {"name": situation.preset.served_name}, field="served_name")


RULES = (port_taken, port_needs_rights, host_not_here, open_without_key, name_taken)
