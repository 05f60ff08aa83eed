"""Every word the page shows, in English and Chinese: one table, checked for completeness by a test."""

from enum import StrEnum


class Language(StrEnum):
    """A language of the page."""

    EN = "en"
    ZH = "zh"


LANGUAGE_NAMES = {Language.EN: "English", Language.ZH: "中文"}

# key: (English, Chinese). {name} marks what is filled in.
STRINGS: dict[str, tuple[str, str]] = {
    "tab.chat": ("Chat", "对话"),
    "tab.launch": ("Launch", "启动"),
    # status bar
    "bar.theme": ("Light or dark", "浅色 / 深色"),
    "bar.no_engine": ("No engine running", "没有运行中的引擎"),
    "bar.cpu": ("CPU", "CPU"),
    "bar.memory": ("RAM", "内存"),
    "bar.disk_free": ("disk free", "磁盘可用"),
    "bar.reconnecting": ("Connection to the panel lost. Trying again…", "与面板的连接已断开，正在重连…"),
    "bar.unknown": ("unknown", "未知"),
    "bar.vram": ("VRAM", "显存"),
    "bar.up": ("up", "已运行"),
    # why no card can be read: one for each DriverGap
    "gap.no_device": ("No NVIDIA GPU found", "未检测到 NVIDIA 显卡"),
    "gap.no_driver": ("GPU found, NVIDIA driver not loaded", "检测到显卡，但未加载 NVIDIA 驱动"),
    "gap.no_library": ("NVIDIA library not found", "找不到 NVIDIA 驱动库"),
    "gap.version_mismatch": ("NVIDIA driver and library differ in version", "NVIDIA 内核模块与驱动库版本不一致"),
    "gap.denied": ("No permission to read the GPU", "没有读取显卡的权限"),
    "gap.blocked": ("The system blocks the NVIDIA driver", "系统阻止了 NVIDIA 驱动"),
    "gap.silent": ("The NVIDIA driver does not answer", "NVIDIA 驱动无响应"),
    "gap.no_card": ("The NVIDIA driver lists no GPU", "NVIDIA 驱动未列出任何显卡"),
    "gap.no_reader": ("The GPU reader cannot run", "显卡读取程序无法运行"),
    "gap.error": ("The GPU cannot be read", "无法读取显卡"),
    # a card: one for each GpuCardState
    "card.starting": ("being read", "正在读取"),
    "card.ok": ("OK", "正常"),
    "card.lost": ("lost", "掉卡"),
    "card.hung": ("no answer", "无响应"),
    "card.denied": ("no permission", "无权限"),
    "card.no_power": ("no power cable", "未接供电"),
    "card.needs_reset": ("needs a reset", "需要重置"),
    "card.unbound": ("not taken by the driver", "驱动未接管"),
    "card.failed": ("cannot be read", "无法读取"),
    "card.last_seen": ("last read", "上次读取"),
    # engine states
    "state.stopped": ("Stopped", "已停止"),
    "state.starting": ("Starting", "启动中"),
    "state.ready": ("Ready", "就绪"),
    "state.unreachable": ("No answer", "无响应"),
    "state.stopping": ("Stopping", "停止中"),
    "state.failed": ("Failed", "失败"),
    # start-up stages
    "stage.spawn": ("Process", "进程"),
    "stage.imports": ("Imports", "加载程序"),
    "stage.weights": ("Weights", "权重"),
    "stage.kv_cache": ("KV cache", "KV 缓存"),
    "stage.warm_up": ("Warm-up", "预热"),
    "stage.ready": ("Ready", "就绪"),
    # launch page
    "launch.presets": ("Presets", "预设"),
    "launch.engines": ("Engines", "引擎"),
    "launch.start": ("Start", "启动"),
    "launch.stop": ("Stop", "停止"),
    "launch.remove": ("Remove", "移除"),
    "launch.running": ("Running", "运行中"),
    "launch.no_engines": (
        "Nothing has been started yet. Choose a preset and press Start.",
        "还没有启动过引擎。请选择一个预设，然后点击“启动”。",
    ),
    "launch.no_presets": ("No preset could be read.", "没有可用的预设。"),
    "launch.context": ("{tokens} tokens of context", "上下文 {tokens} token"),
    "launch.on_cpu": ("runs on the CPU", "在 CPU 上运行"),
    "launch.broken_preset": ("This preset was left out", "此预设有误，已跳过"),
    "launch.not_prepared": ("Not ready to start", "尚未就绪"),
    "launch.elapsed": ("elapsed", "已用时"),
    "launch.expected": ("about {seconds} s expected", "预计约 {seconds} 秒"),
    "launch.longer": ("longer than the {seconds} s expected", "已超过预计的 {seconds} 秒"),
    "launch.ready_after": ("Ready after {seconds} s", "用时 {seconds} 秒就绪"),
    "launch.uptime": ("Up", "已运行"),
    "launch.adopted": ("Found running when the panel started", "面板启动时已在运行，现已接管"),
    "launch.log": ("Log", "日志"),
    "launch.log_skipped": ("{lines} lines not shown", "省略 {lines} 行"),
    "launch.command": ("Command", "启动命令"),
    "launch.use": ("Use it from your own program", "在自己的程序中调用"),
    "launch.python": ("Python (openai)", "Python（openai）"),
    "launch.curl": ("curl", "curl"),
    "launch.chat": ("Chat with it", "开始对话"),
    "launch.run": ("Run {number}", "第 {number} 次运行"),
    "launch.exit_code": ("exit code {code}", "退出码 {code}"),
    "launch.signal": ("ended by signal {signal}", "被信号 {signal} 终止"),
    "launch.do_this": ("What to do", "怎么办"),
    # chat page
    "chat.engine": ("Engine", "引擎"),
    "chat.any_engine": ("first ready engine", "第一个就绪的引擎"),
    "chat.message": ("Message", "消息"),
    "chat.placeholder": (
        "Write a message. Enter sends, Shift+Enter starts a new line.",
        "输入消息。回车发送，Shift+回车换行。",
    ),
    "chat.send": ("Send", "发送"),
    "chat.stop": ("Stop", "停止"),
    "chat.clear": ("Clear chat", "清空对话"),
    "chat.settings": ("Chat settings", "对话设置"),
    "chat.system_prompt": ("System prompt", "系统提示词"),
    "chat.system_prompt_info": (
        "Sent before every message of this chat. Changing it makes the engine read the whole chat anew.",
        "每条消息前都会发送。修改后引擎会重新读取整个对话。",
    ),
    "chat.temperature": ("Temperature", "温度"),
    "chat.temperature_info": ("0 always takes the likeliest token.", "0 表示总是选择概率最高的 token。"),
    "chat.max_tokens": ("Max tokens", "最大生成长度"),
    "chat.max_tokens_info": ("An answer ends there, finished or not.", "达到该 token 数后回答即停止。"),
    "chat.empty": ("Ask something. The answer shows its timing.", "请输入问题，回答下方会显示耗时。"),
    "chat.empty_no_engine": ("No engine is ready to chat with.", "目前没有可对话的引擎。"),
    "chat.empty_starting": ("An engine is starting. You can chat when it is ready.", "引擎正在启动，就绪后即可对话。"),
    "chat.go_launch": ("Go to Launch", "前往“启动”"),
    "chat.you": ("You", "我"),
    "chat.thinking": ("Reasoning", "思考过程"),
    "chat.waiting": ("Waiting for the first token", "等待首个 token"),
    "chat.stopped": ("Stopped by you", "已手动停止"),
    "chat.interrupted": ("Interrupted: the panel ended while this was written", "已中断：生成时面板被关闭"),
    "chat.failed": ("The answer failed", "回答失败"),
    "chat.cut": ("Cut at the max tokens setting", "已达到最大生成长度"),
    # numbers under an answer
    "timing.ttft": ("TTFT", "首 token 延迟"),
    "timing.tpot": ("TPOT", "每 token 耗时"),
    "timing.prefill": ("prefill", "预填充"),
    "timing.decode": ("decode", "解码"),
    "timing.tokens": ("tokens", "token"),
    "timing.cached": ("{tokens} cached", "缓存命中 {tokens}"),
    "timing.queue": ("queue", "排队"),
    "timing.total": ("total", "总计"),
    "timing.source_engine": ("timed by the engine", "引擎计时"),
    "timing.source_measured": ("timed by the panel", "面板计时"),
    "timing.explain": (
        "TTFT: from sending to the first token. TPOT: mean time between tokens. Blank: not known.",
        "首 token 延迟：从发送到收到第一个 token。每 token 耗时：相邻 token 的平均间隔。空白表示未知。",
    ),
    # shared
    "copy": ("Copy", "复制"),
    "copied": ("Copied", "已复制"),
    "copy_failed": ("The browser refused to copy", "浏览器拒绝了复制"),
    "unit.s": ("s", "秒"),
    "unit.min": ("min", "分"),
    "unit.h": ("h", "小时"),
    "unit.d": ("d", "天"),
    "error.message": ("The panel could not read that message, or it is too long.", "面板无法读取该消息，或消息过长。"),
    "error.unexpected": (
        "Something unexpected happened in the panel. Its log says more.",
        "面板内部出错，详情见面板日志。",
    ),
}


def template(key: str, language: Language) -> str:
    """The words for a key in a language, {names} still in them."""
    english, chinese = STRINGS[key]
    return chinese if language is Language.ZH else english


def text(key: str, language: Language, **values: object) -> str:
    """The words for a key in a language, with {names} filled in."""
    return template(key, language).format(**values)


def preferred_language(accept_language: str) -> Language:
    """The page's language for a browser's Accept-Language header: Chinese if it comes before English."""
    for part in accept_language.lower().split(","):
        tag = part.split(";")[0].strip()
        if tag.startswith("zh"):
            return Language.ZH
        if tag.startswith("en"):
            return Language.EN
    return Language.EN
