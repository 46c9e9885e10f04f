"""What Prod has been given and will not need (design 3.3).

    Reclaimable = max(0, min( Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))

No ratio is applied here: that is the manager's.
"""

from __future__ import annotations

import math
from typing import Final

from koordlet.prediction.allocation import WholeAmounts

# Floating-point noise of a sum, in steps of the result: 0.55 core is 550.0000000000001 millicores, and means 550.
_NOISE: Final = 1e-6


def whole_peak(cpu_cores: float, memory_bytes: float) -> WholeAmounts:
    """A predicted peak rounded up to whole millicores and bytes."""
    return WholeAmounts(math.ceil(cpu_cores * 1000 - _NOISE), math.ceil(memory_bytes - _NOISE))


def prod_reclaimable(allocated: WholeAmounts, peak: WholeAmounts, allocatable: WholeAmounts) -> WholeAmounts:
    """Reclaimable of each resource from Allocated[Prod], Peak[Prod] and the node's allocatable."""
    return WholeAmounts(*(max(0, min(a, n) - p) for a, p, n in zip(allocated, peak, allocatable, strict=True)))
