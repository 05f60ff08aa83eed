"""What one layer keeps between tokens: a KV cache that grows, one that is bounded, or a state of fixed size."""

from dataclasses import dataclass
from enum import StrEnum


class LayerKind(StrEnum):
    """How a layer remembers earlier tokens."""

    FULL = "full"  # keys and values of every token; grouped-query attention is full attention with fewer KV heads
    MLA = "mla"  # one compressed vector a token, the same on every card
    SLIDING = "sliding"  # keys and values of the last `window` tokens
    CHUNKED = "chunked"  # of the tokens in the same chunk of `window`
    RECURRENT = "recurrent"  # a state that does not grow: gated delta net, Mamba, short convolution


class RecurrentKind(StrEnum):
    """Which recurrence, where an engine treats them differently."""

    GATED_DELTA = "gated_delta"
    MAMBA = "mamba"
    MAMBA2 = "mamba2"
    KIMI_DELTA = "kimi_delta"
    SHORT_CONV = "short_conv"
    LINEAR = "linear"  # lightning attention


@dataclass(frozen=True)
class RecurrentState:
    """The state of one recurrent layer and one sequence: the last inputs of its convolution, and its matrix.

    Channels and heads are of the whole model; tensor parallelism divides them.
    """

    kind: RecurrentKind
    conv_channels: int = 0  # without those of the groups
    conv_kernel: int = 1
    groups: int = 0  # of Mamba-2; repeated where they do not divide by the cards
    group_channels: int = 0  # of the convolution, a group
    heads: int = 0
    head_elements: int = 0  # of the matrix, a head
    matrix_bytes: int | None = None  # an element; None: as wide as what the model calculates in
    chunk: int | None = None  # tokens of one kernel step, for the cache mode that keeps a state a block
    sees_ahead: bool = False  # the convolution keeps guessed tokens too
    keeps_every_block: bool = False  # this model supports a state for every block of a cached beginning

    def state_bytes(self, *, element_bytes: int, tensor_parallel: int, speculative_tokens: int) -> int:
        """Bytes of one state on one card."""
        groups = self.groups
        if groups and groups % tensor_parallel:
            groups = tensor_parallel  # each card repeats the groups that its heads need
        channels = (self.conv_channels + groups * self.group_channels) // tensor_parallel
        kept = max(0, self.conv_kernel - 1) + (speculative_tokens if self.sees_ahead else 0)
        matrix = self.heads // tensor_parallel * self.head_elements
        return channels * kept * element_bytes + matrix * (self.matrix_bytes or element_bytes)


@dataclass(frozen=True)
class KvLayer:
    """One layer's memory of earlier tokens."""

    kind: LayerKind
    kv_heads: int = 0  # of the whole model
    key_dim: int = 0  # a head; of MLA the compressed vector with its rotary part
    value_dim: int = 0  # a head; 0 for MLA, whose vector serves as both
    window: int | None = None  # tokens; of SLIDING and CHUNKED
    token_bytes: int | None = None  # where the format is fixed, whatever the KV dtype; never divided by cards
    state: RecurrentState | None = None  # of RECURRENT

    def bytes_per_token(self, *, element_bytes: int, tensor_parallel: int) -> int:
        """Bytes of one token on one card; 0 for a recurrent layer. Fewer KV heads than cards: every card keeps one."""
        if self.token_bytes is not None:
            return self.token_bytes
        heads = self.kv_heads
        if self.kind is not LayerKind.MLA:
            heads = max(1, self.kv_heads // tensor_parallel) if self.kv_heads else 0
        return heads * (self.key_dim + self.value_dim) * element_bytes
