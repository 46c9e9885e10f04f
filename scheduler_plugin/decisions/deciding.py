"""Decide on pods for kube-scheduler, by either way that it asks: filter, score, record and count. No clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler_plugin.decisions.metrics import DecisionCounts
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.framework.interface import ReasonCodes, SchedulingCycle, combined
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.load_waits import LoadWaits
from scheduler_plugin.state.node_columns import Ints, Rows
from scheduler_plugin.state.pod_info import PodInfo


@dataclass(eq=False)
class Decider:
    """Decisions by one cluster state. `now` is Unix time."""

    cluster: Cluster
    cycle: SchedulingCycle
    estimator_args: EstimatorArgs
    records: DecisionRecords
    waits: LoadWaits
    counts: DecisionCounts

    def decide(self, pod: PodInfo, rows: Rows, now: float) -> tuple[ReasonCodes | None, Sequence[str]]:
        """Return the reason code of each row, None if all pass, and the text of each reason."""
        codes = self.cycle.filter(pod, rows, now)
        texts = self.cycle.reasons if codes is None else self.cycle.reason_texts(pod)
        self.records.began(pod, rows, codes, now, texts)
        self.counts.count(codes)
        return codes, texts

    def scores(self, pod: PodInfo, rows: Rows, now: float) -> Ints:
        """Return the score of each row that passed."""
        by_plugin = self.cycle.scores_by_plugin(pod, rows, now)
        scores = combined(by_plugin, len(rows))
        if len(rows):
            self.records.scored(pod, rows, by_plugin, scores)
        return scores

    def softened(self, pod: PodInfo) -> PodInfo:
        """Return a pod with its wait, if that is over."""
        return self.waits.softened(pod, self.cluster.monotonic())

    def follow_wait(self, pod: PodInfo, codes: npt.NDArray[np.integer[Any]] | None) -> None:
        """Begin the wait of a Prod pod that load alone refused, or end it."""
        if pod.is_prod and self.cycle.rejects_alone(LoadAware.name, codes):
            self.waits.refused(pod, self.cluster.monotonic())
        else:
            self.waits.end(pod.uid)
