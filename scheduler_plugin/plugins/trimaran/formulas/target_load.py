"""TargetLoadPacking (KEP-61): fill nodes up to a target utilization, then spread.

U = 100 * (used + pod + recently placed pods) / capacity
score = (100 - X) * U / X + X      for U <= X
        X * (100 - U) / (100 - X)  for X < U <= 100
        0                          above
"""

from __future__ import annotations

import numpy as np

from scheduler_plugin.state import rounding
from scheduler_plugin.state.rounding import Floats


def utilization_percent(
    used_millis: Floats, pod_millis: float, recent_millis: Floats, capacity_millis: Floats
) -> Floats:
    """Compute the CPU utilization of each node with the pod, in percent, shape (nodes,); 0 without capacity.

    `used_millis` is measured; `recent_millis` is the predicted usage of pods that the measurement cannot contain yet.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        percent = 100.0 * (used_millis + pod_millis + recent_millis) / capacity_millis
    return np.where(capacity_millis > 0.0, percent, 0.0)


def score(utilization: Floats, target_percent: float) -> Floats:
    """Score each utilization in percent 0..100; the target, in (0, 100], scores 100."""
    rising = (100.0 - target_percent) * utilization / target_percent + target_percent
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        falling = target_percent * (100.0 - utilization) / (100.0 - target_percent)
    of_busy = np.where(utilization > 100.0, 0.0, falling)
    return rounding.half_away_from_zero(np.where(utilization <= target_percent, rising, of_busy))
