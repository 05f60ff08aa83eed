"""Words of the findings about the environment, the cards, the machine and how the engine is reached."""

from collections.abc import Mapping

from backend.preflight.words_table import Words

MACHINE_WORDS: Mapping[str, Words] = {
    # environment and driver
    "environment_not_asked": Words(
        "What the environment {environment} can do is not known yet: nobody has looked into it.",
        "尚不清楚环境 {environment} 的能力：还没有检查过。",
        "Let the Environments page look at it.",
        "请在“运行环境”页面检查它。",
    ),
    "not_a_cpu_build": Words(
        "This environment's vLLM ({vllm}, torch {torch}) was built for graphics cards, not for the CPU.",
        "该环境的 vLLM（{vllm}，torch {torch}）是为显卡构建的，不能用 CPU 运行。",
        "Use the CPU environment.",
        "请改用 CPU 环境。",
    ),
    "cpu_build": Words(
        "This environment's vLLM ({vllm}, torch {torch}) was built for the CPU and cannot use a card.",
        "该环境的 vLLM（{vllm}，torch {torch}）是为 CPU 构建的，不能使用显卡。",
        "Use an environment with CUDA.",
        "请改用带 CUDA 的环境。",
    ),
    "rocm_build": Words(
        "This environment's torch ({torch}) was built for AMD cards.",
        "该环境的 torch（{torch}）是为 AMD 显卡构建的。",
        "Use an environment with CUDA.",
        "请改用带 CUDA 的环境。",
    ),
    "torch_lacks_card": Words(
        "torch {torch} has no code for {card} ({needed}); it has {archs}.",
        "torch {torch} 没有 {card}（{needed}）的代码，仅包含 {archs}。",
        "Use an environment whose torch has {needed}; for a V100 that is the V100 environment.",
        "请改用 torch 含有 {needed} 的环境；V100 请用 V100 环境。",
    ),
    "cuda_too_new": Words(
        "This environment is built with CUDA {cuda}, whose tools no longer compile for {card}.",
        "该环境基于 CUDA {cuda}，其编译工具已不支持 {card}。",
        "Kernels that are compiled at the start fail. Use an environment with CUDA 12.",
        "启动时编译的内核会失败，请改用 CUDA 12 的环境。",
    ),
    "driver_too_old": Words(
        "The driver {driver} is too old for CUDA {cuda}, which needs {needed} or newer.",
        "驱动 {driver} 对 CUDA {cuda} 来说太旧，需要 {needed} 或更新。",
        "Update the driver, up to R580 for a V100.",
        "请更新驱动；V100 最高用 R580。",
    ),
    "driver_without_volta": Words(
        "The driver {driver} no longer supports {card}; R{last} is the last branch that does.",
        "驱动 {driver} 已不支持 {card}，R{last} 是最后一个支持的分支。",
        "Install a driver of the R580 branch.",
        "请安装 R580 分支的驱动。",
    ),
    "open_module": Words(
        "The driver {driver} runs with NVIDIA's open kernel module, which does not support {card}.",
        "驱动 {driver} 使用的是 NVIDIA 开源内核模块，不支持 {card}。",
        "Install the proprietary kernel module of the same driver.",
        "请安装同版本驱动的专有内核模块。",
    ),
    "no_cards": Words(
        "No card can be read: {reason}",
        "读不到任何显卡：{reason}",
        "Check the driver, or choose a preset for the CPU.",
        "请检查驱动，或选择 CPU 预设。",
    ),
    "cards_not_known": Words(
        "Which cards there are is not known yet, so nothing about them was checked.",
        "尚不清楚有哪些显卡，因此未做相关检查。",
    ),
    "dflash2_broken": Words(
        "dflash2 is installed and cannot be imported: {reason}",
        "已安装 dflash2，但无法导入：{reason}",
        "Without it vLLM's own, slower attention is used. Repair the environment.",
        "缺少它时会使用 vLLM 自带的较慢注意力。请修复该环境。",
    ),
    "no_dflash2": Words(
        "This environment has no dflash2: vLLM's own, slower attention is used.",
        "该环境没有 dflash2，将使用 vLLM 自带的较慢注意力。",
        "The V100 environment has it.",
        "V100 环境自带 dflash2。",
    ),
    "card_needs_volta_kind": Words(
        "The preset is for cards from compute capability 7.5 on; {card} has {capability}.",
        "该预设面向计算能力 7.5 及以上的显卡，{card} 为 {capability}。",
        "Choose a preset for the V100.",
        "请选择面向 V100 的预设。",
    ),
    # cards
    "card_dropped": Words(
        "The card {card} {state}. {detail}",
        "显卡 {card} {state}。{detail}",
        "Choose another card; a card that fell off the bus comes back with a restart of the machine at the latest.",
        "请换一块显卡；掉线的卡最迟在重启机器后恢复。",
    ),
    "card_not_read": Words(
        "The card {card} {state}, so it could not be checked. {detail}",
        "显卡 {card} {state}，因此未能检查。{detail}",
    ),
    "another_card_dropped": Words(
        "Another card, {card}, {state}. This launch does not use it.",
        "另一块显卡 {card} {state}，本次启动不使用它。",
    ),
    "too_few_cards": Words(
        "The launch needs {wanted} cards, and there are {have}.",
        "需要 {wanted} 块显卡，现有 {have} 块。",
        "Use fewer cards.",
        "请减少卡数。",
    ),
    "card_taken": Words(
        "{card} is in use by {who}: {free} of {total} are free, and the engine will ask for {requested}.",
        "{card} 正被 {who} 使用：{total} 中仅 {free} 空闲，而引擎将申请 {requested}。",
        "Use another card, ask for a smaller share, or have it freed.",
        "请换卡、降低显存占比，或请对方释放。",
    ),
    "card_in_use": Words(
        "{card} is also used by {who}, {used} in all.",
        "{card} 同时被 {who} 使用，共 {used}。",
        "Both get slower, and the engine fails if the other takes more while it starts.",
        "双方都会变慢；若启动时对方占用继续增加，引擎会启动失败。",
    ),
    "card_memory_unknown": Words(
        "How much memory of {card} is free cannot be read.",
        "无法读取 {card} 的空闲显存。",
    ),
    "uneven_cards": Words(
        "{small} ({small_size}) and {large} ({large_size}) would share the model evenly: the smaller decides how much fits.",
        "{small}（{small_size}）与 {large}（{large_size}）会平分模型：能放多少由较小的一块决定。",
        "Choose cards of one kind.",
        "请选择同型号的显卡。",
    ),
    # the machine
    "disk_full": Words(
        "The disk of the panel's folder is full: {free} are left.",
        "面板所在磁盘已满：仅剩 {free}。",
        "Free some space: the engine cannot write its log.",
        "请清理磁盘，否则引擎无法写日志。",
    ),
    "disk_small": Words(
        "Only {free} are left on the disk of the panel's folder.",
        "面板所在磁盘仅剩 {free}。",
        "Logs and compiled kernels need about 2 GiB.",
        "日志和编译的内核大约需要 2 GiB。",
    ),
    "disk_unknown": Words(
        "How much of the disk is free cannot be read.",
        "无法读取磁盘剩余空间。",
    ),
    "memory_unknown": Words(
        "How much main memory is free cannot be read.",
        "无法读取空闲内存。",
    ),
    "memory_of_cpu_engine": Words(
        "Weights ({weights}) and KV cache ({kv}) need {needed} of main memory; {where} has {available} free.",
        "权重（{weights}）和 KV 缓存（{kv}）共需内存 {needed}，{where}仅 {available} 空闲。",
        "Use a smaller KV cache or a smaller model.",
        "请减小 KV 缓存，或使用更小的模型。",
    ),
    "memory_for_loading": Words(
        "Loading takes about {needed} of main memory; {where} has {available} free.",
        "加载约需内存 {needed}，{where}仅 {available} 空闲。",
        "Free main memory, or use fewer cards.",
        "请释放内存，或减少卡数。",
    ),
    "offload_memory": Words(
        "Offloading needs {needed} of main memory; {where} has {available} free.",
        "卸载需要内存 {needed}，{where}仅 {available} 空闲。",
        "Offload less.",
        "请减少卸载量。",
    ),
    "offload_disk_full": Words(
        "KV cache may take {wanted} in {path}, where {free} are free.",
        "KV 缓存最多会在 {path} 占用 {wanted}，而那里仅 {free} 空闲。",
        "Lower the limit, or choose another disk.",
        "请降低上限，或换一块磁盘。",
    ),
    "offload_disk_slow": Words(
        "{path} is on a hard disk: reading KV cache from it is slower than computing it anew.",
        "{path} 位于机械硬盘：从中读取 KV 缓存比重新计算还慢。",
        "Use an NVMe disk, or none.",
        "请使用 NVMe 固态硬盘，或不使用磁盘。",
    ),
    "offload_disk_unknown": Words(
        "How much is free in {path} cannot be read.",
        "无法读取 {path} 的剩余空间。",
    ),
    "offload_without_reuse": Words(
        "KV cache is kept in main memory, but prefix caching is off: it will never be used.",
        "KV 缓存会保存在内存中，但前缀缓存已关闭：永远不会被用到。",
        "Switch prefix caching on, or the offloading off.",
        "请打开前缀缓存，或取消卸载。",
    ),
    "weights_offload_is_slow": Words(
        "{size} of each card's weights stay in main memory: every step waits until they have crossed the bus.",
        "每卡有 {size} 权重留在内存中：每一步都要等它们经总线传输。",
        "Only worth it where the model does not fit otherwise.",
        "只有模型放不下时才值得这样做。",
    ),
    # how it is reached
    "port_taken": Words(
        "Port {port} is taken by {who}.",
        "端口 {port} 已被 {who} 占用。",
        "Use another port.",
        "请换一个端口。",
    ),
    "port_unknown": Words(
        "Whether port {port} is free could not be found out.",
        "无法确定端口 {port} 是否空闲。",
    ),
    "port_needs_rights": Words(
        "Port {port} is below 1024, which as a rule only root may use.",
        "端口 {port} 小于 1024，通常只有 root 能使用。",
        "Use another port.",
        "请换一个端口。",
    ),
    "host_not_here": Words(
        "{host} is no address of this machine.",
        "{host} 不是本机的地址。",
        "Use 127.0.0.1, or one of this machine's addresses.",
        "请使用 127.0.0.1 或本机的地址。",
    ),
    "open_without_key": Words(
        "Everyone who reaches {host} can use this engine: it listens beyond this machine and asks for no key.",
        "任何能访问 {host} 的人都可以使用该引擎：它对外监听，却不要求密钥。",
        "Set a key, or listen on this machine only.",
        "请设置密钥，或仅在本机监听。",
    ),
    "name_taken": Words(
        "Another running engine serves the name {name} too: clients cannot tell them apart.",
        "另一个运行中的引擎也叫 {name}：客户端无法区分两者。",
        "Give this one another name.",
        "请换一个名称。",
    ),
}
