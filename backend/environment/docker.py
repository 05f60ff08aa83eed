"""The docker client, as far as a probe needs it: an image's id, and a Python run inside an image in a container that goes away."""

import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from backend.environment.probe_child import ChildOutput, is_program, run_child
from backend.errors import SetupError

log = logging.getLogger(__name__)

REMOVAL_S = 20.0
CONTAINER_PREFIX = "volta-probe-"
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_CLIENT_NAMES = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR")
_CLIENT_PREFIX = "DOCKER_"
_VARIABLES = ("COLUMNS=200", "NO_COLOR=1", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "PYTHONIOENCODING=utf-8")


@dataclass(frozen=True)
class Docker:
    """One docker client. Every call blocks, at most until its deadline (time.monotonic())."""

    program: Path
    environ: Mapping[str, str]
    stop: Event | None = None  # ends every call early

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ, *, stop: Event | None = None) -> "Docker":
        """The client on PATH.

        Raises:
            SetupError: there is none.
        """
        found = shutil.which("docker", path=environ.get("PATH"))
        if found is None or not is_program(Path(found)):
            raise SetupError("docker is not installed: there is no such program on the panel's PATH.")
        kept = {name: environ[name] for name in environ if name in _CLIENT_NAMES or name.startswith(_CLIENT_PREFIX)}
        return cls(Path(found), kept, stop)

    def image_id(self, image: str, *, deadline: float) -> str:
        """The id of an image on this machine, which changes with its contents.

        Raises:
            SetupError: the image is not here, or docker does not answer.
        """
        check_image(image)
        done = self._run(("image", "inspect", "--format", "{{.Id}}", image), deadline=deadline)
        if done.returncode != 0 and "no such image" in done.complaints.lower():
            raise SetupError(f"The image {image} is not on this machine.", hint=f"Fetch it first: docker pull {image}")
        if done.returncode != 0 or not done.output.strip():
            raise SetupError(f"docker cannot look at the image {image}: {done.reason}")
        return done.output.split()[0]

    def run_python(self, image: str, words: Sequence[str], *, deadline: float) -> ChildOutput:
        """`python3 WORDS` inside the image, without network, card or folders of this machine.

        Raises:
            SetupError: it did not end in time. Its container is then removed.
        """
        check_image(image)
        name = f"{CONTAINER_PREFIX}{secrets.token_hex(6)}"
        variables = [word for variable in _VARIABLES for word in ("--env", variable)]
        options = ("--rm", "--name", name, "--pull", "never", "--network", "none", *variables)
        try:
            return self._run(("run", *options, "--entrypoint", "python3", image, *words), deadline=deadline)
        except SetupError:
            self._remove(name)
            raise

    def _remove(self, name: str) -> None:
        """The client may be gone and its container not: docker's own server runs it."""
        try:
            words = (str(self.program), "rm", "--force", name)
            run_child(words, deadline=time.monotonic() + REMOVAL_S, environ=self.environ, what="docker")
        except SetupError as err:  # the probe's own failure is what the person has to hear
            log.warning("container %s may be left: %s", name, err)

    def _run(self, words: Sequence[str], *, deadline: float) -> ChildOutput:
        argv = (str(self.program), *words)
        return run_child(argv, deadline=deadline, environ=self.environ, what="docker", stop=self.stop)


def check_image(image: str) -> None:
    """Raises SetupError where this is not an image's name: it goes into a command line."""
    if not _IMAGE.fullmatch(image):
        raise SetupError(f"{image[:80]!r} is not the name of a docker image.", hint="Such as vllm/vllm-openai:v0.19.1")
