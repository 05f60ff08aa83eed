"""A wish of a preset that the vLLM found cannot fulfil."""

from backend.errors import LaunchError
from backend.launch.notes import Note


class SpellingError(LaunchError):
    """Names the flag, why it cannot be, and what to use instead. `note` is the reason as key and values, for any language."""

    def __init__(self, note: Note, *, flag: str, replacement: str = "", nearest: str = "", choices: str = "") -> None:
        self.note = note
        self.flag = flag  # without dashes
        self.replacement = (
            replacement  # what to write instead, as a person would write it in a preset; "" where nothing
        )
        self.nearest = nearest  # the known flag spelled most like it, without dashes; "" where none is near
        hints = [
            f"Use {replacement} instead." if replacement else "",
            f"Did you mean --{nearest}?" if nearest and not replacement else "",
            f"It knows: {choices}." if choices else "",
        ]
        super().__init__(note.in_language("en"), hint=" ".join(hint for hint in hints if hint))
