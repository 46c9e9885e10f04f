"""Compute the delay before the next attempt. The caller owns the clock, the counter and the random source.

The one backoff of the suite, of whatever is tried again: calls, watches, pods that refuse an eviction or a patch,
writes that another client reverts. `component_base.rate_limits` bounds how often something happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff, with half of each step drawn at random.

    `seconds(k) = step * (1 + u) / 2`, `step = min(first * 2^k, longest)`, u uniform in [0, 1). The fixed half
    prevents a busy loop; the random half spreads the agents of 5,000 nodes after an outage of the apiserver. The
    defaults are those of client-go's reflector (0.8 s to 30 s).
    """

    first_seconds: float = 0.8
    longest_seconds: float = 30.0

    def seconds(self, attempt: int, uniform: Callable[[], float]) -> float:
        """Return the seconds to wait after failure number `attempt` (0 is the first); `uniform` draws from [0, 1)."""
        return self.step_seconds(attempt) * (1.0 + uniform()) / 2.0

    def step_seconds(self, attempt: int) -> float:
        """Return the longest wait after failure number `attempt`: all of it where one process alone tries again."""
        return min(self.first_seconds * 2.0 ** min(attempt, 32), self.longest_seconds)  # 2^32: no float overflow


DEFAULT = Backoff()
