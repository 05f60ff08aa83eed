"""The edge: real folders, a real port, this machine's processes, files of /proc and /sys as the driver writes them."""

import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backend.environment.environment import EngineEnvironment, EnvironmentKind, EnvironmentState
from backend.gpu.snapshot import DriverGap, GpuCard, GpuCardState, GpuSnapshot, GpuView, NoDriver
from backend.host import read_host
from backend.launch.adjustments import Adjustments
from backend.launch.models import read_model
from backend.preflight.capability import capability_of
from backend.preflight.collect import Surroundings, collect, is_open_module
from backend.preflight.context_limit import context_limit
from backend.preflight.engine_models import read_engine_models
from backend.preflight.examine import examine
from backend.preflight.model_files import look_at_folder
from backend.preflight.ports import ask_port
from backend.preflight.situation import Situation
from backend.reading import Missing, MissingReason
from tests.backend.preflight.situations import CONFIG, GIB, preset, tools

UNKNOWN = Missing(MissingReason.UNSUPPORTED)


def shard(path: Path, *names: str) -> None:
    """A safetensors file with tensors of 4 bytes."""
    header = json.dumps(
        {
            name: {"dtype": "F16", "shape": [2], "data_offsets": [4 * at, 4 * at + 4]}
            for at, name in enumerate(names or ("a",))
        }
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * len(names or ("a",))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model in two shards."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(CONFIG))
    (made / "tokenizer.json").write_text("{}")
    (made / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    shard(made / "model-1.safetensors", "a")
    shard(made / "model-2.safetensors", "b")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (made / "model.safetensors.index.json").write_text(json.dumps(index))
    files = {path.name: {"bytes": path.stat().st_size} for path in made.iterdir()}
    (made / "model.json").write_text(json.dumps({"name": "A-Model", "files": files}))
    return made


def snapshot(number: int, **changes: Any) -> GpuSnapshot:
    values: dict[str, Any] = {
        "uuid": f"GPU-{number}",
        "bus_id": f"0000:0{number}:00.0",
        "index": number,
        "name": "Tesla V100-SXM2-32GB",
        "taken_at": 0.0,
        "memory_used_bytes": number * GIB,
        "memory_total_bytes": 32 * GIB,
        "process_memory_bytes": {},
    }
    others = ("core_temperature_c", "memory_temperature_c", "utilization_percent", "power_w", "power_limit_w")
    return GpuSnapshot(**{**values, **dict.fromkeys(others, UNKNOWN), **changes})


def gpu(number: int, state: GpuCardState = GpuCardState.OK, **changes: Any) -> GpuCard:
    return GpuCard(f"0000:0{number}:00.0", state, 0.0, "", snapshot(number, **changes))


def collected(folder: Path | None, view: GpuView | None = None, **changes: Any) -> Situation:
    key = changes.pop("api_key", None)
    surroundings = Surroundings(view or GpuView(), read_host(Path("/")), (), "", key)
    values: dict[str, Any] = {
        "tools": tools(),
        "model": read_model("A-Model", folder) if folder else None,
        "facts": None,
        "chosen": (),
        "adjustments": Adjustments(),
        "port": None,
        "surroundings": surroundings,
    }
    return collect(changes.pop("preset", preset()), **{**values, **changes})


# the model's folder


def test_a_whole_folder_has_nothing_missing_or_broken(folder: Path) -> None:
    report = look_at_folder(folder)
    assert (report.missing, report.lost, report.corrupt, report.changed) == ((), (), (), ())
    assert report.template_dates is False


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model-2.safetensors"])
def test_a_file_that_the_engine_needs_is_missed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert look_at_folder(folder).missing == (name,)


def test_a_tokenizer_of_another_kind_will_do(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"x")
    report = look_at_folder(folder)
    assert report.missing == () and report.lost == ("tokenizer.json",)


def test_weights_are_missed_where_there_are_none_of_any_format(folder: Path) -> None:
    for path in folder.glob("model*.safetensors*"):
        path.unlink()
    assert look_at_folder(folder).missing == ("*.safetensors",)
    (folder / "pytorch_model.bin").write_bytes(b"x")
    assert look_at_folder(folder).missing == ()


@pytest.mark.parametrize("bytes_off", [-1, 1])
def test_a_shard_that_is_not_as_long_as_its_header_says_is_corrupt(folder: Path, bytes_off: int) -> None:
    path = folder / "model-2.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] if bytes_off < 0 else content + b"x")
    (problem,) = look_at_folder(folder).corrupt
    assert problem.file == "model-2.safetensors" and str(len(content)) in problem.reason


@pytest.mark.parametrize("content", [b"", b"not a header", b"\xff" * 64])
def test_a_shard_without_a_header_is_corrupt(folder: Path, content: bytes) -> None:
    (folder / "model-1.safetensors").write_bytes(content)
    assert [problem.file for problem in look_at_folder(folder).corrupt] == ["model-1.safetensors"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors.index.json"])
def test_json_that_is_cut_off_is_corrupt(folder: Path, name: str) -> None:
    (folder / name).write_text('{"a": ')
    assert [problem.file for problem in look_at_folder(folder).corrupt] == [name]


def test_an_index_that_names_a_file_outside_is_corrupt(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    assert [problem.file for problem in look_at_folder(folder).corrupt] == ["model.safetensors.index.json"]


def test_sizes_are_held_against_the_record_of_the_download(folder: Path) -> None:
    record = json.loads((folder / "model.json").read_text())
    record["files"] |= {"pytorch_model.bin": {"bytes": 9}, "gone.txt": {"bytes": 1}, "../../etc/passwd": {"bytes": 1}}
    (folder / "model.json").write_text(json.dumps(record))
    (folder / "pytorch_model.bin").write_bytes(b"short")
    (folder / "tokenizer_config.json").write_text('{"edited": 1}')
    report = look_at_folder(folder)
    assert report.lost == ("gone.txt",) and report.changed == ("tokenizer_config.json",)
    assert [(problem.file, problem.reason) for problem in report.corrupt] == [("pytorch_model.bin", "5 of 9 bytes")]


def test_a_template_that_writes_the_day_is_noticed(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ strftime_now('%d %b %Y') }}")
    assert look_at_folder(folder).template_dates is True


def test_a_folder_that_is_not_there_lacks_everything(tmp_path: Path) -> None:
    assert look_at_folder(tmp_path / "none").missing == ("config.json", "tokenizer.json", "*.safetensors")


def test_broken_weights_leave_the_other_facts(folder: Path) -> None:
    (folder / "model-1.safetensors").write_bytes(b"")
    model = collected(folder).model
    assert model.facts is not None and model.facts.head_dim == 128 and model.context_limit == 32768


# how long a context


@pytest.mark.parametrize(
    ("config", "version", "limit"),
    [
        ({"max_position_embeddings": 4096}, None, 4096),
        ({"n_positions": 1024, "seq_length": 2048}, None, 1024),
        ({"text_config": {"max_position_embeddings": 8192}, "max_position_embeddings": 7}, None, 8192),
        ({}, None, None),
        ({"max_position_embeddings": "many"}, None, None),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, None, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, None, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": None}}, None, 4096),
        ({"max_position_embeddings": 4096, "model_max_length": 8192}, None, 8192),
    ],
)
def test_the_longest_context_is_read_as_vllm_reads_it(
    config: dict[str, Any], version: tuple[int, ...] | None, limit: int | None
) -> None:
    assert context_limit(config, version) == limit


def test_yarn_is_counted_by_version_and_unknown_versions_take_the_longer() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    config = {"max_position_embeddings": 40960, "rope_parameters": yarn}
    assert context_limit(config, (0, 19, 1)) == 131072
    assert context_limit(config, (0, 32, 0)) == 40960
    assert context_limit(config, None) == 131072


# what the environment lists


def environment(folder: Path, kind: EnvironmentKind = EnvironmentKind.MANAGED) -> EngineEnvironment:
    return EngineEnvironment("e", "cpu", folder, EnvironmentState.READY, kind=kind, image="vllm")


def test_model_classes_are_read_from_the_environments_own_registry(tmp_path: Path) -> None:
    site = tmp_path / "venv/lib/python3.12/site-packages"
    registry = site / "vllm/model_executor/models/registry.py"
    registry.parent.mkdir(parents=True)
    registry.write_text(
        "raise SystemExit('never run')\n"
        '_TEXT_GENERATION_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM")}\n'
        '_PREVIOUSLY_SUPPORTED_MODELS: dict[str, str] = {"GrokForCausalLM": "0.24"}\n'
        "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n"
    )
    auto = site / "transformers/models/auto/modeling_auto.py"
    auto.parent.mkdir(parents=True)
    auto.write_text('M = [("llama", "LlamaConfig"), ("fnet", "FNetModel")]')
    own = site / "vllm/transformers_utils/config.py"
    own.parent.mkdir()
    own.write_text('_CONFIG_REGISTRY = LazyConfigDict(\n    chatglm="ChatGLMConfig",\n)\n')
    found = read_engine_models(environment(tmp_path))
    assert found is not None
    assert found.classes == {"LlamaForCausalLM"} and found.removed == {"GrokForCausalLM"}
    assert found.transformers == {"FNetModel"} and found.model_types == {"llama", "fnet", "chatglm"}


def test_an_image_or_a_registry_that_looks_otherwise_lists_nothing(tmp_path: Path) -> None:
    assert read_engine_models(environment(tmp_path, EnvironmentKind.DOCKER)) is None
    assert read_engine_models(environment(tmp_path)) is None
    registry = tmp_path / "site/vllm/model_executor/models/registry.py"
    registry.parent.mkdir(parents=True)
    registry.write_text("def broken(:")
    assert read_engine_models(environment(tmp_path), (str(tmp_path / "site"),)) is None


# cards, driver, port


def test_the_chosen_cards_are_told_with_who_uses_them() -> None:
    view = GpuView((gpu(1), gpu(2, process_memory_bytes={os.getpid(): GIB, 2**30: 5})), None, "580.95.05")
    found = collected(None, view, chosen=("GPU-2",))
    assert [card.uuid for card in found.cards] == ["GPU-2"] and [card.uuid for card in found.others] == ["GPU-1"]
    assert found.cards[0].capability == (7, 0) and found.driver_version == "580.95.05"
    users = found.cards[0].users
    assert users is not None and users[0].name != "" and users[0].bytes == GIB and users[1].name == ""


def test_where_no_card_could_be_chosen_those_with_room_are_looked_at() -> None:
    view = GpuView((gpu(1, GpuCardState.LOST), gpu(9), gpu(3)))
    assert [card.uuid for card in collected(None, view).cards] == ["GPU-3"]
    lost = collected(None, view, adjustments=Adjustments(cards=("GPU-1",)))
    assert any(finding.rule == "card_dropped" for finding in examine(lost))


def test_memory_of_a_card_that_cannot_be_read_stays_unknown() -> None:
    view = GpuView((gpu(1, memory_used_bytes=UNKNOWN, process_memory_bytes=UNKNOWN),))
    (card,) = collected(None, view).cards
    assert card.used_bytes == UNKNOWN and card.users is None


def test_a_missing_driver_still_tells_its_modules_version() -> None:
    gap = NoDriver(DriverGap.VERSION_MISMATCH, "They differ.", module_version="590.44")
    found = collected(None, GpuView(no_driver=gap))
    assert found.driver_version == "590.44" and found.card_gap == gap


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build", True),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23", False),
        (None, None),
    ],
)
def test_the_open_kernel_module_is_told_by_proc(tmp_path: Path, text: str | None, is_open: bool | None) -> None:
    if text is not None:
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
        (tmp_path / "proc/driver/nvidia/version").write_text(text)
    assert is_open_module(tmp_path) is is_open


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla V100-PCIE-16GB", (7, 0)),
        ("NVIDIA TITAN V", (7, 0)),
        ("Quadro GV100", (7, 0)),
        ("Tesla T4", (7, 5)),
        ("NVIDIA GeForce RTX 2080 Ti", (7, 5)),
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA RTX A6000", (8, 6)),
        ("NVIDIA GeForce RTX 3090", (8, 6)),
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("NVIDIA RTX 6000 Ada Generation", (8, 9)),
        ("NVIDIA L40S", (8, 9)),
        ("NVIDIA H200", (9, 0)),
        ("NVIDIA B200", (10, 0)),
        ("NVIDIA GeForce RTX 5090", (12, 0)),
        ("Tesla P40", (6, 1)),
        ("A card of tomorrow", None),
    ],
)
def test_a_cards_capability_is_known_by_its_name(name: str, capability: tuple[int, int] | None) -> None:
    assert capability_of(name) == capability


