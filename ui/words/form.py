"""Words of the launch form: every field with what it costs, the fit bar, and the previews."""

# key: (English, Chinese). {name} marks what is filled in.
WORDS: dict[str, tuple[str, str]] = {
    "form.configure": ("Configure", "配置"),
    "form.title": ("Launch {title}", "启动 {title}"),
    "form.all": ("All settings", "全部设置"),
    "form.as_engine": ("the engine decides", "由引擎决定"),
    "form.on": ("on", "开"),
    "form.off": ("off", "关"),
    "form.auto": ("the panel picks", "由面板选择"),
    "form.launch": ("Launch", "启动"),
    "form.launch_anyway": ("Launch anyway", "仍然启动"),
    "form.command": ("What will run", "将要运行的命令"),
    "form.findings": ("Checked before the start", "启动前检查"),
    "form.no_findings": ("Nothing speaks against it.", "未发现问题。"),
    "form.refused": ("This cannot be launched so.", "无法以此配置启动："),
    # severities of findings: one for each Severity
    "form.severity_error": ("will fail:", "会失败："),
    "form.severity_warning": ("take care:", "需注意："),
    "form.severity_hint": ("to know:", "提示："),
    # what a field refuses; {field} is its label
    "form.not_whole": ("{field}: {value} is not a whole number.", "{field}：{value} 不是整数。"),
    "form.not_number": ("{field}: {value} is not a number.", "{field}：{value} 不是数字。"),
    "form.out_of_range": (
        "{field}: {value} must lie between {least} and {most}.",
        "{field}：{value} 须在 {least} 到 {most} 之间。",
    ),
    "form.not_choice": ("{field}: {value} is not one of: {choices}.", "{field}：{value} 不在可选项中：{choices}。"),
    "form.too_long": ("{field} is longer than {most} characters.", "{field}超过 {most} 个字符。"),
    "form.flag_line": (
        "{field}, line {line}: {value} does not begin with --.",
        "{field}第 {line} 行：{value} 没有以 -- 开头。",
    ),
    "form.flag_quotes": (
        "{field}, line {line}: {value} has a quote that is not closed.",
        "{field}第 {line} 行：{value} 的引号没有闭合。",
    ),
    "form.env_line": ("{field}, line {line} is not NAME=value.", "{field}第 {line} 行不是“名称=值”的形式。"),
    # fields, each with what it costs
    "field.environment": ("Environment", "运行环境"),
    "field.environment_cost": ("Which vLLM runs it.", "由哪个 vLLM 运行。"),
    "field.cards": ("Cards", "显卡"),
    "field.cards_cost": (
        "None ticked: the panel takes those with the most free memory.",
        "不勾选时，面板选用空闲显存最多的显卡。",
    ),
    "field.card_free": ("{free} of {total} GiB free", "空闲 {free}/{total} GiB"),
    "field.model": ("Model", "模型"),
    "field.model_cost": (
        "One on this machine, or owner/name on the hub to see whether it would fit.",
        "本机上的模型；也可填写模型站上的 owner/name，先看是否放得下。",
    ),
    "field.context": ("Context (tokens)", "上下文（token）"),
    "field.context_cost": (
        "Prompt and answer together. Each token takes KV cache; more leaves fewer chats at once.",
        "提示与回答合计。每个 token 都占用 KV 缓存，越长则能并行的对话越少。",
    ),
    "field.max_sequences": ("Requests at once", "并发请求数"),
    "field.max_sequences_cost": (
        "More people at once; each is slower and takes KV cache of its own.",
        "可同时服务更多人；每人变慢，并各占 KV 缓存。",
    ),
    "field.memory_utilization": ("Share of the card's memory", "显存占比"),
    "field.memory_utilization_cost": (
        "More leaves room for KV cache; too much and the start fails when others use the card.",
        "越高 KV 缓存越多；过高时若有他人使用显卡会启动失败。",
    ),
    "field.kv_cache_gib": ("KV cache (GiB of RAM)", "KV 缓存（GiB 内存）"),
    "field.kv_cache_gib_cost": ("Taken from the machine's memory at once.", "启动时即从内存中占用。"),
    "field.served_name": ("Name for clients", "对外模型名"),
    "field.served_name_cost": ("What programs ask for; costs nothing.", "程序调用时使用的名称，无开销。"),
    "field.gpus": ("Number of cards", "显卡数量"),
    "field.gpus_cost": (
        "More cards hold more; between them every token crosses the bus or NVLink.",
        "显卡越多容量越大；每个 token 都要经过总线或 NVLink。",
    ),
    "field.parallel": ("How cards share", "多卡并行方式"),
    "field.parallel_cost": (
        "Tensor is quicker with NVLink; pipeline asks less of the bus.",
        "有 NVLink 时张量并行更快；流水线并行对总线要求更低。",
    ),
    "field.quantization": ("Quantization", "量化"),
    "field.quantization_cost": (
        "The format of the checkpoint; it cannot be chosen freely.",
        "由模型权重的格式决定，不能任意选择。",
    ),
    "field.dtype": ("Number format", "计算精度"),
    "field.dtype_cost": ("A V100 knows float16 only.", "V100 仅支持 float16。"),
    "field.kv_cache_dtype": ("KV cache format", "KV 缓存精度"),
    "field.kv_cache_dtype_cost": (
        "fp8 halves the KV cache; needs an Ada card or newer.",
        "fp8 可使 KV 缓存减半，需要 Ada 或更新的显卡。",
    ),
    "field.max_batched_tokens": ("Tokens a step", "每步 token 数"),
    "field.max_batched_tokens_cost": (
        "Less needs less memory for long prompts, and reads them more slowly.",
        "越小则长提示所需显存越少，但预填充更慢。",
    ),
    "field.prefix_caching": ("Prefix caching", "前缀缓存"),
    "field.prefix_caching_cost": (
        "Equal beginnings are computed once; next to no cost.",
        "相同开头只计算一次，几乎没有开销。",
    ),
    "field.chunked_prefill": ("Chunked prefill", "分块预填充"),
    "field.chunked_prefill_cost": (
        "Long prompts no longer hold up the others; they take a little longer themselves.",
        "长提示不再阻塞其他请求，但自身稍慢。",
    ),
    "field.eager": ("Without graphs and compilation", "不使用图捕获和编译"),
    "field.eager_cost": (
        "Starts sooner and takes less memory; decodes more slowly.",
        "启动更快、更省显存，但解码较慢。",
    ),
    "field.cpu_offload_gib": ("Weights in RAM (GiB a card)", "权重卸载到内存（GiB/卡）"),
    "field.cpu_offload_gib_cost": (
        "Makes a large model fit; every token waits for the bus.",
        "可容纳更大的模型，但每个 token 都要等待总线传输。",
    ),
    "field.kv_offload_gib": ("KV cache in RAM (GiB)", "KV 缓存卸载到内存（GiB）"),
    "field.kv_offload_gib_cost": (
        "Keeps old chats that the card has no room for.",
        "可保留显存放不下的旧对话。",
    ),
    "field.attention_backend": ("Attention backend", "注意力后端"),
    "field.attention_backend_cost": (
        "dflash2 is ours for the V100; else a name that vLLM knows.",
        "V100 使用我们的 dflash2；也可填写 vLLM 支持的名称。",
    ),
    "field.speculation": ("Speculation", "推测解码"),
    "field.speculation_cost": (
        "Guesses tokens ahead: quicker for one chat, slower for many; takes memory.",
        "预先猜测 token：单个对话更快，多个对话更慢，并占用显存。",
    ),
    "field.speculation_tokens": ("Tokens guessed", "猜测 token 数"),
    "field.speculation_tokens_cost": ("More is quicker only while guesses are right.", "仅当猜中率高时越多越快。"),
    "field.host": ("Reachable from", "可访问范围"),
    "field.host_cost": (
        "Beyond this machine it needs an API key: whoever reaches it can use it.",
        "对外开放时必须设置 API 密钥，否则任何人都可使用。",
    ),
    "field.host_loopback": ("this machine only", "仅本机"),
    "field.host_all": ("the network", "局域网"),
    "field.port": ("Port", "端口"),
    "field.port_cost": ("Where programs reach it.", "程序访问的端口。"),
    "field.api_key": ("API key", "API 密钥"),
    "field.api_key_cost": (
        "Asked of every client; neither shown again nor kept in the browser.",
        "所有客户端都须提供；不会再次显示，也不保存在浏览器中。",
    ),
    "field.flags": ("Further flags", "其他参数"),
    "field.flags_cost": (
        "One a line, such as --seed 1. Checked against the engine's own list.",
        "每行一个，例如 --seed 1。会按引擎自身的参数表检查。",
    ),
    "field.env": ("Environment variables", "环境变量"),
    "field.env_cost": ("One NAME=value a line.", "每行一个 名称=值。"),
    # the bar
    "fit.title": ("Will it fit?", "放得下吗？"),
    "fit.unknown": ("Not known: {reason}", "未知：{reason}"),
    # why nothing is known of the model: one for each Gap
    "fit.gap_absent": ("Not known: the model is not on this machine.", "未知：本机没有该模型。"),
    "fit.gap_asking": (
        "The model is not on this machine. Its hub is being asked for its size…",
        "本机没有该模型，正在向模型站查询其大小……",
    ),
    "fit.gap_vain": (
        "Not known: the model is not on this machine, and its hub did not tell its size.",
        "未知：本机没有该模型，模型站也未能给出其大小。",
    ),
    "fit.no_card": (
        "No card is readable here, so the sum is for the {card} the preset was written for.",
        "此处没有可读取的显卡，按预设所针对的 {card} 估算。",
    ),
    "fit.others": ("used by others", "他人占用"),
    "fit.weights": ("weights", "权重"),
    "fit.overhead": ("overhead", "其他开销"),
    "fit.kv": ("KV cache", "KV 缓存"),
    "fit.free": ("free", "空闲"),
    "fit.sum": ("{parts} = {sum} of {total} GiB on each card", "每卡 {parts} = {sum}，共 {total} GiB"),
    "fit.sum_host": ("{parts} = {sum} of {total} GiB of RAM", "{parts} = {sum}，内存共 {total} GiB"),
    "fit.tokens": ("{tokens} tokens of KV cache", "KV 缓存可容纳 {tokens} token"),
    "fit.inverse": (
        "Longest context {context}; at this context {sequences} requests at once.",
        "最长上下文 {context}；当前上下文下最多并发 {sequences} 个请求。",
    ),
    "fit.learned": ("with {size} learned on this host", "含本机实测修正 {size}"),
    # verdicts: one for each Verdict
    "verdict.fits": ("Fits", "放得下"),
    "verdict.fewer_at_once": (
        "Fits, but not all requests at full length at once",
        "放得下，但不能让所有请求同时用满上下文",
    ),
    "verdict.context_too_long": ("The context is too long for the memory that is left", "剩余空间放不下这么长的上下文"),
    "verdict.no_kv_room": ("No room is left for the KV cache", "没有空间留给 KV 缓存"),
    "verdict.loading_too_large": ("Too large while it is loaded", "加载过程中放不下"),
    "verdict.weights_too_large": ("The weights alone are larger than the memory", "仅权重就超过总容量"),
    "verdict.too_little_free": ("Others use too much of the memory", "其他程序占用过多"),
    "verdict.cannot_lay_out": ("This engine cannot lay out the model's KV cache", "该引擎无法安排此模型的 KV 缓存"),
    # previews: one for each kind
    "preview.shell": ("Shell", "Shell"),
    "preview.docker": ("docker run", "docker run"),
    "preview.compose": ("docker compose", "docker compose"),
    "preview.systemd": ("systemd unit", "systemd 单元"),
    # after a start
    "fit.compared": (
        "Predicted {predicted} tokens of KV cache, the engine has {logged} ({difference}).",
        "预测 KV 缓存 {predicted} token，实际 {logged}（{difference}）。",
    ),
}
