"""Words of the status bar and its cards."""

# key: (English, Chinese). {name} marks what is filled in.
WORDS: dict[str, tuple[str, str]] = {
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
}
