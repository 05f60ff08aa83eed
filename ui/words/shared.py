"""Words that several pages use, and the tabs."""

# key: (English, Chinese). {name} marks what is filled in.
WORDS: dict[str, tuple[str, str]] = {
    "tab.chat": ("Chat", "对话"),
    "tab.launch": ("Launch", "启动"),
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
