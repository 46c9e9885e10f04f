"""Random arguments, nodes and pods for the reference; what ends a decision early is rare, so that most reach the end.

Amounts are small numbers around the limits of nodes of about 1,000 milli-cores and 1,000 bytes, so that equalities and
roundings are met again and again.
"""

from __future__ import annotations

import random
from typing import Any

from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.plugins.load_aware_reference import Host, Incoming, Report, Running

RESOURCES = ["cpu", "memory"]
POD_NAMES = ["a", "b", "c"]
STATISTICS = ["avg", "p95"]
AMOUNTS = [0, 5, 10, 135, 140, 145, 155, 635, 640, 644, 645, 649, 650, 654, 655, 990, 1000, 1001]


class RandomCluster:
    """Draws from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    def vector(self) -> dict[str, int]:
        return {
            name: self.random.choice(AMOUNTS) if self.one_in(2) else self.random.randint(0, 1100) for name in RESOURCES
        }

    def small(self) -> dict[str, int]:
        return {name: self.random.choice([1, 5, 10, 100]) for name in RESOURCES}

    def limits(self) -> dict[str, int]:
        named = [name for name in RESOURCES if not self.one_in(3)]
        return {name: self.random.choice([0, 14, 15, 64, 65, 66, 100]) for name in named}

    def block(self, minutes: list[int]) -> dict[str, Any]:
        limits = self.limits() or {"cpu": 65}
        return {"limits": limits, "type": self.random.choice(STATISTICS), "minutes": self.random.choice(minutes)}

    def arguments(self) -> dict[str, Any]:
        dominant = self.random.choice([0, 0, 7])
        weights = {name: self.random.randint(1, 100) for name in RESOURCES if self.one_in(2)}
        statistic = (self.random.choice(STATISTICS), self.random.choice([0, 5]))
        return {
            "resources": RESOURCES,
            "filterExpiredNodeMetrics": self.one_in(2),
            "enableScheduleWhenNodeMetricsExpired": self.one_in(2),
            "nodeMetricExpirationSeconds": 1 if self.one_in(8) else 180,
            "resourceWeights": weights or ({} if dominant else {"cpu": 1, "memory": 1}),
            "dominantResourceWeight": dominant,
            "usageThresholds": self.limits() or {"cpu": 65, "memory": 95},
            "prodUsageThresholds": self.limits() if self.one_in(2) else {},
            "prodUsageIncludeSys": self.one_in(2),
            "scoreAccordingProdUsage": self.one_in(2),
            "aggregated": self.block([0, 5, 10]) if self.one_in(3) else None,
            "scoreAggregation": statistic if self.one_in(3) else None,
        }

    def report(self) -> Report:
        ages = [-181, -180, -179, -60] if self.one_in(4) else [0, 30]
        windows = [(statistic, minutes) for statistic in STATISTICS for minutes in (5, 10)]
        has_usage = not self.one_in(8)
        # Without `status.nodeMetric` there are no aggregates and no system usage either.
        return Report(
            update_time=None if self.one_in(10) else NOW + self.random.choice(ages),
            interval=self.random.choice([30, 60]),
            usage=self.vector() if has_usage else None,
            system=self.small() if has_usage else {},
            aggregated={window: self.vector() for window in windows if has_usage and self.one_in(2)},
            pods={name: (self.small(), self.one_in(2)) for name in POD_NAMES if self.one_in(2)},
        )

    def running(self, name: str) -> Running:
        timestamp = NOW + self.random.choice([-300, -90, -60, -59, -30, -29, 0])
        estimate = self.vector() if self.one_in(4) else self.small()
        return Running(name, {r: max(1, amount) for r, amount in estimate.items()}, self.one_in(2), timestamp)

    def host(self) -> Host:
        custom: dict[str, Any] = {}
        if self.one_in(3):
            custom = {name: self.limits() for name in ("plain", "prod") if self.one_in(2)}
            if self.one_in(2):
                custom["aggregated"] = self.block([0, 5])
        return Host(
            allocatable={name: self.random.choice([0, 997, 1001] if self.one_in(4) else [1000]) for name in RESOURCES},
            report=None if self.one_in(10) else self.report(),
            running=[self.running(name) for name in POD_NAMES if self.one_in(4)],
            custom=custom,
        )

    def incoming(self) -> Incoming:
        is_prod = self.one_in(2)
        nothing = dict.fromkeys(RESOURCES, 0)
        # Only Mid pods may ask for nothing: the floor of others would outweigh these small nodes.
        estimate = nothing if not is_prod and self.one_in(2) else self.small()
        return Incoming(estimate, is_prod, is_daemon=self.one_in(10))
