"""Words of dialogs, log tools and the preset shelf."""

# key: (English, Chinese). {name} marks what is filled in.
WORDS: dict[str, tuple[str, str]] = {
    "dialog.close": ("Close", "关闭"),
    "dialog.cancel": ("Cancel", "取消"),
    "dialog.file_large": ("That file is larger than 256 KiB.", "该文件超过 256 KiB。"),
    # log tools
    "log.level": ("Level", "级别"),
    "log.level_info": ("All lines", "全部"),
    "log.level_warning": ("Warnings and errors", "警告和错误"),
    "log.level_error": ("Errors", "仅错误"),
    "log.search": ("Search the log", "搜索日志"),
    "log.end": ("To the end", "跳到末尾"),
    "log.download": ("Download", "下载"),
    "log.nothing_matches": ("No line matches.", "没有匹配的行。"),
    # the shelf
    "preset.nothing_matches": ("No preset matches.", "没有匹配的预设。"),
    "preset.search": ("Search presets", "搜索预设"),
    "preset.import": ("Import", "导入"),
    "preset.copy": ("Copy to mine", "复制为我的预设"),
    "preset.view": ("View", "查看"),
    "preset.edit": ("Edit", "编辑"),
    "preset.export": ("Export", "导出"),
    "preset.delete": ("Delete", "删除"),
    "preset.delete_sure": ("Delete the preset {title}?", "删除预设 {title}？"),
    "preset.cards_one": ("1 × {card}", "1 × {card}"),
    "preset.cards_many": ("{count} × {card}", "{count} × {card}"),
    "preset.unverified": ("model id not verified", "模型 ID 未经核实"),
    "preset.unverified_info": (
        "Nobody here has confirmed that the hub has a model of this name.",
        "尚未确认模型站上存在该名称的模型。",
    ),
    "preset.get_environment": ("Environments", "前往运行环境"),
    # what it waits for: one for each EngineKind, and its model
    "preset.needs_cpu": ("Needs the CPU engine.", "需要 CPU 引擎。"),
    "preset.needs_volta": ("Needs the V100 engine.", "需要 V100 引擎。"),
    "preset.needs_cuda": ("Needs an engine for newer NVIDIA cards.", "需要适用于较新 NVIDIA 显卡的引擎。"),
    "preset.needs_model": ("Its model {model} is not on this machine.", "本机还没有模型 {model}。"),
    "preset.view_title": ("Preset {name}", "预设 {name}"),
    "preset.edit_title": ("Edit preset {name}", "编辑预设 {name}"),
    "preset.edit_info": (
        "YAML. A preset says what is wanted; the panel spells it for the vLLM version it finds.",
        "YAML 格式。预设只描述意图，面板会按所用的 vLLM 版本生成参数。",
    ),
    "preset.text": ("Preset", "预设内容"),
    "preset.save": ("Save", "保存"),
    "preset.import_title": ("Import a preset", "导入预设"),
    "preset.import_info": (
        "Paste a 'vllm serve' or 'docker run' command, a config.env file, or a preset's YAML. Nothing in it is executed.",
        "可粘贴 vllm serve 或 docker run 命令、config.env 文件，或预设的 YAML。其中的内容不会被执行。",
    ),
    "preset.import_file": ("Or choose a file", "或选择文件"),
    "preset.import_read": ("Read it", "读取"),
    "preset.import_notes": ("What was changed or left out", "已改动或略去的内容"),
    "preset.check_title": ("Check the imported preset", "检查导入的预设"),
}
