"""Builder of reports: cached usage, a prediction and conditions become one NodeMetric status.

A check of whether a report is due needs the prediction alone (`predict`); the status is built only to be sent.
"""

from __future__ import annotations

import collections
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api_types.colocation import controller_config
from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import ClusterState, PodOnNode
from koordlet.collectors import capped_usage, node_usage
from koordlet.collectors.interface import Collector
from koordlet.metric_cache import series
from koordlet.node_observer import NodeObserver
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.report import conditions, sending, status, usage_windows

_FRESH_SECONDS: Final = 60.0
"""Largest age of the newest sample of a node that counts as measured."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A prediction from which a report may be built, and the values that decide whether it is worth an early one."""

    now_seconds: float
    sampled_at_seconds: float
    policy: controller_config.PredictPolicy
    bound: Sequence[PodOnNode] | None
    """Pods bound to the node; None until they are known."""
    result: Prediction | NoPrediction
    publishes: sending.Published
    allocatable: Mapping[str, int] | None


class ReportBuilder:
    """Builds the reports of one node. Not thread-safe: one event loop calls everything."""

    def __init__(self, observer: NodeObserver) -> None:
        self.observer = observer
        self.prediction: Prediction | None = None
        """Newest prediction, None where there is none."""
        self.without_prediction: dict[Cause, int] = dict.fromkeys(Cause, 0)
        """Number of checks that gave no prediction, by cause."""
        self.suppression_problems: Sequence[tuple[str, str]] | None = None
        """Reason and message of each problem of the suppression of Mid pods; None while it is off."""
        self.predicted_at_seconds: collections.deque[float] = collections.deque(
            maxlen=observer.trained_at_seconds.maxlen
        )

    def predict(
        self, now_seconds: float, cluster: ClusterState, policy: controller_config.PredictPolicy
    ) -> Forecast | None:
        """Predict as of now; None while the node was never measured."""
        sampled_at_seconds = self.observer.newest_at_seconds
        if sampled_at_seconds is None:
            return None
        bound = cluster.pods.active() if cluster.pods.synced else None
        result = self._predict(now_seconds, bound, cluster, spec_in_force.predict_parameters(policy))
        peak = None if isinstance(result, NoPrediction) else result
        return Forecast(
            now_seconds,
            sampled_at_seconds,
            policy,
            bound,
            result,
            publishes=sending.Published(
                status.units(peak.prod_peak) if peak else None, status.units(peak.prod_reclaimable) if peak else None
            ),
            allocatable=None if cluster.allocatable is None else status.units(cluster.allocatable),
        )

    def build(
        self, forecast: Forecast, cluster: ClusterState, state_problem: str | None
    ) -> node_metric.NodeMetricStatus:
        """Return the status to publish, as of the newest sample at the time of the forecast."""
        now = dt.datetime.fromtimestamp(forecast.now_seconds, dt.UTC)
        result = forecast.result
        return status.fit(
            status.build(
                sampled_at=dt.datetime.fromtimestamp(forecast.sampled_at_seconds, dt.UTC),
                observed_generation=cluster.generation,
                reported=usage_windows.usage_until(
                    forecast.sampled_at_seconds, self.observer.cache, forecast.bound, cluster.spec.metric_collect_policy
                ),
                bound=forecast.bound,
                stated=_stated(self.observer.server),
                lacking_history=() if isinstance(result, NoPrediction) else result.lacking_history,
                predicted=None
                if isinstance(result, NoPrediction)
                else status.publishable(
                    result,
                    forecast.policy,
                    now,
                    self.observer.evaluation.records,
                    self.observer.server.calibration.labels(),
                ),
                conditions=conditions.evaluate(
                    self._facts(forecast, cluster, state_problem), cluster.conditions, now, cluster.generation
                ),
            )
        )

    def _facts(self, forecast: Forecast, cluster: ClusterState, state_problem: str | None) -> conditions.Facts:
        observer, result = self.observer, forecast.result
        prediction = None if isinstance(result, NoPrediction) else result
        packages, in_force = observer.server.packages, forecast.policy.predictor or ""
        return conditions.Facts(
            has_node_usage=forecast.now_seconds - forecast.sampled_at_seconds < _FRESH_SECONDS,
            no_data=observer.no_data,
            pods_are_known=forecast.bound is not None,
            warm_pods=prediction.warm_pods + prediction.borrowed_pods if prediction else 0,
            cold_pods=prediction.cold_pods if prediction else 0,
            cold_start_period_seconds=forecast.policy.cold_start_period_seconds or 0,
            no_prediction=result.reason if isinstance(result, NoPrediction) else None,
            state_problem=state_problem,
            reservation_problem=cluster.reservation_problem,
            spec_problem=cluster.spec_problem,
            lacks_policy=cluster.lacks_policy,
            unsupported=spec_in_force.unsupported(cluster.spec.metric_collect_policy),
            unreadable=[f"{kind} {name}: {reason}" for (kind, name), reason in sorted(cluster.unreadable.items())],
            refused_identities=[f"{name}: {reason}" for name, reason in sorted(cluster.pods.refused.items())],
            pods_in_system=observer.collector.statistics.pods_in_system,
            refused_pods=observer.newest_training.refused_pods if observer.newest_training else 0,
            cache_problem=node_usage.cache_problem(observer.collector.host_root.proc_root),
            predictor_problem=packages.problem_in_force(in_force),
            evaluation_problems=packages.evaluation_problems(in_force, forecast.policy.evaluated_predictors or ()),
            suppression_problems=self.suppression_problems,
            mid_pods_without_limits=sorted(
                f"{pod.namespace}/{pod.name}" for pod in forecast.bound or () if pod.mid and not pod.mid.has_limits
            ),
            throttled_pods=throttled_prod_pods(observer.collector.collectors, observer.pods_by_uid),
        )

    def _predict(
        self,
        now_seconds: float,
        bound: Sequence[PodOnNode] | None,
        cluster: ClusterState,
        parameters: PredictParameters,
    ) -> Prediction | NoPrediction:
        """Predict by the parameters of now: models restored from a checkpoint were trained by another process."""
        result: Prediction | NoPrediction
        if bound is None:
            reason = "the pods bound to this node are not known yet; waiting for the first list from the API server"
            result = NoPrediction(reason, Cause.PODS_UNKNOWN)
        else:
            result = self.observer.server.predict(
                now_seconds,
                bound,
                cluster.allocatable,
                parameters,
                cluster.capacity,
                unmeasured=self.observer.pods_in_system,
            )
        self.predicted_at_seconds.append(now_seconds)
        self.prediction = None if isinstance(result, NoPrediction) else result
        if isinstance(result, NoPrediction):
            self.without_prediction[result.cause] += 1
        return result


def _stated(server: PredictionServer) -> status.Stated | None:
    """Return the newest statement, None before the first one."""
    if not server.workloads.stated and not server.stated_scores:
        return None
    at = dt.datetime.fromtimestamp(server.workloads.stated_seconds, dt.UTC)
    return status.Stated(at, server.workloads.stated, server.stated_scores)


def throttled_prod_pods(collectors: Iterable[Collector], pods_by_uid: Mapping[str, PodOnNode]) -> list[str]:
    """Return the names of the throttled Prod pods, the most throttled first: their usage understates what they need."""
    throttled = [
        (-ratio, f"{pod.namespace}/{pod.name}")
        for uid, ratio in capped_usage.throttled(collectors).items()
        if (pod := pods_by_uid.get(uid)) is not None and series.counted_class(pod.priority_class) == PriorityClass.PROD
    ]
    return [name for _, name in sorted(throttled)]
