"""The very command that will run, as text that runs as printed: shell line, docker run, docker compose, systemd unit.

No text holds a secret: a variable stands in its place, and a comment above says which one is to be set.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec
from backend.preview.compose import compose_text, compose_variables
from backend.preview.container import in_container, is_docker
from backend.preview.shell import shell_variables
from backend.preview.systemd import unit_name, unit_text, unit_variables


class PreviewKind(StrEnum):
    """The forms a command is shown in."""

    SHELL = "shell"
    DOCKER = "docker"
    COMPOSE = "compose"
    SYSTEMD = "systemd"


@dataclass(frozen=True)
class Preview:
    """One form of a command."""

    kind: PreviewKind
    title: str  # the key of its title among the page's words: "preview.shell"
    text: str  # where there is no such form: a comment that says why
    refusal: str = ""  # why there is no such form

    @property
    def is_refused(self) -> bool:
        """Whether this command has no such form."""
        return bool(self.refusal)


def previews(spec: LaunchSpec, *, image: str | None = None) -> tuple[Preview, ...]:
    """Every form of the command, one of each kind.

    `image` is what a Python environment's command would run in; None where no image is known to do the same. A docker
    command keeps its own, and its shell line is its docker run.
    """
    forms: dict[PreviewKind, Callable[[], str]] = {
        PreviewKind.SHELL: lambda: shell_line(spec),
        PreviewKind.DOCKER: lambda: docker_run(spec, image),
        PreviewKind.COMPOSE: lambda: docker_compose(spec, image),
        PreviewKind.SYSTEMD: lambda: systemd_unit(spec),
    }
    if is_docker(spec):
        del forms[PreviewKind.SHELL]
    return tuple(_preview(kind, form) for kind, form in forms.items())


def shell_line(spec: LaunchSpec) -> str:
    """`LaunchSpec.shell_line` below a comment that names the variables to export. Raises LaunchError."""
    _check_bash_can_hold((*spec.argv, *spec.env.values(), spec.cwd))
    names = shell_variables(spec.argv, spec.env, cwd=spec.cwd, secrets=spec.secrets)
    return _export_first(names) + spec.shell_line() + "\n"


def docker_run(spec: LaunchSpec, image: str | None) -> str:
    """The command as docker run; a docker command is its own. Raises LaunchError."""
    return shell_line(_container(spec, image))


def docker_compose(spec: LaunchSpec, image: str | None) -> str:
    """The command as the file compose.yaml. Raises LaunchError."""
    container = _container(spec, image)
    return f"# compose.yaml: docker compose up\n{_export_first(compose_variables(container))}{compose_text(container)}"


def systemd_unit(spec: LaunchSpec) -> str:
    """The command as a unit of one's own user's systemd. Raises LaunchError."""
    name, variables = unit_name(spec), unit_variables(spec)
    head = [
        f"# ~/.config/systemd/user/{name}.service",
        f"# systemctl --user daemon-reload && systemctl --user enable --now {name}",
    ]
    if variables:
        head += [
            f"# First write ~/.config/volta-panel/{name}.env (mode 600), a line for each: "
            + ", ".join(f"{variable}=…" for variable in variables),
            "# As a unit of the whole machine: /etc/systemd/system, and the file in /etc/volta-panel.",
        ]
    return "\n".join(head) + "\n" + unit_text(spec)


def _container(spec: LaunchSpec, image: str | None) -> LaunchSpec:
    if image is None and not is_docker(spec):
        raise LaunchError("No docker image is known that does the same as this environment.")
    return in_container(spec, image or "")


def _export_first(names: tuple[str, ...]) -> str:
    return f"# Set it first, it is a secret: export {' '.join(names)}\n" if names else ""


def _preview(kind: PreviewKind, form: Callable[[], str]) -> Preview:
    title = f"preview.{kind}"
    try:
        return Preview(kind, title, form())
    except LaunchError as err:
        reason = " ".join(err.message.split())
        return Preview(kind, title, f"# {reason}\n", refusal=reason)


def _check_bash_can_hold(words: Iterable[str]) -> None:
    """bash marks quoted characters with these two and loses them in places: such a word would not arrive as printed."""
    if any("\x01" in word or "\x7f" in word for word in words):
        raise LaunchError("A text of the command holds a control character that bash cannot be given.")
