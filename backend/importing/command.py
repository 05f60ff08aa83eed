"""A pasted `vllm serve`, server module or `docker run` command as a preset. Nothing of the text is ever run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from backend.errors import PresetError
from backend.importing.docker import DockerRun, read_docker_run
from backend.importing.draft import Draft, Import
from backend.importing.flags import GivenFlag, read_flags
from backend.importing.shell import Statement, fill, read_statements
from backend.launch.engine_kind import EngineKind
from backend.launch.preset import Words
from backend.launch.removed_flags import is_removed

SERVER_MODULE = "vllm.entrypoints.openai.api_server"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_DOCKER = frozenset({"docker", "podman", "nerdctl", "nvidia-docker"})
_ORIGIN = Words(
    en="Made from a pasted command. Look through it before the first start: it was written for another machine.",
    zh="由粘贴的命令生成。命令原本是为另一台机器写的，首次启动前请先检查一遍。",
)


@dataclass
class _Found:
    """What the statements held."""

    commands: list[tuple[str, ...]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # set on lines of their own, for filling in
    env: dict[str, str] = field(default_factory=dict)  # what the engine would have seen


def import_command(text: str, *, engine: EngineKind | None = None) -> Import:
    """The preset that does what the command does, and what was left out or read differently.

    `engine` is the kind to make it for; None: what the command itself suggests, else a CUDA engine.

    Raises:
        PresetError: it starts no vLLM server, or holds what only a shell could answer; the piece is named.
    """
    draft = Draft(origin=_ORIGIN, engine=engine)
    found = _Found()
    for statement in read_statements(text):
        _read_statement(statement, found, draft)
    if not found.commands:
        raise PresetError(
            "There is no vLLM server in it.",
            hint=f"Looked for: vllm serve, python -m {SERVER_MODULE}, docker run of an image of vLLM.",
        )
    if len(found.commands) > 1:
        raise PresetError("It starts more than one server; paste one command at a time.")
    for name, value in found.env.items():
        draft.add_env(name, value)
    add_command(draft, found.commands[0])
    return draft.finish()


def add_command(draft: Draft, words: Sequence[str]) -> None:
    """One command, its variables filled in, into the draft. Raises PresetError."""
    if words[0].startswith("-"):
        add_arguments(draft, words)
        return
    head = _head(words)
    if head is None:
        raise PresetError(f"This starts no vLLM server: {_shown(words)}")
    start, length = head
    before = [word for word in words[:start] if not _ASSIGNMENT.fullmatch(word) and word != "env"]
    if before:
        draft.note("wrapper_left_out", value=" ".join(before))
    for word in words[:start]:
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment:
            draft.add_env(assignment[1], assignment[2])
    arguments = words[start + length :]
    if PurePosixPath(words[start]).name in _DOCKER:
        _add_docker(draft, read_docker_run(arguments))
    else:
        add_arguments(draft, arguments)


def add_arguments(draft: Draft, words: Sequence[str], *, folders: Mapping[str, str] | None = None) -> None:
    """The server's own arguments into the draft; `folders` are a container's folders and where they lie outside."""
    line = read_flags(words)
    for spelled, whole in line.abbreviations:
        draft.note("abbreviation", name=spelled, value=f"--{whole}")
    if len(line.positional) > 1:
        raise PresetError(f"Only one model can be served, and these words belong to no flag: {_shown(line.positional)}")
    if line.positional:
        draft.model = _outside(line.positional[0], folders or {})
    for flag in line.flags:
        if flag.name == "model" and isinstance(flag.value, str):
            flag = GivenFlag("model", _outside(flag.value, folders or {}), flag.spelled)
        if is_removed(flag.name):
            draft.note("older_flag", name=flag.name)
        draft.add_flag(flag)


def _read_statement(statement: Statement, found: _Found, draft: Draft) -> None:
    """One statement: a server's command, assignments, or something else, which is left out."""
    if statement.left_out:
        draft.note("shell_left_out", value=" ".join(statement.left_out))
    words = tuple(fill(word, found.variables) for word in statement.words)
    if words[0].startswith("-") or _head(words) is not None:
        found.commands.append(words)
        return
    exported = words[0] in ("export", "setx", "set", "declare")
    assignments = [_ASSIGNMENT.fullmatch(word) for word in words[1 if exported else 0 :]]
    if assignments and all(assignments):
        pairs = {match[1]: match[2] for match in assignments if match}
        found.variables |= pairs
        if exported:
            found.env |= pairs
        return
    draft.note("line_left_out", line=str(statement.line), value=_shown(words))


def _head(words: Sequence[str]) -> tuple[int, int] | None:
    """Where the server's command begins, and how many words name it; None where there is none."""
    for at, word in enumerate(words):
        name = PurePosixPath(word.replace("\\", "/")).name.removesuffix(".exe")
        rest = words[at + 1 :]
        if name == "vllm" and rest[:1] == ("serve",):
            return at, 2
        if name in _DOCKER and (rest[:1] == ("run",) or rest[:2] == ("container", "run")):
            return at, 2 + rest.index("run")
        if re.fullmatch(r"python[\d.]*", name) and "-m" in rest:
            module = rest.index("-m") + 1
            if rest[module : module + 1] == (SERVER_MODULE,):
                return at, module + 2
            if rest[module : module + 2] == ("vllm.entrypoints.cli.main", "serve"):
                return at, module + 3
    return None


def _add_docker(draft: Draft, run: DockerRun) -> None:
    draft.note("docker_image", value=run.image)
    if run.left_out:
        draft.note("docker_left_out", value=" ".join(run.left_out))
    if run.cards:
        draft.note("cards_left_out", value=f"--gpus {run.cards}")
    for name, value in run.env.items():
        draft.add_env(name, value)
    if draft.engine is None and re.search(r"vllm[-_/].*cpu|cpu.*vllm", run.image):
        draft.engine = EngineKind.CPU
    words = run.arguments
    if len(words) == 3 and PurePosixPath(words[0]).name in ("bash", "sh") and words[1] in ("-c", "-lc"):
        inner = read_statements(words[2])
        if len(inner) != 1:
            raise PresetError(f"{words[0]} {words[1]} must hold one command to be understood: {_shown(words[2:])}")
        words = tuple(fill(word, run.env) for word in inner[0].words)
    head = _head(words)
    if head is not None:
        words = words[head[0] + head[1] :]
    elif words[:1] == ("serve",):
        words = words[1:]
    add_arguments(draft, words, folders=run.folders)


def _outside(model: str, folders: Mapping[str, str]) -> str:
    """Where a model that a container sees lies on the machine."""
    for inside, outside in sorted(folders.items(), key=lambda pair: -len(pair[0])):
        if model == inside or model.startswith(f"{inside}/"):
            return outside + model[len(inside) :]
    return model


def _shown(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 80 else f"{text[:79]}…"
