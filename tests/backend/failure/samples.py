"""One text for each sign that must be recognised, and one that looks like it and must not be: not even as something else.

The texts are the messages of vLLM, SGLang, torch, Triton, CUDA, NCCL, Docker and others, other figures filled in.
"""

from dataclasses import dataclass, field

HEAD = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Sample:
    """A log's end, and the exit code that came with it."""

    rule: str
    lines: tuple[str, ...]
    returncode: int = 1
    values: dict[str, str] = field(default_factory=dict)  # some that must be read from it


def raised(text: str, *calls: str, file: str = "/env/vllm/v1/worker/gpu_worker.py") -> tuple[str, ...]:
    """An exception that ended the API server, as Python prints it."""
    frames = [line for call in calls for line in (f'  File "{file}", line 7, in {call}', "    do()")]
    return (HEAD, *frames, *text.split("\n"))


def core(
    text: str, *calls: str, worker: str = "EngineCore pid=77", file: str = "/env/vllm/v1/worker/gpu_worker.py"
) -> tuple[str, ...]:
    """The same in an engine core or worker, followed by the generic last words of the API server."""
    prefix = f"({worker}) ERROR 12-01 12:00:00 [core.py:1108] "
    said = ("EngineCore failed to start.", *raised(text, *calls, file=file))
    last = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    return (*(prefix + line for line in said), *raised(last, "main"))


def usage(text: str) -> tuple[str, ...]:
    """What argparse writes."""
    return ("usage: api_server.py [-h] [--host HOST] [--port PORT]", f"api_server.py: error: {text}")


