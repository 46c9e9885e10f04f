"""Builder of reports: cached usage, a prediction and conditions become one NodeMetric status."""

from __future__ import annotations

import collections
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api_types.colocation import controller_config
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.cluster.interface import Cluster
from koordlet.cluster.pods import PodOnNode
from koordlet.node_observer import NodeObserver
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction
from koordlet.prediction.server import Prediction
from koordlet.report import conditions, schedule, size_limit, status, throttled_pods, usage_windows
from koordlet.report import prediction as predicted

_FRESH_SECONDS: Final = 60.0
"""Largest age of the newest sample of a node that counts as measured."""


@dataclass(frozen=True, slots=True)
class BuiltReport:
    """A status that may be published, and the values that decide whether it is worth an early report."""

    status: node_metric.NodeMetricStatus
    publishes: schedule.Published
    allocatable: Mapping[str, int] | None


class ReportBuilder:
    """Builds the reports of one node. Not thread-safe: one event loop calls everything."""

    def __init__(self, observer: NodeObserver) -> None:
        self.observer = observer
        self.prediction: Prediction | None = None
        """Prediction of the newest report."""
        self.without_prediction: dict[Cause, int] = dict.fromkeys(Cause, 0)
        """Number of reports built without a prediction, by cause."""
        self.conditions: Sequence[node_metric.Condition] = ()
        """Conditions of the last published report; a condition keeps its transition time while its status lasts."""
        self.predicted_at_seconds: collections.deque[float] = collections.deque(
            maxlen=observer.trained_at_seconds.maxlen
        )

    def build(
        self,
        now_seconds: float,
        cluster: Cluster,
        policy: controller_config.PredictPolicy,
        state_problem: str | None,
    ) -> BuiltReport | None:
        """Return the report as of the newest sample, None while the node was never measured."""
        observer = self.observer
        sampled_at_seconds = observer.newest_at_seconds
        if sampled_at_seconds is None:
            return None
        bound = cluster.pods.active() if cluster.pods.synced else None
        result = self._predict(now_seconds, bound, cluster, spec_in_force.predict_parameters(policy))
        now = dt.datetime.fromtimestamp(now_seconds, dt.UTC)
        peak = None if isinstance(result, NoPrediction) else predicted.publishable(result, policy, now)
        facts = conditions.Facts(
            has_node_usage=now_seconds - sampled_at_seconds < _FRESH_SECONDS,
            no_data=observer.no_data,
            pods_are_known=bound is not None,
            warm_pods=self.prediction.warm_pods if self.prediction else 0,
            cold_pods=self.prediction.cold_pods if self.prediction else 0,
            cold_start_period_seconds=policy.cold_start_period_seconds or 0,
            no_prediction=result.reason if isinstance(result, NoPrediction) else None,
            state_problem=state_problem,
            reservation_problem=cluster.reservation_problem,
            throttled_pods=throttled_pods.prod(observer.collector.collectors, observer.pods_by_uid),
        )
        built = status.build(
            status.Report(
                sampled_at=dt.datetime.fromtimestamp(sampled_at_seconds, dt.UTC),
                observed_generation=cluster.generation,
                usage=usage_windows.usage_until(
                    sampled_at_seconds, observer.cache, bound or (), cluster.spec.metric_collect_policy
                ),
                bound=bound,
                predicted=peak,
                conditions=conditions.evaluate(facts, self.conditions, now, cluster.generation),
            )
        )
        return BuiltReport(
            status=size_limit.fit(built),
            publishes=schedule.Published(peak.peak if peak else None, peak.reclaimable if peak else None),
            allocatable=None if cluster.allocatable is None else predicted.units(cluster.allocatable),
        )

    def _predict(
        self, now_seconds: float, bound: Sequence[PodOnNode] | None, cluster: Cluster, parameters: PredictParameters
    ) -> Prediction | NoPrediction:
        """Predict by the parameters of now: models restored from a checkpoint were trained by another process."""
        result: Prediction | NoPrediction
        if bound is None:
            reason = "the pods bound to this node are not known yet; waiting for the first list from the API server"
            result = NoPrediction(reason, Cause.PODS_UNKNOWN)
        else:
            result = self.observer.server.predict(now_seconds, bound, cluster.allocatable, parameters, cluster.capacity)
        self.predicted_at_seconds.append(now_seconds)
        self.prediction = None if isinstance(result, NoPrediction) else result
        if isinstance(result, NoPrediction):
            self.without_prediction[result.cause] += 1
        return result
