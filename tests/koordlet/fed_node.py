"""The agent's observer and report builder, fed with given usage in place of the files of a host."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from koordlet.cluster import spec_in_force
from koordlet.node_observer import NodeObserver
from koordlet.prediction.evaluation import Plan
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.report.builder import ReportBuilder
from koordlet.samples import Snapshot, UsageSample
from tests.koordlet.one_node import START, StaticCluster

STEP_SECONDS = 10
TRAIN_SECONDS = 30

Usages = Mapping[str, UsageSample]


class FedNode:
    """Samples every `step_seconds` and trains every 30 s, as the agent does; `boot_seconds` is the time since boot."""

    def __init__(
        self, cluster: StaticCluster, step_seconds: int = STEP_SECONDS, packages: LoadedPredictors | None = None
    ) -> None:
        self.cluster = cluster
        self.step_seconds = step_seconds
        self.observer = NodeObserver(Path("/nonexistent"), 1000, packages=packages)
        self.reports = ReportBuilder(self.observer)
        self.now = START
        self.boot_seconds = 1000.0
        self._next: Snapshot | None = None
        self.observer.collector = types.SimpleNamespace(  # type: ignore[assignment]
            collect=lambda *_: self._next,
            statistics=types.SimpleNamespace(pods_in_system=0),
            collectors=(),
            host_root=self.observer.collector.host_root,
        )

    @property
    def policy(self) -> Any:
        return spec_in_force.predict_policy(self.cluster.spec.predict_policy)

    def sample(self, pods: Usages, system: UsageSample | None) -> None:
        """Pass a step, and add a sample at its end; without `system` one pod could not be measured."""
        self.now += self.step_seconds
        self.boot_seconds += self.step_seconds
        total = UsageSample(*map(sum, zip(*pods.values(), system or (0, 0), strict=True)))
        self._next = Snapshot(self.now, total, system, pods, unmeasured_pods=frozenset() if system else {"late"})
        self.observer.observe(self.now, self.cluster, self.boot_seconds)

    def train(self) -> None:
        parameters = spec_in_force.predict_parameters(self.policy)
        self.observer.train(self.now, parameters, self.boot_seconds)
        self.observer.calibrate(self.now, self.cluster, self.boot_seconds)
        plan = Plan.from_policy(self.policy, parameters)
        self.observer.inform_packages(self.now, self.cluster, plan)
        self.observer.evaluate(self.now, self.cluster, plan, self.boot_seconds)

    def run(self, seconds: int, usage: Callable[[int], tuple[Usages, UsageSample | None]]) -> Iterable[int]:
        """Yield the number of each training; `usage` gets the number of the sample, from 0."""
        for step in range(seconds // self.step_seconds):
            self.sample(*usage(step))
            if (step + 1) * self.step_seconds % TRAIN_SECONDS == 0:
                self.train()
                yield step

    def report(self) -> dict[str, Any]:
        """Return the status as it would be written."""
        forecast = self.reports.predict(self.now, self.cluster, self.policy)
        assert forecast is not None
        return self.reports.build(forecast, self.cluster, None).to_wire()
