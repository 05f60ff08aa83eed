"""Words of the findings about the model, its number formats, its memory and its prompts."""

from collections.abc import Mapping

from backend.preflight.words_table import Words

MODEL_WORDS: Mapping[str, Words] = {
    # the model's files
    "model_not_here": Words(
        "The model {model} is not on this machine.",
        "本机没有模型 {model}。",
        "Download it first, or choose another.",
        "请先下载，或选择其他模型。",
    ),
    "config_missing": Words(
        "The model's folder has no {files}.",
        "模型文件夹中没有 {files}。",
        "The download is not complete: download the model again.",
        "下载不完整，请重新下载模型。",
    ),
    "tokenizer_missing": Words(
        "The model has no tokenizer: {files} is missing.",
        "模型缺少分词器：没有 {files}。",
        "Download the model again, or copy the tokenizer's files from its repository.",
        "请重新下载模型，或从其仓库补齐分词器文件。",
    ),
    "weights_missing": Words(
        "Weight files are missing ({count}): {files}.",
        "缺少权重文件（{count} 个）：{files}。",
        "The download is not complete: download the model again.",
        "下载不完整，请重新下载模型。",
    ),
    "files_missing": Words(
        "Files of the model are missing ({count}): {files}.",
        "缺少模型文件（{count} 个）：{files}。",
        "Download the model again.",
        "请重新下载模型。",
    ),
    "files_lost": Words(
        "Files that were downloaded with the model are gone ({count}): {files}.",
        "随模型下载的文件已不在（{count} 个）：{files}。",
        "The engine may do without them. If not, download the model again.",
        "引擎可能不需要它们；若启动失败，请重新下载模型。",
    ),
    "file_corrupt": Words(
        "The model's file {file} is damaged: {reason}.",
        "模型文件 {file} 已损坏：{reason}。",
        "Download it again. As a rule a download broke off or a disk was full.",
        "请重新下载该文件，通常是下载中断或磁盘写满所致。",
    ),
    "files_changed": Words(
        "Files of the model were changed after the download: {files}.",
        "模型文件在下载后被修改过：{files}。",
        "Nothing to do if that was meant.",
        "如果是有意修改，无需处理。",
    ),
    "facts_unreadable": Words(
        "The model's config.json cannot be understood: {reason}",
        "无法读懂模型的 config.json：{reason}",
        "Context, heads and memory could not be checked.",
        "因此无法检查上下文、注意力头与显存。",
    ),
    "model_not_read": Words(
        "What the model {model} is like is not known yet, so its context, heads and memory were not checked.",
        "尚不了解模型 {model} 的结构，因此未检查其上下文、注意力头与显存。",
    ),
    "files_not_checked": Words(
        "Whether the files of {model} are complete was not checked.",
        "未检查 {model} 的文件是否完整。",
    ),
    # what it is
    "context_above_model": Words(
        "{context} tokens of context are more than the model was made for: {limit}. vLLM refuses to start.",
        "上下文 {context} token 超出了模型支持的上限 {limit}，vLLM 会拒绝启动。",
        "Lower the context.",
        "请减小上下文。",
    ),
    "context_stretched": Words(
        "{context} tokens of context are more than the model was made for ({limit}); a setting allows it all the same.",
        "上下文 {context} token 超出了模型的上限 {limit}，但有设置放行了它。",
        "Answers may turn into nonsense beyond {limit} tokens.",
        "超过 {limit} token 后，回答可能不知所云。",
    ),
    "context_limit_unknown": Words(
        "The model does not say how long a context it was made for; {context} tokens could not be checked.",
        "模型没有说明支持多长的上下文，无法检查 {context} token 是否合适。",
    ),
    "model_class_unchecked": Words(
        "Whether {version} has the model class {architecture} is not known: the environment's own list cannot be read.",
        "无法确定 {version} 是否支持模型类 {architecture}：读不到该环境自带的列表。",
    ),
    "model_class_unknown": Words(
        "{version} does not know the model class {architecture}.",
        "{version} 不认识模型类 {architecture}。",
        "Use an environment with another vLLM, or another model.",
        "请改用其他版本 vLLM 的环境，或换一个模型。",
    ),
    "model_class_removed": Words(
        "{version} no longer has the model class {architecture}; older versions had it.",
        "{version} 已不再支持模型类 {architecture}，旧版本支持。",
        "Use an environment with an older vLLM.",
        "请改用旧版本 vLLM 的环境。",
    ),
    "model_class_by_transformers": Words(
        "{version} has no class of its own for {architecture} and may run it by way of transformers, which is slower.",
        "{version} 没有 {architecture} 的专用实现，可能借助 transformers 运行，速度较慢。",
    ),
    "model_type_unknown": Words(
        "Neither {version} nor its transformers knows the model type {model_type}.",
        "{version} 及其 transformers 都不认识模型类型 {model_type}。",
        "Use an environment with newer packages, or another model.",
        "请改用软件包更新的环境，或换一个模型。",
    ),
    "own_code": Words(
        "{model} runs Python code of its own (--trust-remote-code), with all the rights of this user.",
        "{model} 会以当前用户的全部权限运行自带的 Python 代码（--trust-remote-code）。",
        "Only do this with a source you trust.",
        "请仅对信任的来源这样做。",
    ),
    "heads_do_not_divide": Words(
        "{gpus} cards cannot share this model evenly: {heads} attention heads, {kv_heads} KV heads, {columns} columns.",
        "{gpus} 块卡无法均分该模型：{heads} 个注意力头、{kv_heads} 个 KV 头、{columns} 列。",
        "Use a number of cards that divides them, or give each card some layers (pipeline).",
        "请使用能整除的卡数，或改为按层分给各卡（pipeline）。",
    ),
    "more_cards_than_layers": Words(
        "{gpus} cards are more than the model's {layers} layers.",
        "卡数 {gpus} 多于模型的层数 {layers}。",
        "Use fewer cards.",
        "请减少卡数。",
    ),
    # formats
    "bfloat16": Words(
        "{card} (compute capability {capability}) cannot calculate in bfloat16; that begins with 8.0.",
        "{card}（计算能力 {capability}）不支持 bfloat16，8.0 起才支持。",
        "Use float16.",
        "请改用 float16。",
    ),
    "kv_cache_format": Words(
        "{card} (compute capability {capability}) cannot keep the KV cache as {dtype}.",
        "{card}（计算能力 {capability}）不支持 {dtype} 格式的 KV 缓存。",
        "Leave the format of the KV cache to the engine.",
        "请把 KV 缓存格式交给引擎决定。",
    ),
    "kv_cache_format_of_checkpoint": Words(
        "The checkpoint asks for a KV cache as {dtype}, which {card} (compute capability {capability}) cannot keep.",
        "模型文件要求 {dtype} 格式的 KV 缓存，而 {card}（计算能力 {capability}）不支持。",
        "Ask for float16 explicitly.",
        "请明确指定 float16。",
    ),
    "nvfp4_needs_dflash2": Words(
        "NVFP4 weights run on {card} with dflash2 only, and this environment does not have it.",
        "{card} 只有装了 dflash2 才能运行 NVFP4 权重，而该环境没有安装。",
        "Use the V100 environment, or a model with other weights.",
        "请改用 V100 环境，或换用其他权重的模型。",
    ),
    "nvfp4_dflash2_broken": Words(
        "NVFP4 weights run on {card} with dflash2 only, and it cannot be imported: {reason}",
        "{card} 只有装了 dflash2 才能运行 NVFP4 权重，而它无法导入：{reason}",
        "Repair the V100 environment.",
        "请修复 V100 环境。",
    ),
    "quantization_needs_newer_card": Words(
        "vLLM runs {method} weights from compute capability {needed} on; {card} has {capability}.",
        "vLLM 从计算能力 {needed} 起支持 {method} 权重，{card} 为 {capability}。",
        "Use unquantized weights, GPTQ, or NVFP4 with dflash2.",
        "请改用未量化、GPTQ，或配合 dflash2 的 NVFP4 权重。",
    ),
    "head_dim_unsupported": Words(
        "This engine's attention has no heads of size {head_dim}; it has {sizes}.",
        "该引擎的注意力不支持大小为 {head_dim} 的头，仅支持 {sizes}。",
        "Use another model or another engine.",
        "请换用其他模型或引擎。",
    ),
    "head_dim_not_dflash2": Words(
        "dflash2 has no kernels for heads of size {head_dim} ({sizes} it has): vLLM's slower attention is used.",
        "dflash2 没有头大小为 {head_dim} 的内核（支持 {sizes}），将使用 vLLM 较慢的注意力。",
    ),
    "head_dim_small": Words(
        "Heads of size {head_dim} are below what vLLM's Triton attention takes ({least}).",
        "头大小 {head_dim} 小于 vLLM 的 Triton 注意力所支持的 {least}。",
        "It may refuse to start; another attention backend may help.",
        "可能无法启动，可尝试其他注意力后端。",
    ),
    "attention_needs_newer_card": Words(
        "The attention backend {backend} begins with compute capability {needed}; {card} is older.",
        "注意力后端 {backend} 需要计算能力 {needed} 以上，{card} 不满足。",
        "Leave the choice to the engine.",
        "请交给引擎选择。",
    ),
    # memory
    "fit_unknown": Words(
        "Whether it fits into memory is not known: {reason}.",
        "无法判断显存是否够用：{reason}。",
    ),
    "fit_cannot_lay_out": Words(
        "With these settings the engine cannot lay out this model's KV cache: {reason}.",
        "按当前设置，引擎无法为该模型布置 KV 缓存：{reason}。",
        "Leave out the offloading of KV cache.",
        "请取消 KV 缓存卸载。",
    ),
    "fit_too_little_free": Words(
        "The engine will ask for {requested}, and of {total} only {free} are free.",
        "引擎将申请 {requested}，而 {total} 中只有 {free} 空闲。",
        "Ask for less, or free memory.",
        "请降低申请量，或释放内存。",
    ),
    "fit_weights_too_large": Words(
        "The weights take {weights} a card, and {free} of {total} are free.",
        "每卡权重需 {weights}，而 {total} 中只有 {free} 空闲。",
        "Use more cards, a smaller model, or weights in fewer bits.",
        "请使用更多显卡、更小的模型或更低位数的权重。",
    ),
    "fit_loading_too_large": Words(
        "The weights fit once they are loaded ({weights}), but while they are loaded {peak} are needed and {free} are free.",
        "权重加载后可容纳（{weights}），但加载过程中需要 {peak}，仅 {free} 空闲。",
        "Use more cards, or a checkpoint that is not rearranged on loading.",
        "请使用更多显卡，或加载时无需重排的模型文件。",
    ),
    "fit_no_kv_room": Words(
        "Weights ({weights}) and overhead ({overhead}) leave nothing for the KV cache of the {requested} allowed.",
        "在允许的 {requested} 中，权重（{weights}）和开销（{overhead}）没有给 KV 缓存留下空间。",
        "Allow a larger share of the card, use smaller steps, or more cards.",
        "请提高显存占比、减小每步 token 数，或使用更多显卡。",
    ),
    "fit_context_too_long": Words(
        "One request of {context} tokens needs {kv_one} of KV cache, and there is room for {kv}. Longest context: {longest}.",
        "一个 {context} token 的请求需要 {kv_one} KV 缓存，而只有 {kv} 可用。最长上下文：{longest}。",
        "Lower the context, or make more room for the KV cache.",
        "请减小上下文，或为 KV 缓存留出更多空间。",
    ),
    "fit_fewer_at_once": Words(
        "It starts, but only {at_once} of {sequences} requests of full length fit at once; the others wait.",
        "可以启动，但 {sequences} 个满长度请求中只能同时处理 {at_once} 个，其余需等待。",
        "Fine while chats are short. Else allow fewer requests at once, or less context.",
        "对话较短时没有影响；否则请减少并发请求数或上下文。",
    ),
    # equal beginnings
    "prompt_changes": Words(
        "The system prompt holds “{found}”, {percent} % from its beginning: from there on every request is computed anew.",
        "系统提示词在 {percent}% 处含有“{found}”：每次请求都会变化，之后的内容都得重新计算。",
        "Move what changes to the end of the prompt or into the question.",
        "请把会变化的内容移到提示词末尾或放进问题里。",
    ),
    "prompt_has_a_date": Words(
        "The system prompt holds “{found}”. If a program writes that anew for each request, the prefix cache is lost.",
        "系统提示词含有“{found}”。如果每次请求都由程序改写，前缀缓存就会失效。",
        "A text that stays as it is does no harm.",
        "内容固定不变则没有影响。",
    ),
    "template_changes": Words(
        "The chat template of {model} writes today's date into every prompt: the prefix cache starts over each day.",
        "{model} 的对话模板会把当天日期写进每个提示词：前缀缓存每天重新开始。",
    ),
    "prefix_caching_off": Words(
        "Prefix caching is off: every turn of a chat computes all earlier turns again.",
        "前缀缓存已关闭：对话的每一轮都要重新计算之前的全部内容。",
        "Switch it on, unless you are measuring.",
        "除非在做测量，否则请打开。",
    ),
    "states_not_cached": Words(
        "This model has recurrent layers: vLLM leaves prefix caching off unless it is asked for.",
        "该模型含有循环层：不主动要求时，vLLM 不会启用前缀缓存。",
        "Switch it on for long chats; it works in large blocks only.",
        "长对话建议打开；它只能按较大的块缓存。",
    ),
    "prompt_too_long": Words(
        "The system prompt is about {tokens} tokens, more than half of the context of {context}.",
        "系统提示词约 {tokens} token，超过上下文 {context} 的一半。",
        "Shorten it, or raise the context.",
        "请缩短提示词，或增大上下文。",
    ),
    "cache_evicted": Words(
        "There is room for {requests} requests of full length: long chats push each other out of the prefix cache.",
        "KV 缓存只够 {requests} 个满长度请求：长对话会互相挤出前缀缓存。",
        "Less context leaves more room.",
        "减小上下文可以留出更多空间。",
    ),
}