def test_a_port_is_asked_by_taking_it_for_a_moment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ask_port("127.0.0.1", port) == (False, True)
        found = collected(None, port=port)
        assert f"({os.getpid()})" in found.listen.port_user
    assert ask_port("127.0.0.1", port) == (True, True)
    assert ask_port("localhost", port) == (True, True)


def test_an_address_of_somebody_else_and_a_name_are_told_apart() -> None:
    assert ask_port("192.0.2.7", 8100) == (None, False)
    assert ask_port("lab.example", 8100) == (None, None)
    assert ask_port("127.0.0.1", 70_000) == (None, None)


def test_the_address_and_the_key_are_taken_over() -> None:
    adjustments = Adjustments(host="0.0.0.0")
    assert any(one.rule == "open_without_key" for one in examine(collected(None, adjustments=adjustments)))
    with_key = collected(None, adjustments=adjustments, api_key=SecretStr("secret"))
    assert not any(one.rule == "open_without_key" for one in examine(with_key))
    assert "secret" not in repr(with_key)


def test_the_disk_that_lmcache_uses_is_looked_at(tmp_path: Path) -> None:
    env = {"LMCACHE_LOCAL_DISK": f"file://{tmp_path}/kv", "LMCACHE_MAX_LOCAL_DISK_SIZE": "1000000"}
    found = collected(None, preset=preset(env=env))
    disk = found.host.offload_disk
    assert disk is not None and disk.wanted_bytes == 10**15 and not isinstance(disk.free_bytes, Missing)
    assert any(one.rule == "offload_disk_full" for one in examine(found))
    relative = preset(env={"LMCACHE_LOCAL_DISK": "kv"})
    assert collected(None, preset=relative).host.offload_disk is None


def test_a_folder_for_lmcache_that_cannot_be_looked_at_is_said_and_ends_nothing() -> None:
    found = collected(None, preset=preset(env={"LMCACHE_LOCAL_DISK": f"/{'a' * 300}"}))
    disk = found.host.offload_disk
    assert disk is not None and isinstance(disk.free_bytes, Missing)
