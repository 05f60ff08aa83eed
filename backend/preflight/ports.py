"""Whether a port can be listened on, and who has it."""

import errno
import ipaddress
import socket

import psutil

from backend.engine.listener import listener_pids

LOOPBACK = "127.0.0.1"


def ask_port(host: str, port: int) -> tuple[bool | None, bool | None]:
    """Whether the port can be listened on, and whether the address is this machine's; None: not known.

    Takes it for a moment, in the way that a server does. A name is not looked up: that may take long.
    """
    bare = LOOPBACK if host.lower() == "localhost" else host.strip("[]")
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(bare).version == 6 else socket.AF_INET
    except ValueError:
        return None, None
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bare, port))
        except OSError as err:
            if err.errno == errno.EADDRINUSE:
                return False, True
            return None, False if err.errno == errno.EADDRNOTAVAIL else None
        except OverflowError:
            return None, None
    return True, True


def port_user(port: int) -> str:
    """Who listens on it, as far as we may see: "nginx (812)"."""
    for pid in sorted(listener_pids(port)):
        try:
            return f"{psutil.Process(pid).name()} ({pid})"
        except psutil.Error:
            continue
    return ""