MATCHING = (
    Sample("unknown_flag", usage("unrecognized arguments: --swap-space 4 --preemption-mode=swap"), 2),
    Sample("unknown_parser", usage("argument --tool-call-parser: invalid choice: 'qwen9' (choose from hermes)"), 2),
    Sample("unknown_quantization", usage("argument --quantization/-q: invalid choice: 'nvfp5' (choose from awq)"), 2),
    Sample("bad_flag_value", usage("argument --max-num-seqs: invalid int value: 'many'"), 2, {"flag": "max-num-seqs"}),
    Sample("bad_flag_value", usage("argument --dtype: invalid choice: 'fp12' (choose from 'auto')"), 2),
    Sample("bad_flag_value", usage("argument --seed: expected one argument"), 2, {"flag": "seed"}),
    Sample(
        "bad_flag_value",
        usage("argument --speculative-config/-sc: Value method=mtp cannot be converted to <function loads at 0x7f>."),
        2,
    ),
    Sample(
        "port_taken",
        raised("OSError: [Errno 98] Address already in use", "create_server_socket"),
        values={"port": "8100"},
    ),
    Sample(
        "port_taken",
        (
            "INFO:     Waiting for application startup.",
            "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 8009): address already in use",
        ),
        values={"port": "8009"},
    ),
    Sample(
        "context_too_long",
        raised(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, User-specified max_model_len (65536) is greater than the derived max_model_len "
            "(max_position_embeddings=40960 or model_max_length=None in model's config.json). To allow overriding this"
        ),
        values={"context": "65536", "limit": "40960"},
    ),
    Sample(
        "context_too_long",
        raised(
            "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len "
            "(sliding_window=4096.0 or model_max_length=16384 in model's config.json)."
        ),
        values={"limit": "16384"},
    ),
    Sample(
        "kv_too_small",
        core(
            "ValueError: To serve at least one request with the models's max seq len (32768), (8.0 GiB KV cache is needed, "
            "which is larger than the available KV cache memory (3.41 GiB). Based on the available memory, the estimated "
            "maximum model length is 13952. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
        ),
        values={"context": "32768", "needed": "8.0", "available": "3.41", "limit": "13952"},
    ),
    Sample(
        "kv_no_room",
        core("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when"),
    ),
    Sample(
        "kv_too_big",
        core(
            "ValueError: Available memory on node 0 (20.5/31.2 GiB) on kv cache allocation is less than requested memory "
            "for kv (64.0 GiB). Decrease --kv-cache-memory-bytes"
        ),
        values={"available": "20.5", "requested": "64.0"},
    ),
    Sample("unknown_quantization", raised("ValueError: Unknown quantization method: nvfp5. Must be one of ['awq']")),
    Sample(
        "quantization_mismatch",
        raised(
            "ValueError: Quantization method specified in the model config (gptq) does not match the quantization method "
            "specified in the `quantization` argument (awq)."
        ),
        values={"found": "gptq", "asked": "awq"},
    ),
    Sample(
        "quantization_mismatch",
        raised("ValueError: Cannot find the config file for modelopt_fp4"),
        values={"asked": "modelopt_fp4"},
    ),
    Sample(
        "tensor_parallel_indivisible",
        raised("ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3)."),
        values={"heads": "40", "gpus": "3"},
    ),
    Sample(
        "too_few_gpus",
        raised(
            "ValueError: World size (4) is larger than the number of available GPUs (2) in this node. If this is intentional"
        ),
        values={"gpus": "4", "available": "2"},
    ),
    Sample(
        "too_few_gpus",
        core("AssertionError: local_world_size (2) must be less than or equal to the number of visible devices (1)."),
    ),
    Sample(
        "unknown_attention_backend",
        raised("ValueError: Unknown attention backend: 'FLASHX'. Valid options are: FLASH_ATTN"),
    ),
    Sample(
        "unknown_attention_backend",
        usage("argument --attention-backend: Value error, Unknown attention backend: 'FLASHX'. Valid options"),
        2,
    ),
    Sample("unknown_parser", raised("KeyError: 'invalid tool call parser: qwen9 (chose from { hermes,llama3_json })'")),
    Sample("unknown_parser", raised("KeyError: \"Reasoning parser 'qwen9' not found. Available parsers: qwen3\"")),
    Sample(
        "speculation_incomplete",
        raised(
            "ValueError: num_speculative_tokens must be provided with speculative model unless the draft model config"
        ),
    ),
    Sample(
        "bad_flag_value",
        raised(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig\n"
            "gpu_memory_utilization\n"
            "  Input should be less than or equal to 1 [type=less_than_equal, input_value=1.5, input_type=float]"
        ),
        values={"flag": "gpu-memory-utilization", "value": "1.5"},
    ),
    Sample(
        "bad_flag_value",
        raised("ValueError: max_num_batched_tokens (64) must be greater than or equal to max_num_seqs (256)."),
        values={"flag": "max-num-batched-tokens", "value": "64"},
    ),
    Sample(
        "wrong_path",
        raised(
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
            "'/data/qwen'. Use `repo_type` argument if needed."
        ),
        values={"path": "/data/qwen"},
    ),
    Sample(
        "not_in_cache",
        raised(
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
            "specified revision on the local disk and outgoing traffic has been disabled. To enable repo look-ups"
        ),
    ),
    Sample(
        "not_in_cache",
        raised(
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://hub.example/x: offline mode is enabled. To"
        ),
    ),
    Sample(
        "gated_repo",
        raised(
            "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://hub.example/a/b.\n"
            "401 Client Error. (Request ID: Root=1-66)"
        ),
    ),
    Sample(
        "gated_repo",
        raised(
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: 1)\n\nCannot access gated repo for url x"
        ),
    ),
    Sample(
        "no_network",
        raised("OSError: We couldn't connect to 'https://hub.example' to load the files, and couldn't find"),
    ),
    Sample(
        "no_network",
        raised(
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the files on the Hub "
            "and we cannot find the appropriate snapshot folder"
        ),
    ),
    Sample(
        "weights_corrupt",
        core(
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
            "load_weights",
        ),
    ),
    Sample("weights_corrupt", raised("MemoryError", "parse_safetensors_file_metadata")),
    Sample(
        "weights_corrupt",
        core(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "load_weights",
        ),
    ),
    Sample(
        "weights_missing",
        core("RuntimeError: Cannot find any model weights with `/data/qwen`"),
        values={"path": "/data/qwen"},
    ),
    Sample(
        "config_missing",
        raised(
            "ValueError: Invalid repository ID or local directory specified: '/data/qwen'.\n"
            "Please verify the following requirements:\n"
            "   - For Hugging Face models: ensure the presence of a 'config.json'."
        ),
    ),
    Sample("tokenizer_missing", raised("ValueError: Couldn't instantiate the backend tokenizer from one of: \n(1) a")),
    Sample(
        "tokenizer_missing", raised("OSError: Can't load tokenizer for '/data/qwen'. If you were trying to load it")
    ),
    Sample(
        "unknown_architecture",
        raised(
            "ValueError: The checkpoint you are trying to load has model type `qwen3_5` but Transformers does not recognize "
            "this architecture. This could be because"
        ),
        values={"architecture": "qwen3_5"},
    ),
    Sample(
        "unknown_architecture",
        raised(
            "ValueError: Model architectures ['Foo9ForCausalLM'] are not supported for now. Supported architectures: []"
        ),
        values={"architecture": "Foo9ForCausalLM"},
    ),
    Sample(
        "unknown_architecture",
        raised(
            "ValueError: Model architecture FooForCausalLM was supported in vLLM until v0.9, and is not supported anymore."
        ),
    ),
    Sample("unknown_architecture", raised("ValueError: Cannot find model module. 'Foo9' is not a registered model")),
    Sample(
        "shape_mismatch", core("RuntimeError: start (0) + length (1536) exceeds dimension size (1024).", "load_weights")
    ),
    Sample(
        "shape_mismatch",
        core(
            "AssertionError: Attempted to load weight (torch.Size([9])) into parameter (torch.Size([8]))",
            "load_weights",
        ),
    ),
    Sample(
        "no_compiler",
        core(
            "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config"
        ),
        values={"language": "C++"},
    ),
    Sample("no_compiler", core("RuntimeError: Failed to find C compiler. Please specify via CC environment variable")),
    Sample("host_memory", core("MemoryError", "load_model")),
    Sample(
        "host_memory",
        core(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"
        ),
    ),
    Sample("host_memory", core("OSError: [Errno 12] Cannot allocate memory")),
    Sample(
        "host_memory",
        core("RuntimeError: unable to mmap 5368709120 bytes from file </data/a>: Cannot allocate memory (12)"),
    ),
    Sample(
        "host_memory",
        raised("numpy.exceptions._ArrayMemoryError: Unable to allocate 61.0 GiB for an array with shape (1,)"),
    ),
    Sample("host_memory", core("RuntimeError: std::bad_alloc")),
    Sample(
        "host_memory",
        ("terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"),
        -6,
    ),
    Sample("shared_memory_small", core("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1a2b'")),
    Sample(
        "shared_memory_small",
        raised(
            "OSError: [Errno 28] No space left on device", "__init__", file="/python/multiprocessing/shared_memory.py"
        ),
    ),
    Sample(
        "shared_memory_small",
        core(
            "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error.\nUnexpected bus error encountered in "
            "worker. This might be caused by insufficient shared memory (shm)."
        ),
    ),
    Sample(
        "shared_memory_small",
        (
            "gpu1:77:99 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-AbCd to 33030532 bytes, "
            "error: No space left on device (28)",
            *core("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"),
        ),
    ),
    Sample("disk_full", raised("OSError: [Errno 28] No space left on device: '/home/x/.cache/vllm/a'")),
    Sample("disk_full", raised("sqlite3.OperationalError: database or disk is full")),
    Sample(
        "permission_denied",
        raised("PermissionError: [Errno 13] Permission denied: '/data/qwen/config.json'"),
        values={"path": "/data/qwen/config.json"},
    ),
    Sample("module_missing", raised("ModuleNotFoundError: No module named 'dflash2'"), values={"module": "dflash2"}),
    Sample(
        "module_missing",
        raised("ImportError: libcudart.so.13: cannot open shared object file: No such file or directory"),
        values={"module": "libcudart.so.13"},
    ),
    Sample("module_missing", ("/env/bin/python: No module named vllm",), values={"module": "vllm"}),
    Sample(
        "module_missing",
        (
            "/env/bin/python3: Error while finding module specification for 'vllm.entrypoints.openai.api_server' "
            "(ModuleNotFoundError: No module named 'vllm')",
        ),
        values={"module": "vllm"},
    ),
    Sample(
        "module_missing",
        raised(
            "ImportError: This modeling file requires the following packages that were not found in your environment: "
            "flash_attn. Run `pip install flash_attn`"
        ),
        values={"module": "flash_attn"},
    ),
    Sample(
        "gpu_memory_changed",
        core(
            "AssertionError: Error in memory profiling. Initial free memory 20.31 GiB, current free memory 31.42 GiB. This "
            "happens when other processes sharing the same container release GPU memory while vLLM is profiling."
        ),
        values={"before": "20.31", "after": "31.42"},
    ),
    Sample(
        "gpu_memory_taken",
        core(
            "ValueError: Free memory on device cuda:0 (20.31/31.73 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 28.56 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
        ),
        values={"free": "20.31", "total": "31.73"},
    ),
    Sample(
        "oom_profiling",
        core(
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering"
        ),
        values={"sequences": "256"},
    ),
    Sample(
        "oom_load",
        core(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 170.00 MiB. GPU 0 has a total capacity of 31.73 "
            "GiB of which 12.00 MiB is free. Process 9 has 31.7 GiB memory in use.",
            "load_model",
        ),
        values={"requested": "170.00 MiB", "total": "31.73 GiB", "free": "12.00 MiB"},
    ),
    Sample(
        "oom_graphs",
        core("torch.AcceleratorError: CUDA error: out of memory\nCUDA kernel errors might be", "capture_model"),
    ),
    Sample(
        "no_kernel_image",
        core(
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\nCUDA kernel"
        ),
    ),
    Sample(
        "no_kernel_image",
        (
            "terminate called after throwing an instance of 'c10::AcceleratorError'",
            "  what():  CUDA error: no kernel image is available for execution on the device",
        ),
        -6,
    ),
    Sample(
        "bf16_unsupported",
        core(
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla "
            "V100-PCIE-32GB GPU has compute capability 7.0. You can use float16 instead"
        ),
        values={"card": "Tesla V100-PCIE-32GB", "capability": "7.0"},
    ),
    Sample(
        "fp8_unsupported",
        core("ValueError: FP8 KV cache is not supported by the Triton attention backend on Tesla V100 (c"),
    ),
    Sample(
        "fp8_unsupported", core("NotImplementedError: FlashAttention does not support fp8 kv-cache on this device.")
    ),
    Sample(
        "fp8_unsupported",
        core("AssertionError: Triton reshape-and-cache cannot store kv_cache_dtype=fp8 on this device: an"),
    ),
    Sample(
        "fp8_unsupported",
        core("ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are"),
    ),
    Sample(
        "fp8_unsupported",
        core(
            "triton.compiler.errors.CompilationError: at 55:20:\n    x = y.to(tl.float8e4nv)\n        ^\n"
            "ValueError(\"type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e5',)\")"
        ),
    ),
    Sample(
        "quantization_unsupported_card",
        raised(
            "ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. Minimum capability: 75. "
            "Current capability: 70."
        ),
        values={"method": "modelopt_fp4", "needed": "75", "capability": "70"},
    ),
    Sample(
        "quantization_unsupported_card",
        core(
            "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min capability: 75. ', "
            "'Current capability: 70.')"
        ),
        values={"needed": "75"},
    ),
    Sample(
        "nvfp4_no_plugin", core("ValueError: Forced NVFP4 kernel MarlinNvFp4LinearKernel is not supported: needs CUDA")
    ),
    Sample(
        "nvfp4_no_plugin",
        core("ValueError: Failed to find a kernel that can implement the NVFP4 linear layer. Reasons: "),
    ),
    Sample(
        "attention_unsupported_card",
        core(
            "ValueError: Selected backend AttentionBackendEnum.FLASHINFER is not valid for this configuration. Reason: "
            "['compute capability not supported']"
        ),
        values={"backend": "FLASHINFER"},
    ),
    Sample("attention_unsupported_card", core("RuntimeError: FlashAttention only supports Ampere GPUs or newer.")),
    Sample("triton_pass_failed", core("RuntimeError: PassManager::run failed")),
    Sample(
        "triton_layout",
        (
            "python: /src/lib/Conversion/TritonGPUToLLVM/ConvertLayoutOpToLLVM.cpp:38: Assertion `!(isMma(a) && isMma(b)) "
            '&& "mma -> mma layout conversion is only supported on Ampere"\' failed.',
        ),
        -6,
    ),
    Sample("triton_layout", ("Unexpected mma -> mma layout conversion", "UNREACHABLE executed at Utility.cpp:9!"), -6),
    Sample("triton_layout", core("RuntimeError: Unexpected mma -> mma layout conversion")),
    Sample(
        "triton_shared_memory",
        core(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536. "
            "Reducing block sizes or `num_stages` may help."
        ),
        values={"required": "98304", "limit": "65536"},
    ),
    Sample(
        "cuda_tools_too_new",
        core(
            "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
            "ptxas fatal   : Value 'sm_70' is not defined for option 'gpu-name'"
        ),
        values={"architecture": "sm_70"},
    ),
    Sample(
        "cuda_tools_too_new",
        core(
            "RuntimeError: Ninja build failed. Ninja output:\nnvcc fatal   : Unsupported gpu architecture 'compute_70'"
        ),
        values={"architecture": "compute_70"},
    ),
    Sample(
        "cuda_tools_too_new",
        core("RuntimeError: Unsupported gpu architecture 'sm_70'"),
        values={"architecture": "sm_70"},
    ),
    Sample(
        "cuda_tools_too_new",
        ("nvcc fatal   : Unsupported gpu architecture 'compute_70'",),
        values={"architecture": "compute_70"},
    ),
    Sample(
        "driver_too_old",
        core(
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
        ),
        values={"driver": "11040"},
    ),
    Sample(
        "driver_too_old", core("RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version")
    ),
    Sample("no_gpu", raised("RuntimeError: No CUDA GPUs are available")),
    Sample("no_gpu", core("AssertionError: DP adjusted local rank 0 is out of bounds.")),
    Sample("too_few_gpus", core("AssertionError: DP adjusted local rank 1 is out of bounds.")),
    Sample(
        "too_few_gpus",
        raised(
            "vllm.third_party.pynvml.NVMLError_InvalidArgument: Invalid Argument",
            "nvmlDeviceGetHandleByIndex",
        ),
    ),
    Sample(
        "no_gpu",
        raised("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"),
    ),
    Sample("no_gpu", core("torch.AcceleratorError: CUDA error: no CUDA-capable device is detected")),
    Sample("no_gpu", raised("RuntimeError: Failed to infer device type, please set the environment variable")),
    Sample("gpu_lost", core("vllm.third_party.pynvml.NVMLError_GpuIsLost: GPU is lost")),
    Sample("gpu_lost", core("RuntimeError: CUDA error: the GPU has fallen off the bus")),
    Sample(
        "nccl_failure", core("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)")
    ),
    Sample(
        "nccl_failure",
        core(
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, unhandled system error\n"
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
        ),
    ),
    Sample("nccl_failure", core("RuntimeError: x\nncclUnhandledCudaError: Call to CUDA function failed.")),
    Sample("nccl_failure", core("RuntimeError: x\nncclInternalError: Internal check failed.")),
    Sample("nccl_failure", core("RuntimeError: x\nncclRemoteError: A call failed possibly due to a network error")),
    Sample(
        "unknown_flag",
        usage("ambiguous option: --max-num could match --max-num-seqs, --max-num-batched-tokens"),
        2,
        {"flags": "--max-num"},
    ),
    Sample(
        "bad_flag_value",
        raised("ValueError: GPU memory utilization must be less than 1.0. Got 92.0."),
        values={"flag": "gpu-memory-utilization", "value": "92.0"},
    ),
    Sample(
        "bad_flag_value",
        raised(
            "ValueError: max_num_batched_tokens (512) is smaller than max_model_len (2048). This effectively limits the"
        ),
        values={"flag": "max-num-batched-tokens", "value": "512", "least": "2048"},
    ),
    Sample(
        "bad_flag_value",
        raised(
            "ValueError: The supplied chat template (/a/b.jinja) looks like a file path, but it failed to be opened."
        ),
        values={"flag": "chat-template", "value": "/a/b.jinja"},
    ),
    Sample(
        "speculation_incomplete",
        raised("ValueError: num_speculative_tokens was provided but without speculative model."),
    ),
    Sample(
        "context_too_long",
        raised(
            "ValueError: Warning: User-specified context_length (65536) is greater than the derived context_length (32768). "
            "This may lead to incorrect model outputs or CUDA errors."
        ),
        values={"context": "65536", "limit": "32768"},
    ),
    Sample(
        "kv_too_small",
        core(
            "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV "
            "cache (13952). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
        ),
        values={"context": "32768", "limit": "13952"},
    ),
    Sample(
        "kv_no_room",
        raised("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "init_memory_pool"),
    ),
    Sample(
        "port_taken",
        (
            "docker: Error response from daemon: driver failed programming external connectivity on endpoint volta (a1b2): "
            "Bind for 0.0.0.0:8009 failed: port is already allocated.",
        ),
        125,
        {"port": "8009"},
    ),
    Sample(
        "port_taken",
        (
            "docker: Error response from daemon: driver failed programming external connectivity on endpoint volta (a1b2): "
            "Error starting userland proxy: listen tcp4 0.0.0.0:8009: bind: address already in use.",
        ),
        125,
        {"port": "8009"},
    ),
    Sample(
        "permission_denied",
        (
            "docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
            'Head "http://%2Fvar%2Frun%2Fdocker.sock/_ping": dial unix /var/run/docker.sock: connect: permission denied.',
        ),
        126,
        {"path": "/var/run/docker.sock"},
    ),
    Sample(
        "not_executable",
        (
            "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime "
            'create failed: runc create failed: unable to start container process: exec: "vllm": executable file not found in '
            "$PATH: unknown.",
        ),
        127,
        {"error": 'exec: "vllm": executable file not found in $PATH'},
    ),
    Sample(
        "not_executable",
        ("/start.sh: line 3: /env/bin/vllm: cannot execute: required file not found",),
        127,
        {"error": "/env/bin/vllm: cannot execute: required file not found"},
    ),
    Sample(
        "wrong_path",
        raised(
            "OSError: Incorrect path_or_model_id: '/data/qwen'. Please provide either the path to a local folder or the repo_id"
        ),
        values={"path": "/data/qwen"},
    ),
    Sample(
        "wrong_path",
        raised(
            "OSError: models/qwen is not a local folder and is not a valid model identifier listed on 'https://hub.example'"
        ),
        values={"path": "models/qwen"},
    ),
    Sample(
        "no_network",
        raised(
            "httpx.ConnectError: [Errno -3] Temporary failure in name resolution",
            "hf_hub_download",
            file="/env/huggingface_hub/file_download.py",
        ),
    ),
    Sample(
        "no_network",
        raised(
            "httpx.ConnectError: [Errno 101] Network is unreachable", "x", file="/env/huggingface_hub/utils/_http.py"
        ),
    ),
    Sample(
        "no_network",
        raised(
            "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='hub.example', port=443): Max "
            'retries exceeded with url: /a/b/resolve/main/config.json (Caused by NameResolutionError(\\"<x>: Failed to resolve'
        ),
    ),
    Sample("disk_full", raised("RuntimeError: Data processing error: IO Error: No space left on device (os error 28)")),
    Sample(
        "config_missing",
        raised(
            "OSError: /data/qwen does not appear to have a file named config.json. Checkout 'https://hub.example/x'"
        ),
    ),
    Sample(
        "weights_corrupt",
        core(
            "_pickle.UnpicklingError: invalid load key, 'v'.",
            "load_model",
        ),
    ),
    Sample(
        "weights_corrupt",
        raised("_pickle.UnpicklingError: invalid load key, 'v'.", "_legacy_load", file="/env/torch/serialization.py"),
    ),
    Sample(
        "weights_corrupt",
        raised(
            "_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed\n"
            "compatible with your use case: WeightsUnpickler error: \n\nUnsupported operand 118\n\nCheck",
            "load",
            file="/env/torch/serialization.py",
        ),
    ),
    Sample(
        "weights_missing",
        core(
            'FileNotFoundError: No such file or directory: "/data/qwen/model-00002-of-00004.safetensors"',
            "load_weights",
        ),
        values={"path": "/data/qwen/model-00002-of-00004.safetensors"},
    ),
    Sample(
        "weights_missing",
        raised(
            "OSError: /data/qwen does not appear to have a file named model-00002-of-00004.safetensors. Checkout 'x'"
        ),
        values={"path": "model-00002-of-00004.safetensors"},
    ),
    Sample(
        "weights_missing",
        core(
            "ValueError: Following weights were not initialized from checkpoint: {'model.layers.9.mlp.up_proj.weight'}"
        ),
        values={"path": "'model.layers.9.mlp.up_proj.weight'"},
    ),
    Sample(
        "unknown_architecture",
        core(
            "ValueError: Foo9ForCausalLM has no vLLM implementation and the Transformers implementation is not compatible with "
            "vLLM. Try setting VLLM_USE_V1=0."
        ),
        values={"architecture": "Foo9ForCausalLM"},
    ),
    Sample(
        "unknown_architecture",
        raised("ValueError: The Transformers implementation of 'Foo9ForCausalLM' is not compatible with vLLM."),
        values={"architecture": "Foo9ForCausalLM"},
    ),
    Sample(
        "no_compiler",
        core("RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"),
        values={"language": "nvcc"},
    ),
    Sample(
        "no_compiler",
        core("RuntimeError: Ninja build failed. Ninja output:\n/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found"),
        values={"language": "nvcc"},
    ),
    Sample(
        "no_compiler",
        core("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
        values={"language": "CUDA"},
    ),
    Sample(
        "host_memory",
        raised(
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node was"
        ),
    ),
    Sample("nvfp4_no_plugin", core("ValueError: Current platform does not support NVFP4 quantization. Please use")),
    Sample(
        "bf16_unsupported",
        core(
            "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
            "ptxas /tmp/tmpab.ptx, line 277; error   : Feature 'cvt.bf16.f32' requires .target sm_80 or higher"
        ),
    ),
    Sample(
        "bf16_unsupported",
        ("ptxas /tmp/tmpab.ptx, line 281; error   : Feature '.bf16' requires .target sm_80 or higher",),
    ),
    Sample(
        "bf16_unsupported",
        core(
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
            "     query       : shape=(1, 9, 8, 64) (torch.bfloat16)\n`fa2F@2.5.7` is not supported because:\n"
            "    requires device with capability > (8, 0) but your GPU has capability (7, 0) (too old)\n"
            "    bf16 is only supported on A100+ GPUs"
        ),
    ),
    Sample(
        "attention_unsupported_card",
        core(
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
            "     query       : shape=(1, 9, 8, 64) (torch.float16)\n`fa2F@2.5.7` is not supported because:\n"
            "    requires device with capability > (8, 0) but your GPU has capability (7, 0) (too old)"
        ),
        values={"backend": "xFormers"},
    ),
    Sample(
        "attention_unsupported_card",
        core("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "check_cuda_arch"),
        values={"backend": "FlashInfer"},
    ),
    Sample(
        "fp8_unsupported",
        core("RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9"),
    ),
    Sample(
        "driver_too_old",
        core("torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain."),
    ),
    Sample(
        "driver_too_old",
        core(
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
            "NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non "
            "supported HW"
        ),
    ),
    Sample(
        "driver_too_old",
        (
            "docker: Error response from daemon: failed to create task for container: Auto-detected mode as 'legacy'",
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer",
        ),
        125,
    ),
    Sample(
        "no_gpu",
        ('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',),
        125,
    ),
    Sample("no_gpu", ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",), 125),
    Sample("too_few_gpus", core("torch.AcceleratorError: CUDA error: invalid device ordinal\nGPU device may be out")),
    Sample(
        "oom_graphs",
        (
            "[2026-12-01 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/env/sglang/srt/model_executor/model_runner.py", line 7, in init_cuda_graphs',
            "    do()",
            "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "Possible solutions:",
        ),
    ),
    Sample(
        "nccl_failure",
        core("torch.distributed.DistBackendError: NCCL error in /pytorch/NCCLUtils.cpp:77, unhandled cuda error"),
    ),
)

UNRELATED = (  # near misses: each is unknown
    Sample("unknown", usage("unrecognized arguments: extra words"), 2),
    Sample("unknown", usage("the following arguments are required: --model"), 2),
    Sample("unknown", ("INFO 12-01 12:00:00 [a.py:1] api_server.py: error: unrecognized arguments: --x",), 2),
    Sample("unknown", usage("unrecognized arguments: --swap-space"), 1),
    Sample("unknown", raised("OSError: [Errno 99] Cannot assign requested address", "create_server_socket")),
    Sample(
        "unknown",
        core("torch.distributed.DistNetworkError: The server socket has failed to listen. port: 29500, EADDRINUSE"),
    ),
    Sample(
        "unknown",
        ("WARNING:  [Errno 98] error while attempting to bind on address ('::', 8009): address already in use",),
    ),
    Sample("unknown", raised("ValueError: User-specified max_model_len (0) is not valid")),
    Sample("unknown", usage("ambiguous option: a could match b"), 2),
    Sample("unknown", raised("ValueError: GPU memory utilization must be measured first")),
    Sample("unknown", raised("ValueError: max_num_batched_tokens (512) is smaller than the longest item (2048)")),
    Sample("unknown", raised("ValueError: The supplied chat template is not valid")),
    Sample("unknown", raised("ValueError: num_speculative_tokens was provided but is ignored")),
    Sample("unknown", raised("UserWarning: User-specified context_length (9) is greater than the derived one")),
    Sample("unknown", core("ValueError: The model's max seq len (32768) is larger than the encoder's (1500)")),
    Sample("unknown", raised("RuntimeError: Not enough memory. Please try again")),
    Sample("unknown", ("docker: Error response from daemon: Conflict. The container name is already in use.",), 125),
    Sample("unknown", ("Bind for 0.0.0.0:8009 failed: port is already allocated, trying the next one",), 125),
    Sample(
        "unknown", ("docker: Error response from daemon: listen unix /run/x.sock: bind: address already in use",), 125
    ),
    Sample("unknown", ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",), 1),
    Sample("unknown", ('exec: "rocm-smi": executable file not found in $PATH',), 1),
    Sample("unknown", ("/env/bin/vllm: cannot execute binary file: Exec format error",), 126),
    Sample("unknown", raised("ValueError: Incorrect path_or_model_id: '/data/qwen'")),
    Sample("unknown", raised("OSError: v9 is not a valid git identifier (branch name, tag name or commit id)")),
    Sample(
        "unknown", raised("OSError: /data/qwen does not appear to have a file named preprocessor_config.json. Checkout")
    ),
    Sample("unknown", raised("httpx.ConnectError: [Errno -3] Temporary failure in name resolution", "send_metrics")),
    Sample(
        "unknown",
        raised("socket.gaierror: [Errno -2] Name or service not known", "create_store", file="/env/torch/x.py"),
    ),
    Sample(
        "unknown",
        raised(
            "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPConnectionPool(host='10.0.0.9', port=80): Max retries "
            "exceeded with url: /metrics (Caused by NewConnectionError(x"
        ),
    ),
    Sample("unknown", raised("RuntimeError: cannot map /dev/shm/a: No space left on device (os error 28)")),
    Sample("unknown", core("_pickle.UnpicklingError: invalid load key, 'v'.", "recv_message")),
    Sample(
        "unknown",
        core("_pickle.UnpicklingError: invalid load key, '\\x80'.", "load", file="/env/torch/serialization.py"),
    ),
    Sample("unknown", core("_pickle.UnpicklingError: Unsupported operand 118", "recv_message")),
    Sample("unknown", core("RuntimeError: PytorchStreamReader failed reading zip archive", "load_compiled_graph")),
    Sample("unknown", raised("FileNotFoundError: [Errno 2] No such file or directory: '/data/qwen/merges.txt'")),
    Sample("unknown", raised("OSError: /data/qwen does not appear to have a file named tokenizer.model. Checkout")),
    Sample("unknown", core("ValueError: Following weights were not initialized")),
    Sample("unknown", ("WARNING 12-01 12:00:00 [utils.py:79] Foo9 has no vLLM implementation, falling back to",)),
    Sample("unknown", raised("ValueError: The Transformers implementation of attention is not used")),
    Sample("unknown", core("RuntimeError: Could not find nvcc flags for this file")),
    Sample("unknown", core("RuntimeError: /bin/sh: 1: git: not found")),
    Sample("unknown", core("OSError: CUDA_HOME environment variable is set to a file")),
    Sample("unknown", raised("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")),
    Sample("unknown", core("ValueError: Current platform does not support FP4 indices")),
    Sample("unknown", ("ptxas /tmp/a.ptx, line 2; error   : Feature 'add{.bf16}' requires .target sm_90 or higher",)),
    Sample(
        "unknown",
        core(
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
            "`fa2F@2.5.7` is not supported because:\n"
            "    requires device with capability > (8, 0) but your GPU has capability (7, 0) (too old)\n"
            "    operator wasn't built - see `python -m xformers.info` for more info"
        ),
    ),
    Sample(
        "unknown",
        core(
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
            "    requires device with capability <= (9, 0) but your GPU has capability (12, 0) (too new)"
        ),
    ),
    Sample(
        "unknown",
        core("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "top_k", file="/env/flashinfer/sampling.py"),
    ),
    Sample("unknown", core("RuntimeError: torch._scaled_mm is only supported for contiguous inputs")),
    Sample("unknown", core("torch.AcceleratorError: CUDA error: a PTX JIT compilation failed")),
    Sample(
        "unknown",
        core("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"),
    ),
    Sample("unknown", ("nvidia-container-cli: requirement error: unsatisfied condition: brand = tesla",), 125),
    Sample(
        "unknown",
        ('docker: Error response from daemon: could not select device driver "x" with capabilities: [[tpu]]',),
        125,
    ),
    Sample("unknown", ("nvidia-container-cli: initialization error: cgroup subsystem devices not found",), 125),
    Sample("unknown", core("torch.AcceleratorError: CUDA error: invalid argument")),
    Sample("unknown", raised("Exception: Capture cuda graph failed: shapes differ")),
    Sample("unknown", core("RuntimeError: NCCL error count is zero")),
    Sample("unknown", core("ValueError: No available memory for the encoder cache")),
    Sample("unknown", core("AssertionError: Error in memory profiling of the encoder")),
    Sample("unknown", core("AssertionError: DP adjusted local rank is out of bounds")),
    Sample("unknown", raised("vllm.third_party.pynvml.NVMLError_InvalidArgument: Invalid Argument")),
    Sample("unknown", core("RuntimeError: Available memory is low")),
    Sample("unknown", raised("ValueError: Found multiple config files for awq: ['a', 'b']")),
    Sample(
        "unknown",
        raised(
            "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]"
        ),
    ),
    Sample(
        "unknown",
        raised("ValueError: Total number of hidden units (40) must be divisible by tensor parallel size (3)."),
    ),
    Sample("unknown", raised("KeyError: 'qwen9'")),
    Sample("unknown", raised("ValueError: Expected num_speculative_tokens to be greater than zero (0).")),
    Sample("unknown", raised("NotImplementedError: Unsupported speculative method: 'mtp'")),
    Sample("unknown", raised("OSError: no file named a.py; we were asked to Repo id must be in the form")),
    Sample(
        "unknown",
        raised(
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.\n\nRepository Not Found for url: x.\nFor a gated repo"
        ),
    ),
    Sample("unknown", raised("httpx.ReadTimeout: The read operation timed out")),
    Sample(
        "unknown",
        core("safetensors_rust.SafetensorError: File does not contain tensor model.norm.weight", "load_weights"),
    ),
    Sample("unknown", raised("OverflowError: cannot fit 'int' into an index-sized integer", "load_weights")),
    Sample("unknown", raised("ValueError: Can't load the configuration of '/data/qwen'")),
    Sample(
        "unknown",
        raised("ValueError: Model architectures ['A'] failed to be inspected. Please check the logs for more details."),
    ),
    Sample("unknown", core("RuntimeError: start (0) + length (1536) exceeds dimension size (1024).", "execute_model")),
    Sample(
        "unknown", core("RuntimeError: The size of tensor a (9) must match the size of tensor b (8)", "load_weights")
    ),
    Sample("unknown", core("RuntimeError: C++ compiler flags are not understood")),
    Sample("unknown", core("RuntimeError: this model needs a lot of memory")),
    Sample("unknown", core("RuntimeError: CUDA error: out of memory", "pin_memory")),
    Sample("unknown", core("RuntimeError: HIP out of memory")),
    Sample("unknown", raised("PermissionError: [Errno 13] Permission denied")),
    Sample("unknown", raised("ImportError: cannot import name 'LLM' from 'vllm'")),
    Sample("unknown", ("UserWarning: No module named 'flash_attn'",)),
    Sample("unknown", core("ValueError: Free memory on device is not known")),
    Sample("unknown", core("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")),
    Sample(
        "unknown",
        ("UserWarning: Tesla V100 with CUDA capability sm_70 is not compatible: no kernel image is available",),
    ),
    Sample("unknown", core("ValueError: Bfloat16 accumulation is not supported here")),
    Sample("unknown", core("ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints.")),
    Sample(
        "unknown",
        core(
            "ValueError: Selected backend FLASHINFER is not valid for this configuration. Reason: ['head_size not supported']"
        ),
    ),
    Sample(
        "unknown", ("INFO 12-01 12:00:00 [cuda.py:1] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.",)
    ),
    Sample("unknown", core("RuntimeError: PassManager::parse failed")),
    Sample(
        "unknown",
        core("triton.runtime.errors.OutOfResources: out of resource: threads, Required: 2048, Hardware limit: 1024"),
    ),
    Sample(
        "unknown",
        core(
            "triton.runtime.errors.PTXASError: PTXAS error\nptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'"
        ),
    ),
    Sample("unknown", core("RuntimeError: Unsupported gpu architecture 'compute_120'")),
    Sample(
        "unknown",
        ("UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",),
    ),
    Sample("unknown", raised("RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.")),
    Sample("unknown", core("RuntimeError: CUDA error: uncorrectable ECC error encountered")),
    Sample("unknown", core("RuntimeError: NCCL is not available in this build")),
    Sample("unknown", core("RuntimeError: database of disks is full of errors")),
    Sample("unknown", ("gpu1:77:99 [0] NCCL INFO Channel 00 : no NCCL error: fine",)),
)
