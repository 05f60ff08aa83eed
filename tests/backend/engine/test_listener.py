"""Whose port it is, read from the kernel's tables with real sockets."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable

from backend.engine.listener import is_strangers, listener_pids


def test_the_process_that_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listener_pids(port) == {os.getpid()}
        assert not is_strangers(port, [os.getpid()])
        assert is_strangers(port, [1])


def test_a_listener_on_all_addresses_of_both_families_is_found() -> None:
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        assert listener_pids(server.getsockname()[1]) == {os.getpid()}


def test_a_port_without_a_listener_is_nobodys(free_port: Callable[[], int]) -> None:
    port = free_port()
    assert listener_pids(port) == frozenset()
    assert not is_strangers(port, [])


def test_a_connection_is_not_a_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert listener_pids(client.getsockname()[1]) == frozenset()


def test_a_worker_that_inherited_the_socket_counts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        command = (sys.executable, "-I", "-S", "-c", "print(flush=True); input()")
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(server.fileno(),))
        with worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            assert listener_pids(server.getsockname()[1]) == {os.getpid(), worker.pid}
            assert not is_strangers(server.getsockname()[1], [worker.pid])
            worker.kill()
