"""Signs of the cards: their memory, what their generation cannot do, their driver, and how they talk to each other.

Texts are those of vLLM 0.19.1, 0.32 and some older ones, SGLang, torch 2.10, Triton 3.6, CUDA 12, NCCL 2.27, FlashInfer 0.6,
xFormers and the NVIDIA Container Toolkit.
"""

from backend.failure.rule import Place, Sign

OUT_OF_MEMORY = "oom"  # not a rule of its own: the phase makes it one, see out_of_memory.py

_CUDA_ERROR = ("RuntimeError", "AcceleratorError", "CudaError", "Error")
_FIGURES = (
    r"(?: Tried to allocate (?P<requested>[\d.]+ [KMGT]?i?B))?"
    r"(?:\. GPU \d+ has a total capacity of (?P<total>[\d.]+ [KMGT]?i?B) of which (?P<free>[\d.]+ [KMGT]?i?B) is free)?"
)
_PTX_ERROR = r"^ptxas \S{1,300}, line \d{1,9}; error\s{1,4}: Feature '[^']{0,40}\.bf16[^']{0,40}' requires \.target sm_80 or higher"

CARD_SIGNS = (
    Sign(
        "gpu_memory_taken",
        r"^Free memory on device \S{1,40} \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than "
        r"desired GPU memory utilization \((?P<utilization>[\d.]+)",
    ),
    Sign(
        "gpu_memory_changed",
        r"^Error in memory profiling\. Initial free memory (?P<before>[\d.]+) GiB, current free memory (?P<after>[\d.]+) GiB",
        types=("AssertionError",),
    ),
    Sign(
        "oom_profiling",
        r"^CUDA out of memory occurred when warming up (?:sampler|pooler) with (?P<sequences>\d+) ",
    ),
    Sign(OUT_OF_MEMORY, r"^CUDA out of memory\." + _FIGURES, types=("OutOfMemoryError", "RuntimeError")),
    Sign(OUT_OF_MEMORY, r"^CUDA error: out of memory", types=_CUDA_ERROR, outside="pin_memory"),
    Sign("oom_graphs", r"^Capture (?:cuda|CUDA) graph failed: CUDA (?:error: )?out of memory"),
    Sign("no_kernel_image", r"^(?:CUDA error: )?no kernel image is available for execution on (?:the|this) device"),
    Sign("no_kernel_image", r"^\s{0,4}what\(\): {1,3}CUDA error: no kernel image is available", Place.NATIVE),
    Sign(
        "bf16_unsupported",
        r"^Bfloat16 is only supported on GPUs with compute capability of at least 8\.0\. Your (?P<card>.{1,100}?) GPU "
        r"(?:has compute capability (?P<capability>[\d.]+\d)|does not)",
    ),
    Sign("bf16_unsupported", _PTX_ERROR),
    Sign("bf16_unsupported", _PTX_ERROR, Place.NATIVE),
    Sign(  # xFormers names what keeps each of its operators from the inputs
        "bf16_unsupported", r"^\s{0,8}bf16 is only supported on A100\+ GPUs", types=("NotImplementedError",)
    ),
    Sign(
        "fp8_unsupported",
        r"^torch\._scaled_mm is only supported on CUDA devices with compute capability >= (?:9\.0|8\.9)",
    ),
    Sign("fp8_unsupported", r"^FP8 KV cache is not supported by the Triton .{1,30} ?backend on "),
    Sign("fp8_unsupported", r"^FlashAttention does not support fp8 kv-cache on this device"),
    Sign("fp8_unsupported", r"^Triton reshape-and-cache cannot store kv_cache_dtype=fp8\S{0,20} on this device"),
    Sign("fp8_unsupported", r"^type fp8e4\w{2,4} not supported in this architecture\."),
    Sign("fp8_unsupported", r"ValueError\([\"']type fp8e4\w{2,4} not supported in this architecture\."),
    Sign(
        "quantization_unsupported_card",
        r"^The quantization method (?P<method>\S{1,60}) is not supported for the current GPU\. "
        r"Minimum capability: (?P<needed>\d+)\. Current capability: (?P<capability>\d+)",
    ),
    Sign(
        "quantization_unsupported_card",
        r"^\(?'?Quantization scheme is not supported for .{0,12}the current GPU\. "
        r"(?:Min|Required) capability: (?P<needed>\d+)",
    ),
    Sign("nvfp4_no_plugin", r"^Forced NVFP4 kernel \w{1,80} is not supported: "),
    Sign("nvfp4_no_plugin", r"^Current platform does not support NVFP4"),
    Sign("nvfp4_no_plugin", r"^Failed to find a kernel that can implement the NVFP4 linear layer"),
    Sign(
        "attention_unsupported_card",
        r"^Selected backend (?:AttentionBackendEnum\.)?(?P<backend>\w{1,60}) is not valid for this configuration\. "
        r"Reason: \['compute capability not supported'\]",
    ),
    Sign("attention_unsupported_card", r"^(?P<backend>FlashAttention) only supports Ampere GPUs or newer"),
    Sign(
        "attention_unsupported_card",
        r"^(?P<backend>FlashInfer) requires GPUs with sm75 or higher",
        outside="sampling.py|topk_topp_sampler.py|fused_moe/|comm/",  # it has other parts than attention
    ),
    Sign(
        "attention_unsupported_card",
        r"^\s{0,8}requires device with capability > \(8, 0\) but your GPU has capability \([567], \d\) \(too old\)",
        types=("NotImplementedError",),
        without=r"bf16 is only supported|operator wasn't built",  # then a float16 model, or another build, would do
    ),
    Sign("triton_pass_failed", r"^PassManager::run failed", types=("RuntimeError",)),
    Sign("triton_layout", r"Unexpected mma -> mma layout conversion", Place.NATIVE),
    Sign("triton_layout", r"mma -> mma layout conversion is only supported on Ampere", Place.NATIVE),
    Sign(
        "triton_layout", r"^(?:Unexpected mma -> mma layout conversion|mma -> mma layout conversion is only supported)"
    ),
    Sign(
        "triton_shared_memory",
        r"^out of resource: shared memory, Required: (?P<required>\d+), Hardware limit: (?P<limit>\d+)",
        types=("OutOfResources",),
    ),
    Sign(
        "cuda_tools_too_new",
        r"ptxas fatal\s{0,6}: Value '(?P<architecture>sm_(?:5\d|6\d|7[0-2]))' is not defined for option 'gpu-name'",
    ),
    Sign(
        "cuda_tools_too_new",
        r"nvcc fatal\s{0,6}: Unsupported gpu architecture '(?P<architecture>(?:sm|compute)_(?:5\d|6\d|7[0-2]))'",
    ),
    Sign("cuda_tools_too_new", r"^Unsupported gpu architecture '(?P<architecture>(?:sm|compute)_(?:5\d|6\d|7[0-2]))'"),
    Sign(
        "cuda_tools_too_new",
        r"^(?:ptxas fatal\s{0,6}: Value '(?P<architecture>sm_(?:5\d|6\d|7[0-2]))' is not defined"
        r"|nvcc fatal\s{0,6}: Unsupported gpu architecture '(?P<target>(?:sm|compute)_(?:5\d|6\d|7[0-2]))')",
        Place.NATIVE,
    ),
    Sign(
        "driver_too_old",
        r"^The NVIDIA driver on your system is too old \(found version (?P<driver>\d+)\)",
    ),
    Sign(
        "driver_too_old",
        r"^CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    ),
    Sign("driver_too_old", r"^CUDA error: the provided PTX was compiled with an unsupported toolchain"),
    Sign(
        "driver_too_old",
        r"^(?:Unexpected error from cudaGetDeviceCount\(\)\..{0,200}?Error 804"
        r"|CUDA error): forward compatibility was attempted on non supported HW",
        types=_CUDA_ERROR,
    ),
    Sign(
        "driver_too_old",
        r"nvidia-container-cli: requirement error: unsatisfied condition: cuda ?>= ?\d",
        Place.NATIVE,
    ),
    Sign("too_few_gpus", r"^CUDA error: invalid device ordinal", types=_CUDA_ERROR),
    Sign("too_few_gpus", r"^DP adjusted local rank [1-9]\d{0,4} is out of bounds", types=("AssertionError",)),
    Sign(  # CUDA_VISIBLE_DEVICES names a card that is not there
        "too_few_gpus",
        r"^Invalid Argument",
        types=("NVMLError_InvalidArgument",),
        within="nvmlDeviceGetHandleByIndex",
    ),
    Sign(
        "no_gpu",
        r"^(?:docker: )?Error response from daemon: could not select device driver \".{0,40}?\" with capabilities: \[\[gpu",
        Place.NATIVE,
    ),
    Sign("no_gpu", r"nvidia-container-cli: initialization error: nvml error: driver not loaded", Place.NATIVE),
    Sign("no_gpu", r"^No CUDA GPUs are available", types=("RuntimeError",)),
    Sign("no_gpu", r"^DP adjusted local rank 0 is out of bounds", types=("AssertionError",)),
    Sign("no_gpu", r"^Found no NVIDIA driver on your system", types=("RuntimeError",)),
    Sign("no_gpu", r"^CUDA error: no CUDA-capable device is detected", types=_CUDA_ERROR),
    Sign("no_gpu", r"^Failed to infer device type", types=("RuntimeError",)),
    Sign("gpu_lost", r"^(?:GPU is lost|The GPU is lost)", types=("NVMLError_GpuIsLost", "NVMLError")),
    Sign("gpu_lost", r"GPU (?:has )?fallen off the bus\b"),
    Sign("nccl_failure", r"^NCCL error(?:: | in:? )", is_consequence=True),
    Sign("nccl_failure", r"ncclUnhandledCudaError: Call to CUDA function failed", is_consequence=True),
    Sign("nccl_failure", r"ncclSystemError: System call \(", is_consequence=True),
    Sign("nccl_failure", r"ncclInternalError: Internal check failed", is_consequence=True),
    Sign("nccl_failure", r"ncclRemoteError: ", is_consequence=True),
)
