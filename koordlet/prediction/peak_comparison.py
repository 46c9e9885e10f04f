"""Time for which usage was above the predicted peak in force, of the time for which both were known."""

from __future__ import annotations

from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import RESOURCES, Resource, UsageSample


class PeakComparison:
    """Seconds since the agent started, by resource."""

    def __init__(self) -> None:
        self.compared: dict[Resource, float] = dict.fromkeys(RESOURCES, 0.0)
        self.exceeded: dict[Resource, float] = dict.fromkeys(RESOURCES, 0.0)

    def add(self, seconds: float, usage: UsageSample | None, peak: WholeAmounts | None) -> None:
        """Add the time since the last sample. While usage or peak is unknown nothing is compared."""
        if usage is None or peak is None:
            return
        for resource, used in zip(RESOURCES, usage, strict=True):
            self.compared[resource] += seconds
            if used > peak.in_cores_or_bytes(resource):
                self.exceeded[resource] += seconds
