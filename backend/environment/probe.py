"""What an engine environment can do, asked of the environment itself: versions, GPU architectures, and the flags its --help shows."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from backend.environment.docker import Docker
from backend.environment.environment import EngineEnvironment, EnvironmentKind, write_json
from backend.environment.help_text import parse_help
from backend.environment.probe_child import ChildOutput, run_child
from backend.environment.probe_scripts import (
    FACTS_MARKER,
    FACTS_SCRIPT,
    HELP_WITHOUT_CARD_SCRIPT,
    NO_DEVICE_SIGN,
    SERVER_MODULE,
)
from backend.errors import SetupError

PROBE_TIMEOUT_S = (
    300.0  # three imports of an engine: 20 s, but two minutes were seen on a busy machine with a cold disk
)
REPAIR_HINT = (
    "Run 'make setup SETUP_ARGS=--repair': it checks every file of the environment and installs again what is damaged."
)
PROBE_VARIABLES = {
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONSAFEPATH": "1",
    "PYTHONDONTWRITEBYTECODE": "1",  # somebody else's environment stays as it is
}
# All a probe gets of the panel's environment: no key and no token goes along.
_PASSED_NAMES = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "DOCKER_HOST", "DOCKER_CONFIG")
_PASSED_PREFIXES = ("CUDA_", "NVIDIA_", "CONDA_")
_TUPLES = ("torch_archs", "plugins", "sites")

Asker = Callable[[Sequence[str]], ChildOutput]  # runs the environment's Python with these arguments


@dataclass(frozen=True)
class EnvironmentProbe:
    """One look at an engine environment."""

    identity: str  # of the environment as it was looked at
    taken_at: float  # wall clock
    python: str
    vllm: str | None  # None: installed, and does not say which
    torch: str
    transformers: str | None
    cuda: str | None  # the CUDA version torch was built with; None: a CPU build of torch
    torch_archs: tuple[str, ...]  # such as "sm_70"; empty: a CPU build
    plugins: tuple[str, ...]  # names in the entry point group vllm.general_plugins
    flags: frozenset[str]  # every spelling, such as "--dtype" and "--no-enforce-eager"
    is_cpu_build: bool  # vLLM itself was built for the CPU, whatever its torch was built for
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the flags that list them
    dflash2: str | None = None  # version; None: not installed
    dflash2_error: str = ""  # why it cannot be imported; "": it can
    hip: str | None = None  # the ROCm version torch was built with
    sites: tuple[str, ...] = ()  # its folders of packages

    def supports(self, flag: str) -> bool:
        """Whether the engine's own --help shows this flag."""
        return flag in self.flags

    def age_s(self, now: float) -> float:
        """Seconds since it was taken, `now` being wall clock."""
        return max(0.0, now - self.taken_at)


