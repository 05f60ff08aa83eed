"""Which engines are still to be started in this boot of the machine: boot.json, beside the engines' folders."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from backend.engine.process import current_boot_id
from backend.engine.run_folder import write_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Boot:
    boot_id: str
    todo: tuple[str, ...]  # engines to start that were not yet


_ADAPTER = TypeAdapter(_Boot)


class BootFile:
    """Remembers the boot across panels, so that a panel started twice in it starts its engines once.

    An engine is crossed off before its start: a panel that dies just then rather starts it never than again and again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._boot: _Boot | None = None

    def read(self) -> bool:
        """Read the file; whether it is of the boot that the machine is in now."""
        try:
            boot = _ADAPTER.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, ValidationError) as err:
            log.warning("%s cannot be read, so no engine is started: %s", self._path, err)
            boot = _Boot(current_boot_id(), ())
        self._boot = boot
        return boot.boot_id == current_boot_id()

    def begin(self, engines: Iterable[str]) -> None:
        """Write down that this boot begins with these engines to start."""
        self._save(_Boot(current_boot_id(), tuple(engines)))

    @property
    def todo(self) -> tuple[str, ...]:
        """The engines still to be started."""
        return self._boot.todo if self._boot else ()

    def cross_off(self, engine_id: str) -> bool:
        """This engine is being started; False when that cannot be written down, and it must not be then."""
        if self._boot is None:
            return False
        return self._save(replace(self._boot, todo=tuple(todo for todo in self._boot.todo if todo != engine_id)))

    def _save(self, boot: _Boot) -> bool:
        self._boot = boot
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(self._path, _ADAPTER.dump_python(boot, mode="json"))
        except OSError as err:
            log.error("%s cannot be written, so no engine is started: %s", self._path, err)
            return False
        return True
