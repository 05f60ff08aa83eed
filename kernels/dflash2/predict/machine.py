"""The constants of the modelled V100, each with where it comes from.

published  from microbenchmarks in the literature
fitted     set so that one published figure comes out (the validation rows marked fitted)
chosen     picked after seeing all validation rows; kernels/README.md says what the choices are worth
guessed    plausible, with low sensitivity
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from dflash2.errors import Dflash2Error

SHARED_BYTES_PER_SM = 98304
L1_AND_SHARED_BYTES = 131072
_CARVE_OUT_KIB = (0, 8, 16, 32, 64, 96)


@dataclass(frozen=True)
class Machine:
    """One V100. Latencies and counts are in SM cycles unless the name has another unit.

    published: sms, l2_bytes_per_s 2155 GB/s, 16 FMA/ALU lanes, 4 XU lanes, two register banks, L1 of 128 KiB
    (Jia et al. 2018, arXiv 1804.06826); HMMA.884 steps every 2 cycles (Raihan et al. 2019, arXiv 1811.08309).
    """

    sms: int = 80
    clock_hz: float = 1.53e9
    l2_bytes_per_s: float = 2155e9
    l2_sectors_per_cycle_per_sm: float = 2.0
    hbm_bytes_per_s: float = 879e9  # fitted: v100-skinny's read ceiling
    hbm_write_cost: float = 1.14  # fitted: v100-skinny's copy ceiling of 822 GB/s
    shared_latency: int = 15  # fitted: 1Cat's dependent shared load of 26.44 cycles, address arithmetic included
    l1_latency: int = 22  # published: about 28 with the model's fixed costs
    l2_latency: int = 202  # fitted: 1Cat's dependent global load of 210.69 cycles
    hbm_latency: int = 395  # guessed
    tensor_latency: int = 12  # guessed: readers other than the next HMMA
    xu_latency: int = 18  # guessed
    shuffle_latency: int = 22  # guessed
    barrier_latency: int = 14  # guessed
    lsu_queue: int = 8  # guessed
    lsu_dispatch: int = 2  # guessed
    cta_launch: int = 200  # guessed
    branch_penalty: int = 4  # guessed
    scoreboard_penalty: int = 2  # guessed
    lines_per_cycle: int = 1  # derived from v100-skinny's published wavefront counters
    fill_sixteenths: int = 4  # chosen: LSU cycles, in sixteenths, of a sector that returns to L1
    icache_lines: int = 0  # lines of 128 bytes a sub-core; 0 switches the instruction cache off
    icache_refill: int = 8
    round_robin: int = 0  # 0: greedy then oldest
    launch_us: float = 1.2  # fitted: v100-skinny's trunk at M=1

    def l2_rate(self, active_sms: int) -> float:
        """Sectors a cycle that one of `active_sms` SMs gets from L2."""
        return min(self.l2_sectors_per_cycle_per_sm, self.l2_bytes_per_s / self.clock_hz / active_sms / 32)

    @property
    def launch_s(self) -> float:
        """Gap between two launches."""
        return self.launch_us * 1e-6

    def hbm_rate(self, active_sms: int) -> float:
        """Sectors a cycle that one of `active_sms` SMs gets from HBM."""
        return min(2.0, self.hbm_bytes_per_s / self.clock_hz / active_sms / 32)

    def l1_lines(self, shared_bytes: int) -> int:
        """Lines of L1 left beside a CTA's shared memory."""
        carved = next((kib * 1024 for kib in _CARVE_OUT_KIB if shared_bytes <= kib * 1024), SHARED_BYTES_PER_SM)
        return (L1_AND_SHARED_BYTES - carved) // 128

    def with_overrides(self, overrides: dict[str, float]) -> Machine:
        """A copy with constants replaced by name (sensitivity runs)."""
        known = {field.name for field in fields(self)}
        for name in overrides:
            if name not in known:
                raise Dflash2Error(f"the machine has no constant {name}", f"it has {', '.join(sorted(known))}")
        typed: dict[str, Any] = {name: type(getattr(self, name))(value) for name, value in overrides.items()}
        return replace(self, **typed)


V100 = Machine()
# A 12 KiB L0 with 2 cycles a refill: the range that 1Cat's published kernel allows. Loops longer than it lose by it.
V100_PESSIMISTIC = replace(V100, icache_lines=96, icache_refill=2)


def occupancy(registers: int, threads: int, shared_bytes: int) -> int:
    """CTAs that fit one SM: 64 warps, 65,536 registers in units of 256 a warp, 98,304 bytes of shared memory."""
    warps = (threads + 31) // 32
    registers_per_warp = max(256, -(-registers * 32 // 256) * 256)
    by_registers = 65536 // registers_per_warp // 4 * 4 // warps
    by_shared = SHARED_BYTES_PER_SM // (-(-shared_bytes // 256) * 256) if shared_bytes else 32
    return max(1, min(32, 64 // warps, by_registers, by_shared))
