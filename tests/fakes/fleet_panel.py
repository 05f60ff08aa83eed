"""A panel with nothing but engines, to be killed: adopts, launches what it is told, and stays until it is told to end.

    python tests/fakes/fleet_panel.py ENGINES_FOLDER [PRESET [care] FAULT...]...   (presets separated by "--")

With "care" the engine is to be started at boot and again after a crash.

Prints "<engine id> <state> <adopted>" at each change of state, "up" once adoption and launches are done. SIGTERM closes
the fleet and leaves the engines; SIGKILL is the point of it.
"""

import asyncio
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from backend.engine.care import Care  # noqa: E402
from backend.engine.engine import Engine  # noqa: E402
from backend.engine.fleet import Fleet  # noqa: E402
from tests.fakes.fake_specs import QUICK, TEST_PORTS, fake_spec  # noqa: E402

CARE = "care"


def say(words: str) -> None:
    """One line to the test."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


class Reporter:
    """Prints states when they change."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def note(self, engine: Engine) -> None:
        words = f"{engine.engine_id} {engine.status.state} {engine.status.adopted}"
        if self._last.get(engine.engine_id) != words:
            self._last[engine.engine_id] = words
            say(words)


async def main(folder: str, words: list[str]) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    fleet = Fleet(Path(folder), on_change=Reporter().note, first_port=TEST_PORTS, timing=QUICK)
    await fleet.adopt_all()
    while words:
        preset, *faults = words[: words.index("--")]
        words = words[words.index("--") + 1 :]
        options = tuple(f"--{fault}" for fault in faults if fault != CARE)
        engine_id = await fleet.launch(fake_spec(fleet.claim_port(preset), *options, preset=preset))
        if CARE in faults:
            fleet.set_care(engine_id, Care(autostart=True, restart_on_crash=True))
    say("up")
    await ended.wait()
    await fleet.close()


asyncio.run(main(sys.argv[1], sys.argv[2:]))
