"""Pasted commands as people have them: what becomes of each, and what is said to be left out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import PresetError
from backend.importing.command import import_command
from backend.importing.draft import Import
from backend.launch.engine_kind import EngineKind
from backend.launch.preset_file import dump_preset, parse_preset


def values(imported: Import) -> dict[str, Any]:
    """What the preset says beyond its names."""
    dumped = imported.preset.model_dump(mode="json", exclude_defaults=True)
    return {key: value for key, value in dumped.items() if key not in ("name", "title", "summary")}


def keys(imported: Import) -> list[str]:
    return [note.key for note in imported.notes]


def refusal(text: str) -> str:
    with pytest.raises(PresetError) as caught:
        import_command(text)
    return str(caught.value)


HUB_8B = {"name": "Qwen3-8B", "huggingface": {"repo": "Qwen/Qwen3-8B"}}
CUDA = {"engine": "cuda", "gpus": 1, "dtype": "auto"}

# variants of commands from vLLM's, model makers' and cloud vendors' guides, and from issues about V100 and 2080 Ti cards
REALISTIC: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "the shortest": (
        "vllm serve Qwen/Qwen3-8B",
        {"model": HUB_8B, "served_name": "Qwen3-8B", **CUDA, "context": 8192},
        {"context_assumed"},
    ),
    "a server module over two cards": (
        """
        CUDA_VISIBLE_DEVICES=2,3 TOKENIZERS_PARALLELISM=true python -m vllm.entrypoints.openai.api_server \\
          --model /data/models/Qwen2-VL-7B --host 0.0.0.0 --port 8000 --tensor-parallel-size 2 \\
          --gpu-memory-utilization 0.33 --max-model-len 32768 --served-model-name qwen2-vl
        """,
        {
            "model": {"name": "Qwen2-VL-7B"},
            "served_name": "qwen2-vl",
            "engine": "cuda",
            "gpus": 2,
            "dtype": "auto",
            "context": 32768,
            "memory_utilization": 0.33,
            "env": {"TOKENIZERS_PARALLELISM": "true"},
        },
        {"cards_left_out", "address_left_out", "model_by_path"},
    ),
    "vLLM's docker page": (
        """docker run --runtime nvidia --gpus all \\
            -v ~/.cache/huggingface:/root/.cache/huggingface \\
            --env "HF_TOKEN=$HF_TOKEN" \\
            -p 8000:8000 \\
            --ipc=host \\
            vllm/vllm-openai:v0.19.1 \\
            --model Qwen/Qwen3-8B --dtype half --max-model-len 16k""",
        {"model": HUB_8B, "served_name": "Qwen3-8B", **CUDA, "dtype": "float16", "context": 16000},
        {"docker_image", "docker_left_out", "cards_left_out", "secret_left_out"},
    ),
    "docker with a mounted folder and chosen cards": (
        """sudo docker run -itd --name chat --gpus '"device=0,1"' --shm-size 16g -p8001:8000 \\
            -v /srv/llm/Qwen2___5-7B-Instruct-AWQ:/model:ro -e OMP_NUM_THREADS=16 -e VLLM_USE_MODELSCOPE=False \\
            vllm/vllm-openai --model /model --served-model-name qwen -tp 2 --max-model-len 16384 -q awq""",
        {
            "model": {"name": "Qwen2.5-7B-Instruct-AWQ"},
            "served_name": "qwen",
            "engine": "cuda",
            "gpus": 2,
            "dtype": "auto",
            "quantization": "awq",
            "context": 16384,
            "env": {"OMP_NUM_THREADS": "16"},
        },
        {
            "docker_image",
            "docker_left_out",
            "cards_left_out",
            "wrapper_left_out",
            "downloads_left_out",
            "model_by_path",
        },
    ),
    "docker where a shell starts it": (
        """docker run --rm --gpus 2 --network host --entrypoint bash vllm/vllm-openai:latest -c \\
            "vllm serve Qwen/Qwen3-8B --pipeline-parallel-size 2 --max-model-len 4096 --enforce-eager" """,
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            "engine": "cuda",
            "gpus": 2,
            "parallel": "pipeline",
            "dtype": "auto",
            "context": 4096,
            "eager": True,
        },
        {"docker_image", "docker_left_out", "cards_left_out"},
    ),
    "an old command with flags that are gone": (
        """python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --trust-remote-code \\
            --swap-space 16 --disable-log-requests --preemption-mode swap --max-model-len 8192 --dtype=half""",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            **CUDA,
            "dtype": "float16",
            "context": 8192,
            "flags": {
                "trust-remote-code": True,
                "swap-space": 16,
                "disable-log-requests": True,
                "preemption-mode": "swap",
            },
        },
        {"older_flag"},
    ),
    "a V100 in a container prompt": (
        """(vllm) root@gpu:/data# vllm serve /data/AI/Qwen3-30B-A3B-GPTQ-Int8 \\
        >   --served-model-name Qwen3-30B \\
        >            --dtype float16 \\
        >            --max-model-len 4096 \\
        >            --gpu-memory-utilization 0.95 \\
        >            --host 0.0.0.0 --port 5910""",
        {
            "model": {"name": "Qwen3-30B-A3B-GPTQ-Int8"},
            "served_name": "Qwen3-30B",
            **CUDA,
            "dtype": "float16",
            "quantization": "gptq",
            "context": 4096,
            "memory_utilization": 0.95,
        },
        {"model_by_path", "address_left_out", "quantization_from_name"},
    ),
    "a 2080 Ti script with tool calls": (
        """#!/bin/bash
        source /home/me/anaconda3/bin/activate vllm
        export CUDA_VISIBLE_DEVICES=0,2

        vllm serve \\
             --model /home/me/models/Qwen3.6-27B-AWQ \\
            --tensor-parallel-size 2 \\
            --max-model-len 81920 \\
            --compilation_config.cudagraph_mode FULL_DECODE_ONLY  \\
            --enable-prefix-caching \\
            --enable-chunked-prefill \\
            --max-num-batched-tokens 8192 \\
            --max-num-seqs 1 \\
            --enable-auto-tool-choice \\
            --tool-call-parser qwen3_coder \\
            --default-chat-template-kwargs '{"enable_thinking": false}'
        """,
        {
            "model": {"name": "Qwen3.6-27B-AWQ"},
            "served_name": "Qwen3.6-27B-AWQ",
            "engine": "cuda",
            "gpus": 2,
            "dtype": "auto",
            "quantization": "awq",
            "context": 81920,
            "max_sequences": 1,
            "max_batched_tokens": 8192,
            "prefix_caching": True,
            "chunked_prefill": True,
            "flags": {
                "enable-auto-tool-choice": True,
                "tool-call-parser": "qwen3_coder",
                "default-chat-template-kwargs": '{"enable_thinking": false}',
                "compilation-config": '{"cudagraph_mode": "FULL_DECODE_ONLY"}',
            },
        },
        {"line_left_out", "cards_left_out", "model_by_path", "quantization_from_name"},
    ),
    "speculation with the model's own layer": (
        """vllm serve sakamakismile/Qwen3.8-27B-MTP-NVFP4 \\
          --trust-remote-code --tensor-parallel-size 4 \\
          --max-model-len 131072 --kv-cache-dtype fp8 \\
          --reasoning-parser qwen3 \\
          --speculative-config '{"method":"qwen3_5_mtp","num_speculative_tokens":3}'""",
        {
            "model": {"name": "Qwen3.8-27B-MTP-NVFP4", "huggingface": {"repo": "sakamakismile/Qwen3.8-27B-MTP-NVFP4"}},
            "served_name": "Qwen3.8-27B-MTP-NVFP4",
            "engine": "cuda",
            "gpus": 4,
            "dtype": "auto",
            "quantization": "nvfp4",
            "context": 131072,
            "kv_cache_dtype": "fp8",
            "speculation": {"method": "mtp", "tokens": 3},
            "flags": {"trust-remote-code": True, "reasoning-parser": "qwen3"},
        },
        {"quantization_from_name"},
    ),
    "dotted keys and short names": (
        "vllm serve Qwen/Qwen3-8B -sc.method ngram -sc.num_speculative_tokens 4 -sc.prompt_lookup_max=3 -O3 -ac.backend TRITON_ATTN"
        " --max-model-len 4K",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            **CUDA,
            "context": 4096,
            "speculation": {"method": "ngram", "tokens": 4, "lookup_max": 3},
            "flags": {"optimization-level": 3, "attention-config": '{"backend": "TRITON_ATTN"}'},
        },
        set(),
    ),
    "a script with variables, in the background": (
        """MODEL_PATH=/remote/models/Qwen3-32B
        MAX_MODEL_LENGTH=16384
        export VLLM_LOGGING_LEVEL=WARNING

        nohup vllm serve ${MODEL_PATH} --tensor-parallel-size ${TP:-4} --max-model-len ${MAX_MODEL_LENGTH} \\
            --api-key 123 > server.log 2>&1 &""",
        {
            "model": {"name": "Qwen3-32B"},
            "served_name": "Qwen3-32B",
            "engine": "cuda",
            "gpus": 4,
            "dtype": "auto",
            "context": 16384,
            "env": {"VLLM_LOGGING_LEVEL": "WARNING"},
        },
        {"shell_left_out", "wrapper_left_out", "secret_left_out", "model_by_path"},
    ),
    "ModelScope with a cached folder": (
        "VLLM_USE_MODELSCOPE=True vllm serve Qwen/Qwen3-8B --max-model-len 8192",
        {
            "model": {"name": "Qwen3-8B", "modelscope": {"repo": "Qwen/Qwen3-8B", "revision": "master"}},
            "served_name": "Qwen3-8B",
            **CUDA,
            "context": 8192,
        },
        {"downloads_left_out"},
    ),
    "the hub's cache folder": (
        "vllm serve ~/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/b968826d9c46 --max-model-len 8192",
        {"model": HUB_8B, "served_name": "Qwen3-8B", **CUDA, "context": 8192},
        set(),
    ),
    "a CPU build": (
        "docker run -p 8000:8000 --privileged=true -e VLLM_CPU_KVCACHE_SPACE=4 -e VLLM_CPU_OMP_THREADS_BIND=0-7 "
        "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.19.0 --model=Qwen/Qwen3-8B --dtype=bfloat16 "
        "--max-model-len 4096 --gpu-memory-utilization 0.9",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            "engine": "cpu",
            "dtype": "bfloat16",
            "context": 4096,
            "kv_cache_gib": 4,
            "env": {"VLLM_CPU_OMP_THREADS_BIND": "0-7"},
        },
        {"docker_image", "docker_left_out", "not_on_a_cpu"},
    ),
    "Windows, curly quotes and a long dash": (
        "docker run --gpus all ^\r\n -p 8000:8000 ^\r\n vllm/vllm-openai ^\r\n —model Qwen/Qwen3-8B ^\r\n"
        " --override-generation-config “{\\“temperature\\”: 0.5, \\“typical_p\\”: 1}” --max-model-len 8192\r\n",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            **CUDA,
            "context": 8192,
            "sampling": {"temperature": 0.5},
        },
        {"docker_image", "docker_left_out", "cards_left_out", "parts_left_out"},
    ),
    "this project's own kernels": (
        "python -P -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --attention-backend CUSTOM --max-model-len 8192",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            "engine": "volta",
            "gpus": 1,
            "dtype": "float16",
            "context": 8192,
            "attention_backend": "dflash2",
        },
        set(),
    ),
    "only the arguments": (
        "--model Qwen/Qwen3-8B --max-model-len 4096 --no-enable-prefix-caching --seed -1",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            **CUDA,
            "context": 4096,
            "prefix_caching": False,
            "flags": {"seed": -1},
        },
        set(),
    ),
    "an abbreviation and two ways of splitting": (
        "uv run vllm serve --trust-remote-code Qwen/Qwen3-8B --gpu-memory-util=0.8 -tp=2 -pp 2 --max-model-len auto",
        {
            "model": HUB_8B,
            "served_name": "Qwen3-8B",
            "engine": "cuda",
            "gpus": 4,
            "dtype": "auto",
            "context": 8192,
            "memory_utilization": 0.8,
            "flags": {"trust-remote-code": True},
        },
        {"abbreviation", "cards_multiplied", "context_assumed", "wrapper_left_out"},
    ),
}


@pytest.mark.parametrize("name", REALISTIC)
def test_a_realistic_command_becomes_its_preset(name: str) -> None:
    text, expected, notes = REALISTIC[name]
    imported = import_command(text)
    assert values(imported) == expected
    assert set(keys(imported)) == notes


@pytest.mark.parametrize("name", REALISTIC)
def test_an_imported_preset_can_be_written_and_read(name: str) -> None:
    preset = import_command(REALISTIC[name][0]).preset
    assert parse_preset(dump_preset(preset), source="mine.yaml") == preset


@pytest.mark.parametrize("name", REALISTIC)
def test_every_note_reads_in_both_languages(name: str) -> None:
    for note in import_command(REALISTIC[name][0]).notes:
        assert note.in_language("en")
        assert note.in_language("zh") != note.in_language("en")


def test_secrets_are_in_neither_preset_nor_notes() -> None:
    text = (
        "huggingface-cli login --token hf_aaaaaaaaaaaaaaaa\n"
        "docker run -e HF_TOKEN=hf_bbbbbbbbbbbbbbbb -e MY_PASSWORD=geheim1 -l token=geheim2 vllm/vllm-openai"
        " --model a/b --api-key geheim3 geheim4 --hf-token hf_cccccccccccccccc --max-model-len 4096"
        " --middleware sk-dddddddddddddd"
    )
    imported = import_command(text)
    shown = dump_preset(imported.preset) + "".join(note.in_language("en") for note in imported.notes)
    for secret in ("hf_", "geheim", "sk-d"):
        assert secret not in shown
    names = {note.values["name"] for note in imported.notes if note.key == "secret_left_out"}
    assert names == {"HF_TOKEN", "MY_PASSWORD", "--api-key", "--hf-token", "--middleware"}


def test_numbers_of_tokens_are_no_secrets() -> None:
    imported = import_command("vllm serve a/b --max-model-len 4096 --max-num-batched-tokens 512 --tokenizer c/d")
    assert imported.preset.max_batched_tokens == 512
    assert imported.preset.flags == {"tokenizer": "c/d"}


def test_the_kind_of_engine_can_be_given() -> None:
    preset = import_command("vllm serve a/b --dtype half --max-model-len 4096", engine=EngineKind.VOLTA).preset
    assert preset.engine is EngineKind.VOLTA
    cpu = import_command("vllm serve a/b --max-model-len 4096 --gpu-memory-utilization 0.9", engine=EngineKind.CPU)
    assert cpu.preset.kv_cache_gib == 1
    assert keys(cpu) == ["not_on_a_cpu", "kv_cache_assumed"]


def test_the_last_of_several_equal_flags_counts() -> None:
    imported = import_command("vllm serve a/b --max-model-len 4096 --max-model-len 8192")
    assert imported.preset.context == 8192
    assert keys(imported) == ["last_one_counts"]


def test_what_a_preset_cannot_say_is_named() -> None:
    imported = import_command(
        "vllm serve a/b --max-model-len 4096 --kv-cache-dtype turboquant_4bit_nc --quantization bitsandbytes"
        ' --speculative-config \'{"method":"medusa","model":"x","num_speculative_tokens":2}\''
    )
    assert keys(imported) == ["value_left_out", "value_left_out", "quantization_left_to_checkpoint"]
    assert imported.preset.speculation is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no vLLM server"),
        ("ls -la /srv", "no vLLM server"),
        ("vllm bench serve --model x", "no vLLM server"),
        ("docker compose run vllm", "no vLLM server"),
        ("python -m vllm.entrypoints.api_server --model x", "no vLLM server"),
        ("vllm serve a/b\nvllm serve c/d", "more than one server"),
        ("vllm serve --max-model-len 4096", "no model"),
        ("vllm serve $MODEL", "$MODEL"),
        ("vllm serve <this-repo>", "<this-repo>"),
        ("vllm serve a/b c/d", "a/b c/d"),
        ("vllm serve a/b --max-model-len lots", "--max-model-len lots"),
        ("vllm serve a/b --max-model-len", "--max-model-len has no value"),
        ("vllm serve a/b --max-model-len 1", "--max-model-len"),
        ("vllm serve a/b --tensor-parallel-size 0", "--tensor-parallel-size 0"),
        ("vllm serve a/b --gpu-memory-utilization 90%", "--gpu-memory-utilization 90%"),
        ("vllm serve a/b --gpu-memory-utilization 90", "--gpu-memory-utilization"),
        ("vllm serve a/b --enforce-eager=maybe", "--enforce-eager"),
        ("vllm serve a/b --dtype fp4", "--dtype"),
        ("vllm serve a/b --speculative-config {method:mtp}", "Were its quotes lost"),
        ('vllm serve a/b --speculative-config \'{"method":"mtp"}\'', "num_speculative_tokens"),
        (
            'vllm serve a/b --speculative-config \'{"method":"mtp","num_speculative_tokens":"x"}\'',
            "--speculative-config",
        ),
        ("vllm serve a/b --load-format $FORMAT", "$FORMAT"),
        ("FOO=$BAR vllm serve a/b", "$BAR"),
        (f"vllm serve a/b --x{'.y' * 2000} 1", "more than 16 dots"),
        ("docker run -it", "no image"),
        ("docker run --gpus", "--gpus has no value"),
        ("docker run vllm/vllm-openai bash -c 'vllm serve a/b; echo'", "; echo"),
    ],
)
def test_what_cannot_be_understood_is_named(text: str, said: str) -> None:
    assert said in refusal(text)


def test_lines_that_double_each_other_fill_no_memory() -> None:
    lines = [f"A{n}=$A{n - 1}$A{n - 1}" for n in range(1, 60)]
    assert "longer than" in refusal("\n".join(["A0=xx", *lines, "vllm serve $A59"]))


COMMAND_WORDS = st.sampled_from(
    [
        "vllm",
        "serve",
        "docker",
        "run",
        "python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "a/b",
        "--model",
        "-e",
        "X=1",
    ]
    + [
        "--max-model-len",
        "4096",
        "--dtype",
        "half",
        "-tp",
        "2",
        "-sc",
        "-sc.a",
        "'{\"a\":1}'",
        "--x.y+",
        "1,2",
        "\\\n",
        "\n",
    ]
    + [
        "--api-key",
        "-O",
        "-O3",
        "--served-model-name",
        "=",
        "$A",
        "A=1",
        "export",
        "-v",
        "/a:/b",
        "--gpus",
        "#",
        "&",
        ">x",
    ]
)


@given(st.lists(COMMAND_WORDS, max_size=14))
def test_no_mixture_of_words_makes_it_crash(mixture: list[str]) -> None:
    try:
        imported = import_command(" ".join(mixture))
    except PresetError as err:
        assert err.message
    else:
        assert imported.preset.model.name
