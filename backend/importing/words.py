"""What an import left out, assumed or translated, as keys and values, and the sentences for them in both languages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

VALUE_CHARACTERS = 200


@dataclass(frozen=True)
class ImportNote:
    """One thing a person should know about an imported preset. `key` is one of WORDS."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)

    def in_language(self, language: str) -> str:
        """The sentence; its values come from the pasted text: untrusted."""
        en, zh = WORDS[self.key]
        values = {name: _shown(value) for name, value in self.values.items()}
        return (zh if language == "zh" else en).format_map(values)


def _shown(value: str) -> str:
    return value if len(value) <= VALUE_CHARACTERS else f"{value[: VALUE_CHARACTERS - 1]}…"


# Each sentence uses only the fields that are always filled for its key; a test holds the table against its uses.
WORDS: Mapping[str, tuple[str, str]] = {
    # left out on purpose
    "secret_left_out": (
        "{name} was left out: a preset is no place for a secret. The panel keeps keys itself.",
        "省去了 {name}：预设中不应保存密钥，密钥由面板自己保管。",
    ),
    "address_left_out": (
        "{name} {value} was left out: the panel picks address and port.",
        "省去了 {name} {value}：地址和端口由面板选定。",
    ),
    "panel_decides": (
        "{name} was left out: the panel sees to that itself.",
        "省去了 {name}：这件事由面板自己负责。",
    ),
    "downloads_left_out": (
        "{name} was left out: models come from the panel's own folder, downloaded by the panel.",
        "省去了 {name}：模型由面板下载，放在面板自己的目录里。",
    ),
    "cards_left_out": (
        "The choice of cards ({value}) was left out: a preset says how many, and you choose which when you start it.",
        "省去了显卡的选择（{value}）：预设只说明需要几张，启动时再选具体哪几张。",
    ),
    "config_left_out": (
        "--config {value} was left out: import that file itself.",
        "省去了 --config {value}：请直接导入该文件。",
    ),
    "docker_left_out": (
        "These docker options were left out: {value}. The panel sets its own.",
        "省去了这些 docker 选项：{value}。面板会自行设置。",
    ),
    "docker_image": (
        "The command ran the docker image {value}. To keep using it, add it as an environment.",
        "原命令使用 docker 镜像 {value}。若要继续使用，请把它添加为环境。",
    ),
    "wrapper_left_out": ("In front of the command, this was left out: {value}", "省去了命令前面的部分：{value}"),
    "line_left_out": (
        "Line {line} was left out, it starts no engine: {value}",
        "省去了第 {line} 行，它不启动引擎：{value}",
    ),
    "shell_left_out": (
        "{value} was left out: the panel keeps the log and the process itself.",
        "省去了 {value}：日志和进程由面板自己管理。",
    ),
    "unknown_key": (
        "Line {line}: {name} was left out: it is neither a setting of vLLM nor one the panel knows.",
        "第 {line} 行：省去了 {name}，它既不是 vLLM 的设置，面板也不认识。",
    ),
    "value_left_out": (
        "{name} {value} was left out: a preset cannot say that.",
        "省去了 {name} {value}：预设无法表达这个值。",
    ),
    "parts_left_out": (
        "Of {name}, these parts were left out: {value}.",
        "{name} 中的这些部分被省去：{value}。",
    ),
    "not_on_a_cpu": (
        "{name} was left out: it is for engines on a graphics card.",
        "省去了 {name}：它只用于显卡上的引擎。",
    ),
    "names_left_out": (
        "A preset has one name for clients; these were left out: {value}.",
        "预设只有一个对外名称，省去了：{value}。",
    ),
    "last_one_counts": (
        "{name} was there more than once; the last one counts: {value}.",
        "{name} 出现了多次，以最后一次为准：{value}。",
    ),
    # assumed or read differently
    "abbreviation": ("{name} was read as {value}.", "把 {name} 读作 {value}。"),
    "context_assumed": (
        "No context was given, which lets vLLM take the model's longest. The preset says {value} tokens; change it as memory allows.",
        "没有给出上下文长度，vLLM 会取模型的最大值。预设填了 {value} 个 token，请按显存调整。",
    ),
    "kv_cache_assumed": (
        "No size of the KV cache was given, which lets vLLM take nearly all memory. The preset says {value} GiB.",
        "没有给出 KV 缓存大小，vLLM 会占用几乎全部内存。预设填了 {value} GiB。",
    ),
    "model_by_path": (
        "The model lies at {value}. The preset calls it {name}; it must be in the panel's list of models.",
        "模型位于 {value}。预设称它为 {name}，它须在面板的模型列表中。",
    ),
    "quantization_from_name": (
        "The weights are taken for {value}, as the model's name says.",
        "按模型名称判断，权重格式为 {value}。",
    ),
    "quantization_left_to_checkpoint": (
        "The quantization {value} is left to vLLM, which reads it from the checkpoint.",
        "量化方式 {value} 留给 vLLM 从模型文件中识别。",
    ),
    "cards_multiplied": (
        "{tensor} by tensor and {pipeline} by pipeline became {gpus} cards by tensor: a preset splits in one way.",
        "张量并行 {tensor} 与流水线并行 {pipeline} 合并为 {gpus} 卡张量并行：预设只支持一种拆分方式。",
    ),
    "older_flag": (
        "--{name} is no longer in vLLM. It stays in the preset; at each start it is translated, or refused with the reason.",
        "--{name} 在新版 vLLM 中已不存在。它保留在预设里，每次启动时自动换写，做不到时会说明原因。",
    ),
}
