"""Lend a node what is known beyond it: the history of the workloads of its cold pods, and the prior of its pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from api_types.kubernetes import pods
from manager.cache.store import NOTHING_LENT, Lent, NodeStore, StoredNodeMetric, StoredReport
from manager.node_metric.workload_history import pools, workloads
from manager.node_metric.workload_history.pools import Pools
from manager.node_metric.workload_history.workloads import Workloads
from manager.slo_config.strategy import NodeStrategy


@dataclass(eq=False)
class Lender:
    """Takes in the reports, and decides what the spec of each NodeMetric has of other nodes: nothing without history.

    An entry is not renewed while its pod is cold: yesterday's numbers are as good as today's.
    """

    workloads: Workloads | None = None
    pools: Pools | None = None
    nodes: NodeStore | None = None

    def take(self, metric: StoredNodeMetric, report: StoredReport) -> None:
        """Take in what a new report states."""
        name = metric.metadata.name
        if self.workloads is not None:
            self.workloads.take(name, report)
        node = self.nodes.get(name) if self.nodes is not None else None
        if self.pools is not None and node is not None and report.scores:
            self.pools.take(_pool(node, metric), name, msgspec.json.encode(report.scores))

    def lent(
        self, node: pods.Node | None, metric: StoredNodeMetric | None, strategy: NodeStrategy | None
    ) -> Lent | None:
        """Return what the spec of a node is to have; None without a node, a NodeMetric or a strategy."""
        if node is None or metric is None or strategy is None:
            return None
        if not metric.cold_pods and not metric.is_young:
            return NOTHING_LENT
        if self.workloads is None or self.pools is None or not _borrows(strategy):
            return NOTHING_LENT
        if not self.workloads.is_known:
            return metric.lent
        with_history = ",".join(sorted(self.workloads.history_of(metric.cold_pods)))
        known = self.pools.priors.get(_pool(node, metric)) if metric.is_young else None
        return Lent(with_history, pools.name_of(known) if known else "")

    def is_ahead(self, metric: StoredNodeMetric, strategy: NodeStrategy, lent: Lent | None) -> bool:
        """Check whether a report charges cold pods their requests of which more is known, or may be in a moment."""
        if self.workloads is None or lent is None or not _borrows(strategy):
            return False
        seen = metric.status.observed_generation if metric.status else None
        is_followed = seen is None or seen >= metric.metadata.generation
        is_written = all(pod in metric.lent.pods for pod in lent.pods.split(","))
        return not self.workloads.is_known or not is_written or (bool(lent.pods) and not is_followed)

    def wire(self, node: pods.Node, metric: StoredNodeMetric, lent: Lent) -> Mapping[str, Any]:
        """Return the patch of the spec that makes it have `lent`."""
        patch: dict[str, Any] = {}
        if lent.pods != metric.lent.pods:
            found = self.workloads.history_of(metric.cold_pods) if lent.pods and self.workloads else {}
            patch["workloadHistory"] = workloads.to_wire(found) or None
        if lent.prior != metric.lent.prior:
            known = self.pools.priors.get(_pool(node, metric)) if lent.prior and self.pools else None
            patch["scorePrior"] = pools.to_wire(known) if known else None
        return patch


def _borrows(strategy: NodeStrategy) -> bool:
    predict = strategy.strategy.node_predict_policy
    return strategy.enabled and predict is not None and predict.cold_start != "strict"


def _pool(node: pods.Node, metric: StoredNodeMetric) -> str:
    return pools.pool_key((metric.spec or {}).get("predictPolicy"), node.metadata.labels or {})
