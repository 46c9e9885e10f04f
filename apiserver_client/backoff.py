"""Compute the delay before the next attempt. The caller owns the clock, the counter and the random source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff, with half of each step drawn at random.

    `seconds(k) = ceiling * (1 + u) / 2`, `ceiling = min(first * 2^k, longest)`, u uniform in [0, 1). The fixed half
    prevents a busy loop; the random half spreads the agents of 5,000 nodes after an outage of the apiserver. The
    defaults are those of client-go's reflector (0.8 s to 30 s).
    """

    first_seconds: float = 0.8
    longest_seconds: float = 30.0

    def seconds(self, attempt: int, uniform: Callable[[], float]) -> float:
        """Return the seconds to wait after failure number `attempt` (0 is the first); `uniform` draws from [0, 1)."""
        ceiling = min(self.first_seconds * 2.0 ** min(attempt, 32), self.longest_seconds)  # 2^32: no float overflow
        return ceiling * (1.0 + uniform()) / 2.0


DEFAULT = Backoff()
