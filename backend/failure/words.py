"""What each failure is called, in both languages: what happened, the likely cause, what to do. The one table of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from backend.failure.failure import UNKNOWN, Failure

CHINESE = "zh"


@dataclass(frozen=True)
class Words:
    """A rule's sentences. `{name}` is a value that every failure of the rule carries."""

    en_what: str
    zh_what: str
    en_cause: str
    zh_cause: str
    en_do: str
    zh_do: str


@dataclass(frozen=True)
class FailureWords:
    """A failure said to a person, values filled in. The values came from a log: escape them."""

    what: str
    cause: str
    do: str


def in_words(failure: Failure, language: str) -> FailureWords:
    """The failure in a language: "en", or "zh". A rule that is not in the table, of a newer panel, is said as unknown."""
    words = WORDS.get(failure.rule, WORDS[UNKNOWN])
    parts = (
        (words.zh_what, words.zh_cause, words.zh_do)
        if language == CHINESE
        else (words.en_what, words.en_cause, words.en_do)
    )
    what, cause, do = (_FORMATTER.vformat(part, (), failure.values) for part in parts)
    return FailureWords(what, cause, do)


def english(failure: Failure) -> FailureWords:
    """The failure in English, for logs and records."""
    return in_words(failure, "en")


class _ValueFormatter(Formatter):
    """Fills in names only: a value that is missing, from an older record, is shown as "…"."""

    def get_field(self, field_name: str, args: object, kwargs: Mapping[str, object]) -> tuple[object, str]:
        return kwargs.get(field_name, "…"), field_name


_FORMATTER = _ValueFormatter()

