"""The errors the panel raises on purpose.

PanelError
├── PresetError        a preset file breaks the schema
├── SettingsError      a setting has a value the panel refuses
├── LaunchError        an engine cannot be planned or started
├── StateFolderBusy    another panel owns the state folder
├── ChatError          a message cannot be sent
├── SetupError         an environment or a model cannot be installed, checked or probed
└── NotAllowed         the viewer's role does not permit the action
"""


class PanelError(Exception):
    """Something a person can act on: `message` names the thing and the value, `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class PresetError(PanelError):
    """A preset file breaks the schema; the message names file and key."""


class SettingsError(PanelError):
    """A setting has a value that the panel refuses to start with."""


class LaunchError(PanelError):
    """An engine cannot be planned or started as asked."""


class StateFolderBusy(PanelError):
    """Another live panel owns this state folder."""


class ChatError(PanelError):
    """A message cannot be sent: no engine, an answer still running, or a value out of range."""


class SetupError(PanelError):
    """An environment or a model cannot be installed, checked or probed."""


class NotAllowed(PanelError):
    """The viewer's role does not permit the action."""
