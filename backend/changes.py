"""A version counter that others can wait on: it says that something changed, never what."""

import asyncio


class Changes:
    """Readers remember the version they have seen and wait for a newer one, so a slow reader skips and never queues.

    Belongs to one event loop; from another thread use loop.call_soon_threadsafe(changes.notify).
    """

    def __init__(self, *, first_version: int = 0) -> None:
        self._version = first_version
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def version(self) -> int:
        """Grows by one with each notify()."""
        return self._version

    def notify(self) -> None:
        """Say that something changed. Never blocks; costs nothing but the addition while nobody waits."""
        self._version += 1
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seen: int, timeout_s: float) -> int:
        """The current version, as soon as it differs from `seen`, and after `timeout_s` in any case."""
        if self._version != seen:
            return self._version
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        finally:
            self._waiters.discard(waiter)
        return self._version
