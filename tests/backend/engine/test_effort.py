"""What processes have done so far, from /proc of real ones."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from backend.engine.effort import Effort, read_effort
from tests.fakes.fake_specs import eventually_blocking

READER = "import sys\nwith open('/dev/zero', 'rb') as zeros: zeros.read(50_000_000)\nprint('done', flush=True)\nsys.stdin.read()"
SPINNER = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True)\nimport sys; sys.stdin.read()"


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has done its work and waits."""
    with subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", request.param), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        yield child
        child.kill()


@pytest.mark.parametrize("process", [READER], indirect=True)
def test_bytes_read_are_counted(process: subprocess.Popen[bytes]) -> None:
    read = read_effort([process.pid]).read_bytes
    assert read is not None and read >= 50_000_000


@pytest.mark.parametrize("process", [SPINNER], indirect=True)
def test_processor_time_is_counted(process: subprocess.Popen[bytes]) -> None:
    eventually_blocking(lambda: read_effort([process.pid]).cpu_s >= 0.4, what="processor time")


def test_processes_that_are_gone_add_nothing() -> None:
    assert read_effort([2**22 - 3]) == Effort(None, 0.0)
    assert read_effort([]) == Effort(None, 0.0)