def last_probe(environment: EngineEnvironment) -> EnvironmentProbe | None:
    """The last probe, whether or not it is still true. Starts no process."""
    try:
        return _from_values(json.loads(environment.probe_file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def cached_probe(environment: EngineEnvironment) -> EnvironmentProbe | None:
    """The last probe, if nothing was installed in the environment since. Starts no process.

    An image's id is not known without docker: its probe counts until is_same_image() says otherwise.
    """
    probe = last_probe(environment)
    if probe is None or environment.kind is EnvironmentKind.DOCKER:
        return probe
    return probe if probe.identity == environment_identity(environment, probe.sites) else None


def probe_environment(environment: EngineEnvironment, *, timeout_s: float = PROBE_TIMEOUT_S) -> EnvironmentProbe:
    """Look at the environment in child processes, and keep what was found in its folder. Blocks for about 10 s.

    Raises:
        SetupError: its Python or its engine cannot be started, or does not answer in time.
        ValueError: an address has no Python to ask.
    """
    probe = look_at(environment, timeout_s=timeout_s)
    keep_probe(environment, probe)
    return probe


def keep_probe(environment: EngineEnvironment, probe: EnvironmentProbe) -> None:
    """Keep what was found in the environment's folder."""
    write_json(environment.probe_file, _to_values(probe))


def look_at(
    environment: EngineEnvironment, *, timeout_s: float = PROBE_TIMEOUT_S, stop: Event | None = None
) -> EnvironmentProbe:
    """The same as probe_environment, leaving nothing behind: its folder need not be there. `stop` ends it early."""
    deadline = time.monotonic() + timeout_s
    if environment.kind is EnvironmentKind.ADDRESS:
        raise ValueError(f"environment {environment.id} is an address")
    if environment.kind is EnvironmentKind.DOCKER:
        docker = Docker.find(stop=stop)
        identity = docker.image_id(environment.image, deadline=deadline)
        return _ask(environment, lambda words: docker.run_python(environment.image, words, deadline=deadline), identity)
    python, what = environment.python, f"The Python {environment.python}"

    def ask(words: Sequence[str]) -> ChildOutput:
        environ = probe_environ(os.environ)
        return run_child((str(python), *words), deadline=deadline, environ=environ, what=what, stop=stop)

    return _ask(environment, ask, None)


def is_same_image(environment: EngineEnvironment, probe: EnvironmentProbe, *, timeout_s: float = 30.0) -> bool:
    """Whether an image is still the one that was looked at. Asks docker.

    Raises:
        SetupError: docker does not say.
    """
    return Docker.find().image_id(environment.image, deadline=time.monotonic() + timeout_s) == probe.identity


def environment_identity(environment: EngineEnvironment, sites: Sequence[str] = ()) -> str:
    """Changes when the environment moves and when a package is installed, updated or removed.

    `sites` are the folders of packages of a Python that is not ours.
    """
    digest = hashlib.sha256(str(environment.folder.resolve()).encode())
    if environment.kind is EnvironmentKind.PYTHON:
        digest.update(f"\n{environment.external_python}".encode())
        infos = [info for site in sites for info in Path(site).glob("*.dist-info")]
    else:
        infos = list(environment.venv.glob("lib/python3.*/site-packages/*.dist-info"))
    for info in sorted(infos):
        digest.update(f"\n{info.name} {info.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def probe_environ(base: Mapping[str, str]) -> dict[str, str]:
    """What a probe's child gets to see."""
    kept = {name: value for name, value in base.items() if name in _PASSED_NAMES or name.startswith(_PASSED_PREFIXES)}
    return {**kept, **PROBE_VARIABLES}


def _ask(environment: EngineEnvironment, ask: Asker, identity: str | None) -> EnvironmentProbe:
    facts = _facts(environment, ask)
    flags, choices = parse_help(_help(environment, ask))
    if not flags:
        raise _broken(environment, "the engine's --help lists no flags")
    sites = tuple(facts["sites"])
    found = identity if identity is not None else environment_identity(environment, sites)
    return _from_values({**facts, "identity": found, "taken_at": time.time(), "flags": flags, "choices": choices})


def _facts(environment: EngineEnvironment, ask: Asker) -> dict[str, Any]:
    done = ask(("-c", FACTS_SCRIPT))
    lines = [line for line in done.output.splitlines() if line.startswith(FACTS_MARKER)]
    if done.returncode != 0 or not lines:
        raise _broken(environment, done.reason)
    try:
        facts: dict[str, Any] = json.loads(lines[-1].removeprefix(FACTS_MARKER))
        return facts
    except ValueError as err:
        raise _broken(environment, "its answer cannot be read") from err


def _help(environment: EngineEnvironment, ask: Asker) -> str:
    """--help=all where the engine has it; plain --help is a list of groups there, but all there is on old ones."""
    done = ask(("-m", SERVER_MODULE, "--help=all"))
    if NO_DEVICE_SIGN in done.complaints:
        done = ask(("-c", HELP_WITHOUT_CARD_SCRIPT, "--help=all"))
    if done.returncode != 0:
        done = ask(("-m", SERVER_MODULE, "--help"))
    if done.returncode != 0:
        raise _broken(environment, done.reason)
    return done.output


def _broken(environment: EngineEnvironment, reason: str) -> SetupError:
    name = environment.image or environment.external_python or environment.id
    hint = REPAIR_HINT if environment.kind is EnvironmentKind.MANAGED else ""
    return SetupError(f"The engine environment {name} cannot be used: {reason.rstrip('.')}.", hint=hint)


def _to_values(probe: EnvironmentProbe) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(probe).items() if name not in ("flags", "choices")},
        "flags": sorted(probe.flags),
        "choices": dict(probe.choices),
    }


def _from_values(values: Mapping[str, Any]) -> EnvironmentProbe:
    lists = {name: tuple(values[name]) for name in _TUPLES}
    choices = {name: tuple(words) for name, words in values["choices"].items()}
    return EnvironmentProbe(**{**values, **lists, "flags": frozenset(values["flags"]), "choices": choices})
