"""What planning needs to know of an engine environment, and whether it has a flag."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backend.launch.engine_kind import EngineKind


@dataclass(frozen=True)
class EngineTools:
    """One engine environment as planning sees it: how it is called, and what its own --help lists."""

    kind: EngineKind
    python: Path | None = None  # its interpreter; None for a docker image
    image: str | None = None  # a docker image
    docker: Path = Path("/usr/bin/docker")  # the client that runs the image
    environment: str = ""  # id
    flags: frozenset[str] = frozenset()  # with dashes, such as "--dtype"; empty: not probed yet
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the flags that list them, with dashes
    vllm: str | None = None  # its version, such as "0.19.1"
    plugins: tuple[str, ...] = ()  # names in the entry point group vllm.general_plugins

    @property
    def is_probed(self) -> bool:
        """Whether its flags are known."""
        return bool(self.flags)

    @property
    def version(self) -> tuple[int, ...] | None:
        """The version's numbers, (0, 19, 1); None where it is not known."""
        match = re.match(r"\d+(\.\d+)*", self.vllm or "")
        return tuple(int(part) for part in match.group().split(".")) if match else None

    @property
    def title(self) -> str:
        """How sentences call it: 'vLLM 0.19.1'."""
        return f"vLLM {self.vllm}" if self.vllm else "this vLLM"

    def has(self, flag: str) -> bool:
        """Whether it knows the flag, given without dashes. Not probed: every flag is taken for known."""
        return not self.flags or f"--{flag}" in self.flags

    def allows(self, flag: str, value: str) -> bool:
        """Whether the value is among the choices listed for the flag; true where none are listed."""
        listed = self.choices.get(f"--{flag}", ())
        return not listed or value in listed

    def is_older_than(self, *version: int) -> bool:
        """Whether it is known to be older than this version."""
        return self.version is not None and self.version < version

    def nearest(self, flag: str) -> str:
        """The known flag that is spelled most like this one, without dashes; "" where none is near."""
        known = sorted(name.removeprefix("--") for name in self.flags if name.startswith("--"))
        return next(iter(difflib.get_close_matches(flag, known, n=1, cutoff=0.7)), "")
