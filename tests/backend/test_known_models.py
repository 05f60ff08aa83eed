"""Facts of models: of a folder read once, of a hub asked beside everything else, and unknown with its reason."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.errors import PanelError
from backend.known_models import KnownModels
from backend.launch.preset import HubSource, ModelSource
from tests.backend.fit.fit_files import SMOLLM, header_bytes, llama_tensors, write_model
from tests.backend.fit.range_hub import RangeHub, serving

HERE = ModelSource(name="here")
THERE = ModelSource(name="there", huggingface=HubSource(repo="owner/there"))


@pytest.fixture
def hub() -> Iterator[RangeHub]:
    header, _ = header_bytes(llama_tensors(SMOLLM))  # its tensors are not there: whoever asks for them gets nothing
    with serving(RangeHub({"config.json": json.dumps(SMOLLM).encode(), "model.safetensors": header})) as hub:
        yield hub


def put_model(models: Path, name: str) -> Path:
    folder = write_model(models / name, SMOLLM, llama_tensors(SMOLLM))
    (folder / "model.json").write_text(json.dumps({"name": name}))
    return folder


async def test_a_folder_is_read_once_and_again_when_its_config_changes(tmp_path: Path) -> None:
    folder = put_model(tmp_path, "here")
    models = KnownModels(tmp_path, hub="http://127.0.0.1:9", on_change=lambda: None)
    first = models.facts(HERE)
    assert models.facts(HERE) is first
    changed = json.dumps({**SMOLLM, "max_position_embeddings": 4096})
    (folder / "config.json").write_text(changed)
    assert models.facts(HERE).max_position == 4096
    assert models.names() == ("here",)


async def test_a_model_on_its_hub_is_known_after_it_was_asked(tmp_path: Path, hub: RangeHub) -> None:
    changed = asyncio.Event()
    models = KnownModels(tmp_path, hub=hub.address, on_change=changed.set)
    models.ask(THERE)
    with pytest.raises(PanelError, match="its hub is being asked"):
        models.facts(THERE)
    async with asyncio.timeout(20):
        await changed.wait()
    assert models.facts(THERE).weights is not None
    asked = len(hub.asked)
    models.ask(THERE)
    assert len(hub.asked) == asked
    await models.close()


async def test_a_hub_that_does_not_answer_is_named_and_not_asked_again_at_once(tmp_path: Path) -> None:
    changed = asyncio.Event()
    models = KnownModels(tmp_path, hub="http://127.0.0.1:9", on_change=changed.set)
    models.ask(THERE)
    async with asyncio.timeout(20):
        await changed.wait()
    with pytest.raises(PanelError, match="asked in vain: .*127.0.0.1:9"):
        models.facts(THERE)
    changed.clear()
    models.ask(THERE)
    await asyncio.sleep(0.2)
    assert not changed.is_set()


async def test_closing_drops_a_hub_that_hangs(tmp_path: Path, hub: RangeHub) -> None:
    hub.stalls = True
    models = KnownModels(tmp_path, hub=hub.address, on_change=lambda: None)
    models.ask(THERE)
    await asyncio.sleep(0.3)
    begun = time.monotonic()
    await models.close()
    assert time.monotonic() - begun < 2


def test_a_model_that_is_nowhere_is_said_so(tmp_path: Path) -> None:
    models = KnownModels(tmp_path, hub="http://127.0.0.1:9", on_change=lambda: None)
    with pytest.raises(PanelError, match="nowhere is not on this machine"):
        models.facts(ModelSource(name="nowhere"))
    assert models.find("nowhere") is None
