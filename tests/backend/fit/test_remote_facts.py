"""Facts from a hub over real HTTP: only headers are fetched, and a hub that misbehaves is named."""

import json
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from backend.fit.facts_error import ModelFactsError
from backend.fit.remote_facts import RemoteLimits, hugging_face_model, modelscope_model, read_remote_facts
from tests.backend.fit.fit_files import SMOLLM, header_bytes, llama_tensors
from tests.backend.fit.range_hub import RangeHub, serving

REPO = "someone/some-model"
PARAMETERS = 134_515_008
QUICK = RemoteLimits(wait_s=0.01)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
        yield client


@pytest.fixture
def hub() -> Iterator[RangeHub]:
    """Two shards. Their tensors are not there: whoever asks for them gets nothing."""
    tensors = llama_tensors(SMOLLM)
    names = list(tensors)
    files, weight_map = {"config.json": json.dumps(SMOLLM).encode()}, {}
    for part in range(2):
        shard = f"model-{part + 1:05d}-of-00002.safetensors"
        files[shard], _ = header_bytes({name: tensors[name] for name in names[part::2]})
        weight_map |= dict.fromkeys(names[part::2], shard)
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    with serving(RangeHub(files)) as hub:
        yield hub


async def test_all_shards_are_known_from_their_headers(client: httpx.AsyncClient, hub: RangeHub) -> None:
    found = await read_remote_facts(client, hugging_face_model(hub.address, REPO))
    assert found.weights is not None
    assert found.weights.parameters == PARAMETERS
    assert hub.sent_bytes < 200_000


async def test_a_single_file_needs_no_index(client: httpx.AsyncClient, hub: RangeHub) -> None:
    del hub.files["model.safetensors.index.json"]
    hub.files["model.safetensors"], _ = header_bytes(llama_tensors(SMOLLM))
    found = await read_remote_facts(client, hugging_face_model(hub.address, REPO))
    assert found.weights is not None
    assert found.weights.parameters == PARAMETERS


async def test_a_repository_without_safetensors_has_facts_without_weights(
    client: httpx.AsyncClient, hub: RangeHub
) -> None:
    hub.files = {"config.json": hub.files["config.json"]}
    found = await read_remote_facts(client, hugging_face_model(hub.address, REPO))
    assert (found.layer_count, found.weights) == (30, None)


async def test_a_header_longer_than_the_first_part_is_fetched_in_two(client: httpx.AsyncClient, hub: RangeHub) -> None:
    found = await read_remote_facts(
        client, hugging_face_model(hub.address, REPO), limits=RemoteLimits(first_bytes=1000)
    )
    assert found.weights is not None
    assert found.weights.parameters == PARAMETERS
    assert [asked for _, asked, _ in hub.asked if asked].count("bytes=0-999") == 2


async def test_a_hub_that_ignores_range_still_answers(client: httpx.AsyncClient, hub: RangeHub) -> None:
    hub.ignores_range = True
    found = await read_remote_facts(
        client, hugging_face_model(hub.address, REPO), limits=RemoteLimits(first_bytes=10_000)
    )
    assert found.weights is not None
    assert found.weights.parameters == PARAMETERS


async def test_modelscope_gets_the_name_as_a_parameter(client: httpx.AsyncClient, hub: RangeHub) -> None:
    found = await read_remote_facts(client, modelscope_model(hub.address, REPO, token="secret"))
    assert found.weights is not None
    assert {who for _, _, who in hub.asked} == {"Bearer secret"}


async def test_a_busy_hub_and_a_connection_that_breaks_off_are_asked_again(
    client: httpx.AsyncClient, hub: RangeHub
) -> None:
    hub.statuses, hub.breaks_off = [503], 1
    found = await read_remote_facts(client, hugging_face_model(hub.address, REPO), limits=QUICK)
    assert found.weights is not None


async def test_a_hub_that_stays_busy_is_named(client: httpx.AsyncClient, hub: RangeHub) -> None:
    hub.statuses = [503] * 3
    with pytest.raises(ModelFactsError, match=r"config\.json could not be read: .*503"):
        await read_remote_facts(client, hugging_face_model(hub.address, REPO), limits=QUICK)


async def test_refused_access_says_what_to_do(client: httpx.AsyncClient, hub: RangeHub) -> None:
    hub.statuses = [401]
    with pytest.raises(ModelFactsError, match="access is refused") as raised:
        await read_remote_facts(client, hugging_face_model(hub.address, REPO))
    assert "licence" in raised.value.hint


async def test_a_silent_hub_is_given_up(client: httpx.AsyncClient, hub: RangeHub) -> None:
    hub.stalls = True
    with pytest.raises(ModelFactsError, match=r"did not answer within 0\.3 s"):
        await read_remote_facts(client, hugging_face_model(hub.address, REPO), limits=RemoteLimits(deadline_s=0.3))


async def test_a_hub_that_is_not_there_is_named(client: httpx.AsyncClient) -> None:
    with pytest.raises(ModelFactsError, match="could not be read: .*connection"):
        await read_remote_facts(client, hugging_face_model("http://127.0.0.1:9", REPO), limits=QUICK)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"<html>", "is not JSON"),
        ("model.safetensors.index.json", b"{}", "weight_map is missing"),
        ("model-00002-of-00002.safetensors", b"\xff" * 64, "is not a safetensors file"),
        ("model-00002-of-00002.safetensors", b"\x40" + bytes(7) + b"{}", "cut off inside its header"),
    ],
)
async def test_a_broken_file_is_named(
    client: httpx.AsyncClient, hub: RangeHub, name: str, content: bytes, message: str
) -> None:
    hub.files[name] = content
    with pytest.raises(ModelFactsError, match=message) as raised:
        await read_remote_facts(client, hugging_face_model(hub.address, REPO))
    assert name in raised.value.message


async def test_a_shard_that_is_missing_is_named(client: httpx.AsyncClient, hub: RangeHub) -> None:
    del hub.files["model-00001-of-00002.safetensors"]
    with pytest.raises(ModelFactsError, match=r"model-00001-of-00002\.safetensors is missing"):
        await read_remote_facts(client, hugging_face_model(hub.address, REPO))


async def test_a_config_without_end_is_not_read_to_its_end(client: httpx.AsyncClient, hub: RangeHub) -> None:
    hub.files["config.json"] = b" " * 1_000_000
    with pytest.raises(ModelFactsError, match="is longer than 1000 bytes"):
        await read_remote_facts(
            client, hugging_face_model(hub.address, REPO), limits=RemoteLimits(most_config_bytes=1000)
        )