WORDS: Mapping[str, Words] = {
    # the model's files
    "wrong_path": Words(
        "There is no folder {path}.",
        "文件夹 {path} 不存在。",
        "The path is mistyped, or the folder was moved or removed. vLLM then takes the path for the name of a repository.",
        "路径写错了，或者文件夹已被移动、删除。vLLM 找不到文件夹时会把路径当成仓库名。",
        "Check the path; if it is the model's, download the model again.",
        "请检查路径；如果是模型文件夹，请重新下载模型。",
    ),
    "not_in_cache": Words(
        "The model is not on this machine, and downloading is switched off.",
        "本机没有该模型，并且当前处于离线模式。",
        "A repository name was given instead of a folder, or a relative path that does not exist.",
        "填写的是仓库名而不是文件夹，或者是一个不存在的相对路径。",
        "Download the model first, or give the absolute path of its folder.",
        "请先下载模型，或填写模型文件夹的绝对路径。",
    ),
    "no_network": Words(
        "The model hub could not be reached.",
        "无法连接模型仓库站点。",
        "No network, a proxy or mirror that does not answer, or offline mode without the files in the cache.",
        "网络不通，代理或镜像没有响应，或者处于离线模式而缓存中没有所需文件。",
        "Check the network and the mirror setting, or use a model that is already on this machine.",
        "请检查网络和镜像设置，或使用本机已有的模型。",
    ),
    "gated_repo": Words(
        "The model's repository is gated: access was refused.",
        "该模型仓库需要授权，访问被拒绝。",
        "Its licence has not been accepted for this account, or no token was given.",
        "当前账号还没有接受它的许可协议，或者没有提供访问令牌。",
        "Accept the licence on the model's page and set a token, then download again.",
        "请在模型页面接受许可协议并设置访问令牌，然后重新下载。",
    ),
    "weights_corrupt": Words(
        "A weight file cannot be read.",
        "权重文件无法读取。",
        "The file is damaged or cut short: as a rule a download that broke off, or a full disk.",
        "文件损坏或不完整，通常是下载中断或磁盘写满造成的。",
        "Verify the model's files and download the broken one again.",
        "请校验模型文件，并重新下载损坏的部分。",
    ),
    "weights_missing": Words(
        "Weights of the model are missing: {path}.",
        "缺少模型权重：{path}。",
        "The download is not complete, files of another model are mixed in, or their format or names are not those vLLM looks for.",
        "下载不完整，文件夹中混入了其他模型的文件，或者权重的格式、名称不是 vLLM 会查找的。",
        "Download the model again; the folder must contain .safetensors or .bin files.",
        "请重新下载模型；文件夹中应有 .safetensors 或 .bin 文件。",
    ),
    "config_missing": Words(
        "The model has no config.json that can be read.",
        "没有找到可用的 config.json。",
        "The folder is not a model's folder, the download is not complete, or the name is wrong.",
        "该文件夹不是模型文件夹，下载不完整，或者名称填写有误。",
        "Choose the folder that holds config.json, or download the model again.",
        "请选择包含 config.json 的文件夹，或重新下载模型。",
    ),
    "tokenizer_missing": Words(
        "The model's tokenizer could not be loaded.",
        "无法加载模型的分词器。",
        "tokenizer.json is missing or damaged, or an old tokenizer needs sentencepiece, which is not installed.",
        "缺少 tokenizer.json 或文件损坏；旧式分词器还需要安装 sentencepiece。",
        "Download the tokenizer's files again.",
        "请重新下载分词器文件。",
    ),
    "unknown_architecture": Words(
        "This vLLM does not know the model's architecture {architecture}.",
        "当前的 vLLM 不支持模型架构 {architecture}。",
        "The model is newer than this environment's vLLM or transformers, or it was removed from them.",
        "模型比当前环境中的 vLLM 或 transformers 更新，或者已被它们移除。",
        "Use an environment with a newer vLLM, or another model.",
        "请改用 vLLM 版本更新的环境，或换一个模型。",
    ),
    "shape_mismatch": Words(
        "The weights do not have the shapes that config.json describes.",
        "权重的形状与 config.json 的描述不一致。",
        "Files of two models or revisions are mixed, or config.json was edited.",
        "混入了不同模型或不同版本的文件，或者 config.json 被修改过。",
        "Download the model again into an empty folder.",
        "请把模型重新下载到一个空文件夹中。",
    ),
    # arguments
    "unknown_flag": Words(
        "This vLLM does not know {flags}.",
        "当前的 vLLM 不认识参数 {flags}。",
        "The flag was removed in a later version, does not exist yet in this one, or is mistyped.",
        "该参数已被后续版本移除，或当前版本尚未提供，或者拼写有误。",
        "Remove the flag from the preset.",
        "请从预设中删除该参数。",
    ),
    "bad_flag_value": Words(
        "vLLM refuses the value of --{flag}: {value}.",
        "vLLM 不接受参数 --{flag} 的取值：{value}。",
        "The value is mistyped, or this version offers others.",
        "取值写错了，或者当前版本的可选值不同。",
        "Correct the value; the line below names what is allowed.",
        "请更正取值；下面的日志行列出了允许的值。",
    ),
    "port_taken": Words(
        "The port {port} is already in use.",
        "端口 {port} 已被占用。",
        "Another program, perhaps an engine that was not ended, listens there.",
        "另一个程序正在监听该端口，可能是尚未结束的引擎。",
        "Start on another port, or end the other program.",
        "请换一个端口启动，或结束占用端口的程序。",
    ),
    "context_too_long": Words(
        "A context of {context} tokens was asked for, and the model is made for {limit}.",
        "要求的上下文为 {context} token，而模型最多支持 {limit} token。",
        "The model's config.json names a shorter context.",
        "模型的 config.json 规定的上下文更短。",
        "Start with {limit} tokens, or choose a model with a longer context.",
        "请以 {limit} token 启动，或选择上下文更长的模型。",
    ),
    "kv_too_small": Words(
        "A context of {context} tokens does not fit into the KV cache{figures}.",
        "KV 缓存放不下 {context} token 的上下文{figures}。",
        "Not even one request of that length would fit into the memory left for the KV cache.",
        "留给 KV 缓存的空间连一个这样长的请求都放不下。",
        "Shorten the context, or give the KV cache more memory.",
        "请缩短上下文，或为 KV 缓存分配更多内存。",
    ),
    "kv_no_room": Words(
        "No memory is left for the KV cache.",
        "没有剩余内存可用于 KV 缓存。",
        "Weights and activations take all that the engine may use.",
        "权重和激活值已用完允许引擎使用的全部内存。",
        "Allow a larger share of the card's memory, use more cards, or a smaller or quantized model.",
        "请提高显存占比，使用更多显卡，或换用更小的或量化的模型。",
    ),
    "kv_too_big": Words(
        "A KV cache of {requested} GiB was asked for, and {available} GiB of memory are free.",
        "要求 {requested} GiB 的 KV 缓存，而空闲内存只有 {available} GiB。",
        "The KV cache on a CPU is taken from the machine's memory at once.",
        "在 CPU 上，KV 缓存会一次性占用系统内存。",
        "Ask for a smaller KV cache, or end other programs.",
        "请减小 KV 缓存，或结束其他程序。",
    ),
    "unknown_quantization": Words(
        "This vLLM does not know the quantization {method}.",
        "当前的 vLLM 不支持量化方式 {method}。",
        "It is mistyped, spelled otherwise in this version, or the checkpoint needs a newer vLLM.",
        "名称写错了，在当前版本中叫法不同，或者该检查点需要更新的 vLLM。",
        "Leave the quantization to the checkpoint, or use another environment.",
        "请不要指定量化方式，由检查点自行决定；或者换一个环境。",
    ),
    "quantization_mismatch": Words(
        "The quantization {asked} was asked for, but the checkpoint is not made for it.",
        "指定了量化方式 {asked}，但检查点并不是这种格式。",
        "The model is not quantized, or in another way than was asked for.",
        "模型没有量化，或者量化方式与指定的不同。",
        "Leave the quantization to the checkpoint, or download one that has it.",
        "请不要指定量化方式，由检查点自行决定；或者下载对应的量化版本。",
    ),
    "tensor_parallel_indivisible": Words(
        "The model's {heads} attention heads cannot be shared evenly by {gpus} cards.",
        "模型有 {heads} 个注意力头，无法平均分给 {gpus} 块显卡。",
        "Tensor parallelism gives each card the same number of heads.",
        "张量并行要求每块显卡分到同样多的注意力头。",
        "Use a number of cards that divides {heads}, or pipeline parallelism.",
        "请使用能整除 {heads} 的显卡数量，或改用流水线并行。",
    ),
    "too_few_gpus": Words(
        "More cards were asked for than the engine sees{figures}.",
        "要求使用的显卡多于引擎能看到的显卡{figures}。",
        "The machine has fewer cards, or some are hidden from the engine or lost.",
        "机器上的显卡不够，或者部分显卡对引擎不可见、已掉线。",
        "Use as many cards as the engine sees, or select more of them.",
        "请按引擎能看到的数量使用显卡，或多选几块。",
    ),
    "unknown_attention_backend": Words(
        "This vLLM does not know the attention backend {backend}.",
        "当前的 vLLM 没有注意力后端 {backend}。",
        "It is mistyped, or its plugin is not installed in this environment.",
        "名称写错了，或者当前环境没有安装对应的插件。",
        "Leave the choice to vLLM.",
        "请让 vLLM 自行选择。",
    ),
    "unknown_parser": Words(
        "This vLLM does not know the parser {parser}.",
        "当前的 vLLM 没有解析器 {parser}。",
        "The tool or reasoning parser is mistyped, or newer than this version.",
        "工具调用或推理解析器的名称写错了，或者当前版本尚未提供。",
        "Choose one of those in the line below, or none.",
        "请从下面日志行列出的解析器中选择，或不使用解析器。",
    ),
    "speculation_incomplete": Words(
        "Speculative decoding was asked for with incomplete settings.",
        "启用了投机解码，但设置不完整。",
        "The method or draft model is missing, or the number of tokens to guess.",
        "缺少投机方法或草稿模型，或者没有给出每次猜测的 token 数。",
        "Set the method and the number of tokens in the preset, or switch speculation off.",
        "请在预设中设置投机方法和 token 数，或关闭投机解码。",
    ),
    # what the card's generation cannot do
    "quantization_unsupported_card": Words(
        "This card cannot run the model's quantization with this vLLM.",
        "当前的 vLLM 无法在这块显卡上运行该模型的量化格式。",
        "vLLM's own kernels for it need a newer generation of cards.",
        "vLLM 自带的相应内核需要更新一代的显卡。",
        "NVFP4 on a V100 needs the V100 environment with dflash2. Else choose a model in FP16 or AWQ.",
        "在 V100 上运行 NVFP4 需要带 dflash2 的 V100 环境；否则请选择 FP16 或 AWQ 模型。",
    ),
    "nvfp4_no_plugin": Words(
        "No kernel in this environment can run NVFP4 on this device.",
        "当前环境中没有能在该设备上运行 NVFP4 的内核。",
        "vLLM's NVFP4 kernels do not support it, and no plugin (dflash2) took the model.",
        "vLLM 的 NVFP4 内核不支持该设备，也没有插件（dflash2）接管该模型。",
        "Use the V100 environment with dflash2, or a model in another format.",
        "请使用带 dflash2 的 V100 环境，或换用其他格式的模型。",
    ),
    "attention_unsupported_card": Words(
        "The attention backend {backend} does not support this card.",
        "注意力后端 {backend} 不支持这块显卡。",
        "It was forced, and its kernels need a newer generation of cards.",
        "该后端是强制指定的，而它的内核需要更新一代的显卡。",
        "Leave the choice to vLLM.",
        "请让 vLLM 自行选择。",
    ),
    "no_kernel_image": Words(
        "The programs in this environment have no code for this card.",
        "当前环境中的程序没有适用于这块显卡的代码。",
        "vLLM, torch or another library was built without its generation: for a V100 that is vLLM 0.20 or torch 2.11 and later.",
        "vLLM、torch 或其他库在编译时没有包含该代显卡；对 V100 来说，即 vLLM 0.20、torch 2.11 及更高版本。",
        "Use an environment built for this card; for a V100 the installer has one.",
        "请使用为该显卡编译的环境；V100 环境可以用安装器安装。",
    ),
    "bf16_unsupported": Words(
        "{card} has no bfloat16.",
        "{card} 不支持 bfloat16。",
        "The model's own type is bfloat16, which needs compute capability 8.0.",
        "模型默认使用 bfloat16，需要 8.0 及以上的计算能力。",
        "Start with float16.",
        "请以 float16 启动。",
    ),
    "fp8_unsupported": Words(
        "This card cannot compute with FP8.",
        "这块显卡不支持 FP8 运算。",
        "The KV cache or the weights are FP8, and the kernels for it need a newer generation of cards.",
        "KV 缓存或权重使用了 FP8，而相应内核需要更新一代的显卡。",
        "Set the KV cache type to auto, or choose a model that is not in FP8.",
        "请把 KV 缓存类型设为 auto，或选择非 FP8 的模型。",
    ),
    "triton_pass_failed": Words(
        "Triton could not compile a kernel for this card.",
        "Triton 无法为这块显卡编译内核。",
        "This Triton's compiler fails for the card's generation; on Volta Triton 3.3 is known for it.",
        "该版本 Triton 的编译器在这代显卡上会失败；Triton 3.3 在 Volta 上就有此问题。",
        "Use an environment with another torch and Triton; for a V100 the installer has one.",
        "请换用其他 torch 和 Triton 版本的环境；V100 环境可以用安装器安装。",
    ),
    "triton_layout": Words(
        "Triton could not convert a matrix layout on this card.",
        "Triton 无法在这块显卡上转换矩阵布局。",
        "Old Triton versions cannot do it before Ampere; prefix caching and chunked prefill run into it.",
        "旧版 Triton 在 Ampere 之前的显卡上不支持该转换，前缀缓存和分块预填充会触发它。",
        "Use an environment with a newer Triton, or switch prefix caching off.",
        "请换用 Triton 更新的环境，或关闭前缀缓存。",
    ),
    "triton_shared_memory": Words(
        "A kernel needs {required} bytes of shared memory, and this card has {limit}.",
        "内核需要 {required} 字节共享内存，而这块显卡只有 {limit} 字节。",
        "Its tiles were chosen for a larger card.",
        "内核的分块大小是为更大的显卡选择的。",
        "Leave the attention backend to vLLM, or use another environment.",
        "请让 vLLM 自行选择注意力后端，或换用其他环境。",
    ),
    "cuda_tools_too_new": Words(
        "The CUDA compiler no longer knows {architecture}.",
        "CUDA 编译器已不再支持 {architecture}。",
        "CUDA 13 dropped the generations before Turing.",
        "CUDA 13 已放弃对 Turing 之前显卡的支持。",
        "Use an environment with CUDA 12.9 or older.",
        "请使用 CUDA 12.9 或更早版本的环境。",
    ),
    # cards, memory of cards
    "driver_too_old": Words(
        "The NVIDIA driver is too old for this environment.",
        "NVIDIA 驱动版本过低，无法用于当前环境。",
        "The environment or the container was built for a newer CUDA than the driver supports.",
        "环境或容器使用的 CUDA 版本高于驱动所支持的版本。",
        "Update the driver (R580 is the last one for a V100), or use an environment with an older CUDA.",
        "请升级驱动（V100 可用的最后一个版本是 R580），或使用 CUDA 版本较低的环境。",
    ),
    "no_gpu": Words(
        "The engine sees no GPU.",
        "引擎没有发现 GPU。",
        "The machine has none, its driver is not loaded, or the card is hidden from the engine. Docker needs the NVIDIA Container Toolkit.",
        "机器上没有 GPU，驱动没有加载，或者显卡对引擎不可见。Docker 还需要安装 NVIDIA Container Toolkit。",
        "Check the driver with nvidia-smi, or use a CPU environment.",
        "请用 nvidia-smi 检查驱动，或使用 CPU 环境。",
    ),
    "gpu_lost": Words(
        "A GPU no longer answers.",
        "有一块 GPU 已失去响应。",
        "It fell off the bus: power, heat, a riser or the card itself.",
        "显卡已从总线上掉线，可能与供电、散热、转接线或显卡本身有关。",
        "Look into the kernel log (dmesg) for Xid errors; as a rule only a reboot brings it back.",
        "请查看内核日志（dmesg）中的 Xid 错误；通常只有重启才能恢复。",
    ),
    "nccl_failure": Words(
        "The cards could not talk to each other (NCCL).",
        "显卡之间通信失败（NCCL）。",
        "NCCL says only that a call failed; the lines before may tell more.",
        "NCCL 只报告了调用失败；更多信息可能在前面的日志行中。",
        "Start again; if it stays, set NCCL_DEBUG=INFO in the preset and read the log.",
        "请重新启动；如果仍然失败，请在预设中设置 NCCL_DEBUG=INFO 并查看日志。",
    ),
    "gpu_memory_taken": Words(
        "Only {free} of {total} GiB of the card's memory are free, less than was asked for.",
        "显卡 {total} GiB 显存中只有 {free} GiB 空闲，少于要求的数量。",
        "Another process holds memory on this card.",
        "另一个进程占用了这块显卡的显存。",
        "End the other process (the GPU page names it), or allow a smaller share.",
        "请结束该进程（GPU 页面会列出它），或降低显存占比。",
    ),
    "gpu_memory_changed": Words(
        "The card's free memory grew from {before} to {after} GiB while the engine measured its own need.",
        "引擎测量自身显存需求期间，显卡的空闲显存从 {before} GiB 增加到了 {after} GiB。",
        "Another process gave memory back at that moment, such as an engine that was ending.",
        "另一个进程恰好在此时释放了显存，例如正在退出的引擎。",
        "Start again once nothing else starts or ends on this card.",
        "请在这块显卡上没有其他程序启动或退出时重新启动。",
    ),
    "oom_load": Words(
        "The card's memory ran out while the weights were loaded.",
        "加载权重时显存不足。",
        "The model alone is larger than the memory of the card or cards.",
        "仅模型本身就超出了显卡的显存。",
        "Share the model among more cards, choose a quantized or smaller one, or offload weights to the CPU.",
        "请用更多显卡分担模型，选择量化的或更小的模型，或把部分权重卸载到 CPU。",
    ),
    "oom_profiling": Words(
        "The card's memory ran out in the trial run before the KV cache was sized.",
        "在分配 KV 缓存之前的试运行中显存不足。",
        "vLLM tries one step with the most tokens and requests allowed; that step did not fit beside the weights.",
        "vLLM 会按允许的最大 token 数和请求数试跑一步，而这一步所需的显存放不下。",
        "Allow fewer tokens a step or fewer requests at once.",
        "请减少每步的 token 数或并发请求数。",
    ),
    "oom_prefill": Words(
        "The card's memory ran out while a request was computed.",
        "处理请求时显存不足。",
        "The step of a long prompt needed more memory than the trial run had shown.",
        "处理长提示词的一步所需的显存超出了试运行时的估计。",
        "Allow fewer tokens a step (512), or leave more of the card's memory free.",
        "请减少每步的 token 数（512），或留出更多显存。",
    ),
    "oom_graphs": Words(
        "The card's memory ran out while CUDA graphs were captured.",
        "捕获 CUDA 图时显存不足。",
        "Graphs need memory beyond weights and KV cache, and too little was left.",
        "CUDA 图需要权重和 KV 缓存之外的显存，而剩余的不够。",
        "Allow a smaller share of the card's memory, or start without graphs.",
        "请降低显存占比，或不使用 CUDA 图启动。",
    ),
    "oom_unknown_phase": Words(
        "The card's memory ran out.",
        "显存不足。",
        "The log does not tell in which phase.",
        "日志没有说明发生在哪个阶段。",
        "Allow a smaller share of the card's memory, a shorter context or fewer requests; see who else uses the card.",
        "请降低显存占比、缩短上下文或减少并发请求，并查看是否有其他进程占用显卡。",
    ),
    # the machine
    "host_memory": Words(
        "The machine's memory (RAM) ran out.",
        "系统内存（RAM）不足。",
        "Weights, KV cache or offloaded parts need more than was free; the kernel ends a process or refuses the memory.",
        "权重、KV 缓存或卸载的部分超出了空闲内存，内核因此结束进程或拒绝分配。",
        "End other programs, ask for a smaller KV cache or less offload, or use a smaller model.",
        "请结束其他程序，减小 KV 缓存或卸载量，或换用更小的模型。",
    ),
    "killed": Words(
        "The engine was ended by {signal}.",
        "引擎被 {signal} 信号结束。",
        "Something outside the panel sent it. If nobody did, the machine may have run out of memory.",
        "信号来自面板之外。如果没有人这样做，可能是系统内存耗尽。",
        "Start again; look into the kernel log (dmesg) for the out-of-memory killer.",
        "请重新启动，并在内核日志（dmesg）中查找内存不足的记录。",
    ),
    "crashed": Words(
        "The engine crashed with {signal}.",
        "引擎崩溃（{signal}）。",
        "The fault is in compiled code; the end of the log may name the library.",
        "错误发生在编译后的代码中，日志末尾可能指出具体的库。",
        "Start again; if it stays, use another environment.",
        "请重新启动；如果仍然崩溃，请换用其他环境。",
    ),
    "shared_memory_small": Words(
        "The shared memory (/dev/shm) is full.",
        "共享内存（/dev/shm）已满。",
        "Engines with several processes use it; containers often have only 64 MB.",
        "多进程引擎需要共享内存，而容器通常只有 64 MB。",
        "Start the container with --shm-size 8g or --ipc host, or clear leftovers in /dev/shm.",
        "请以 --shm-size 8g 或 --ipc host 启动容器，或清理 /dev/shm 中的残留文件。",
    ),
    "disk_full": Words(
        "The disk is full.",
        "磁盘已满。",
        "The engine could not write a file: caches and compiled kernels need room too.",
        "引擎无法写入文件；缓存和编译出的内核也需要空间。",
        "Make room, or move the cache to another disk.",
        "请清理磁盘，或把缓存移到其他磁盘。",
    ),
    "permission_denied": Words(
        "The engine may not access {path}.",
        "引擎无权访问 {path}。",
        "The file or folder belongs to another user.",
        "该文件或文件夹属于其他用户。",
        "Change its owner or its permissions.",
        "请修改其所有者或权限。",
    ),
    "no_compiler": Words(
        "The engine needs a {language} compiler, and none was found.",
        "引擎需要 {language} 编译器，但没有找到。",
        "Kernels are compiled at the start.",
        "启动时需要编译内核。",
        "Install it (gcc and g++, or the CUDA toolkit with nvcc), or start without compilation.",
        "请安装编译器（gcc 和 g++，或带 nvcc 的 CUDA 工具包），或关闭编译后启动。",
    ),
    "module_missing": Words(
        "This environment lacks {module}.",
        "当前环境缺少 {module}。",
        "The environment is not complete, or an option needs an extra package.",
        "环境不完整，或者某个选项需要额外的软件包。",
        "Install what is missing into the environment, or install the environment again.",
        "请在环境中安装缺少的软件包，或重新安装该环境。",
    ),
    "not_executable": Words(
        "The engine could not be executed: {error}.",
        "引擎无法执行：{error}。",
        "The environment's Python, or the program in the container's image, is gone or not executable.",
        "环境中的 Python 或容器镜像中的程序不存在或不可执行。",
        "Install the environment again, or choose another one.",
        "请重新安装该环境，或选择其他环境。",
    ),
    "start_overdue": Words(
        "The start was given up after {seconds} seconds.",
        "启动超过 {seconds} 秒仍未完成，已放弃。",
        "The limit is {limit} seconds; nothing had moved for the last {quiet} of them.",
        "时限为 {limit} 秒；最后 {quiet} 秒内没有任何进展。",
        "Read the last lines of the log; a slow disk needs a larger limit in the preset.",
        "请查看日志的最后几行；磁盘较慢时，请在预设中放宽时限。",
    ),
    "unknown": Words(
        "The engine failed, and no rule knows why.",
        "引擎启动或运行失败，没有规则能解释原因。",
        "",
        "",
        "Read the last lines below, and the whole log.",
        "请查看下面的最后几行以及完整日志。",
    ),
}
