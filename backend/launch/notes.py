"""What spelling changed about a preset's words, as keys and values, and the sentences for them in both languages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

VALUE_CHARACTERS = 200


@dataclass(frozen=True)
class Note:
    """One thing that was translated, left out, or cannot be done. `key` is one of WORDS."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)

    def in_language(self, language: str) -> str:
        """The sentence; its values come from presets and engines: untrusted text."""
        en, zh = WORDS[self.key]
        values = {name: value[:VALUE_CHARACTERS] for name, value in self.values.items()}
        return (zh if language == "zh" else en).format_map(values)


def note_words(note: Note, language: str) -> str:
    """The note as a sentence."""
    return note.in_language(language)


# Each sentence may use only the fields that are always filled for its key; a test holds the table against its uses.
WORDS: Mapping[str, tuple[str, str]] = {
    # translated
    "renamed": ("--{flag} is now --{replacement}; it was translated.", "--{flag} 现在叫 --{replacement}，已自动换写。"),
    "merged": (
        "--{flag} is now part of --{replacement}; it was translated.",
        "--{flag} 现在是 --{replacement} 的一部分，已自动换写。",
    ),
    "swap_to_offload": (
        "--swap-space no longer exists. Its {value} GiB a card became --kv-offloading-size {total}: main memory for KV cache.",
        "--swap-space 已不存在。每卡 {value} GiB 换写成 --kv-offloading-size {total}，即用内存存放 KV 缓存。",
    ),
    "chunk_size": (
        "--chunked-prefill-size is not a flag of vLLM. The size of a piece of prompt is --max-num-batched-tokens {value}.",
        "vLLM 没有 --chunked-prefill-size。提示词每一段的大小由 --max-num-batched-tokens {value} 决定。",
    ),
    "dtype_half": (
        "float16 is used: a V100 cannot calculate in bfloat16, which many models are stored in.",
        "使用 float16：许多模型以 bfloat16 存储，而 V100 不能用它计算。",
    ),
    "quantization_own_name": (
        "The quantization {value} is called {replacement} by this vLLM.",
        "量化方式 {value} 在此版本的 vLLM 中叫 {replacement}。",
    ),
    "quantization_from_checkpoint": (
        "The quantization {value} is not passed: vLLM finds it in the checkpoint.",
        "未传入量化方式 {value}：vLLM 会从模型文件中识别。",
    ),
    "kv_cache_rounded": (
        "This vLLM takes only whole GiB of KV cache on a CPU: {asked} became {given}.",
        "此版本的 vLLM 在 CPU 上只接受整数 GiB 的 KV 缓存：{asked} 改为 {given}。",
    ),
    "backend_by_env": (
        "This vLLM has no --attention-backend; {value} is passed by VLLM_ATTENTION_BACKEND.",
        "此版本的 vLLM 没有 --attention-backend，{value} 改由环境变量 VLLM_ATTENTION_BACKEND 传入。",
    ),
    # left out
    "no_dflash2_attention": (
        "dflash2 is not a plugin of this environment, so vLLM's own attention is used: Triton on a V100.",
        "该环境没有 dflash2 插件，因此使用 vLLM 自带的注意力：V100 上为 Triton。",
    ),
    "left_out": ("--{flag} was left out for this launch.", "本次启动省去了 --{flag}。"),
    "no_effect": (
        "--{flag} was left out: what it switched is gone from vLLM, and nothing replaces it.",
        "省去了 --{flag}：它控制的功能已从 vLLM 中移除，也无需替代。",
    ),
    "is_default": (
        "--{flag} was left out: vLLM does this by itself now.",
        "省去了 --{flag}：现在的 vLLM 默认如此。",
    ),
    "already_set": (
        "--{flag} was left out: --{replacement} is set already.",
        "省去了 --{flag}：已经设置了 --{replacement}。",
    ),
    "device_is_fixed": (
        "--device was left out: a vLLM is built for one kind of device.",
        "省去了 --device：每个 vLLM 安装只支持一种设备。",
    ),
    "swap_left_out": (
        "--swap-space was left out: it no longer exists, and this vLLM cannot keep KV cache in main memory for every model.",
        "省去了 --swap-space：它已不存在，而此版本的 vLLM 并非对所有模型都能把 KV 缓存放进内存。",
    ),
    "swap_zero": ("--swap-space 0 was left out: nothing is swapped anyway.", "省去了 --swap-space 0：本来就不会换出。"),
    # refused
    "unknown_flag": ("{version} has no flag --{flag}.", "{version} 没有参数 --{flag}。"),
    "no_such_wish": (
        "{version} cannot do what {wish} asks for: it has no --{flag}.",
        "{version} 做不到 {wish}：它没有 --{flag}。",
    ),
    "not_a_choice": ("{version} does not know --{flag} {value}.", "{version} 不认识 --{flag} {value}。"),
    "not_a_number": ("--{flag} {value}: this is not a number.", "--{flag} {value}：这不是数字。"),
    "not_an_object": ("--{flag} {value}: this is not a JSON object.", "--{flag} {value}：这不是 JSON 对象。"),
    "no_swapping": (
        "{version} cannot swap requests to main memory; it always calculates a preempted request again.",
        "{version} 不能把请求换出到内存；被抢占的请求总是重新计算。",
    ),
    "feature_gone": (
        "{version} has no --{flag}, and what it did is gone from vLLM.",
        "{version} 没有 --{flag}，它对应的功能已从 vLLM 中移除。",
    ),
    "needs_reasoning_parser": (
        "{version} has no --enable-reasoning; a reasoning parser must be named.",
        "{version} 没有 --enable-reasoning；需要指明推理解析器。",
    ),
    "bfloat16_on_volta": ("A V100 cannot calculate in bfloat16.", "V100 不能用 bfloat16 计算。"),
    "quantization_mismatch": (
        "The preset expects {value} weights, but the model's files say {found}.",
        "预设要求 {value} 权重，但模型文件声明的是 {found}。",
    ),
    "quantization_undeclared": (
        "The preset expects {value} weights, but the model's files are not quantized.",
        "预设要求 {value} 权重，但模型文件没有量化。",
    ),
    "no_dflash2_nvfp4": (
        "vLLM refuses NVFP4 weights on a V100 unless dflash2 takes them as a plugin, which this environment has not.",
        "vLLM 在 V100 上拒绝 NVFP4 权重，除非由 dflash2 作为插件接管；该环境没有此插件。",
    ),
    "uuid_not_understood": (
        "{version} cannot be given the card {value}: it takes only numbers.",
        "{version} 无法指定显卡 {value}：它只接受编号。",
    ),
}
