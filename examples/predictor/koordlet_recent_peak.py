"""Example predictor: the highest usage of the pods and S together, of any 5 minutes of the last 24 hours.

The highest total that was ever observed counts too, and fades: by half in about two days. It is the state that survives
a restart of the agent. Copy this file, and change `predict`.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

FADING = 0.9999
"""Share of the highest total that is left after one call of `observe`, every 30 s."""


class RecentPeak:
    """Predictor of the name that pyproject.toml gives it: one instance predicts CPU and memory."""

    def __init__(self) -> None:
        self._highest = {"cpu": 0.0, "memory": 0.0}

    def predict(self, load: Any) -> float | str:
        """Return the peak without cold requests: the agent adds them. A text means: no prediction, for that reason."""
        system = load.unreserved_system
        expected = float(np.sum(load.pods.mean + load.pods.stdev)) + float(np.sum(system.mean + system.stdev))
        if not math.isfinite(expected):
            return "a series has no sample yet"
        # A slot without a sample counts as the mean plus one standard deviation.
        usual = (load.pods.mean + load.pods.stdev)[:, np.newaxis]
        pods = np.where(np.isnan(load.pods.ring), usual, load.pods.ring)
        totals = pods.sum(axis=0) + np.nan_to_num(system.ring[0])
        return max(float(totals.max()), expected, self._highest[load.resource])

    def observe(self, load: Any) -> None:
        """Take note of the usage now; the agent calls this every 30 s."""
        total = float(np.nansum(load.pods.newest) + np.nansum(load.unreserved_system.newest))
        self._highest[load.resource] = max(self._highest[load.resource] * FADING, total)

    def save(self) -> bytes:
        """Return what a restart must not lose."""
        return json.dumps(self._highest).encode()

    def restore(self, state: bytes) -> None:
        """Load what `save` returned. An error refuses the state, and the agent begins without it."""
        stored = json.loads(state)
        if not all(math.isfinite(stored[name]) and stored[name] >= 0 for name in self._highest):
            raise ValueError(f"seen {stored}, want amounts")
        self._highest = {name: float(stored[name]) for name in self._highest}
