"""Engine tests look at /dev/shm as a whole, so no two of them may run at once; other tests may, beside them."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("engine"))
