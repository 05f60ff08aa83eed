"""Words of the chat page and of the numbers under an answer."""

# key: (English, Chinese). {name} marks what is filled in.
WORDS: dict[str, tuple[str, str]] = {
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
}
