"""Where the panel keeps what must survive it: the paths of one state folder, and nothing else.

Layout (ids are short random strings, never names or indexes):

    panel.db                       chats
    panel.lock                     held by the one live panel
    panel.json                     who holds it: pid and address
    secrets.json                   0600
    engines/<id>/record.json       what the engine was started with
    engines/<id>/runs/<n>/         log, process and exit records of one run
    environments/<id>/             an engine's Python environment
    models/<id>/                   a model folder
    presets/                       the lab's own presets
    work/                          an empty working folder
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

import platformdirs

_ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"  # no 0/o, 1/l/i: ids are read aloud in a lab


def new_id() -> str:
    """A short random id, 8 characters, safe as a file name and in a URL."""
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(8))


def default_root() -> Path:
    """The state folder used when no setting names another (honours XDG_DATA_HOME)."""
    return Path(platformdirs.user_data_dir("volta-panel", appauthor=False))


@dataclass(frozen=True)
class StateFolder:
    """Paths below one root. `create` makes the folders, everything else only names them."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "panel.db"

    @property
    def lock(self) -> Path:
        return self.root / "panel.lock"

    @property
    def holder(self) -> Path:
        """Who holds the lock, for the message to a second panel."""
        return self.root / "panel.json"

    @property
    def secrets(self) -> Path:
        return self.root / "secrets.json"

    @property
    def engines(self) -> Path:
        return self.root / "engines"

    @property
    def environments(self) -> Path:
        return self.root / "environments"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def presets(self) -> Path:
        return self.root / "presets"

    @property
    def work(self) -> Path:
        """An empty folder engines and the panel run in, so that no file of the user's is importable or served."""
        return self.root / "work"

    def create(self) -> None:
        """Make the root (0700: it holds logs and chats) and its subfolders; existing ones are left alone."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.engines, self.environments, self.models, self.presets, self.work):
            folder.mkdir(exist_ok=True, mode=0o700)
