"""Everything of the agent that needs no cluster: measure, remember, learn, and sum up what is known in a status.

What the cluster knows (pods, allocatable, policies) comes in as a view; `NoCluster` stands for a machine without one.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from api_types.colocation import controller_config
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode, PodTable
from koordlet.collectors import snapshot as catalog
from koordlet.collectors.host_root import HostRoot
from koordlet.collectors.pod_pressure import PodStall
from koordlet.collectors.statistics import CollectStatistics
from koordlet.metric_cache import aggregation, series
from koordlet.metric_cache.aggregation import Statistic
from koordlet.metric_cache.container_ring import ContainerHistory
from koordlet.metric_cache.interface import Window, WindowSamples
from koordlet.metric_cache.numa_ring import NumaMeans
from koordlet.metric_cache.ring import RingCache
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.prediction.usage_models import TrainingRound
from koordlet.report import conditions, schedule, size_limit, status, throttled_pods
from koordlet.report import prediction as predicted
from koordlet.samples import NODE, SYSTEM, NoData, SeriesKey, SeriesKind, UsageSample

CACHE_SECONDS: Final = 1800.0
TRAINING_WINDOW_SECONDS: Final = 30.0
_FRESH_SECONDS: Final = 60.0
"""A node whose newest sample is older is not measured any more."""
_REPORTED: Final = (Statistic.AVG, Statistic.P50, Statistic.P90, Statistic.P95, Statistic.P99, Statistic.STD)
_DEFAULT_PARAMETERS: Final = spec_in_force.predict_parameters(spec_in_force.predict_policy(None))


class Cluster(Protocol):
    """What the observer needs to know of the cluster."""

    pods: PodTable
    spec: node_metric.NodeMetricSpec
    generation: int | None
    may_lack_pods: bool
    """Whether a machine without any pod group is to be expected, so that all its usage is the system's."""
    reservation_problem: str | None
    """Why what an annotation of the node reserves is not in `allocatable`."""

    @property
    def allocatable(self) -> WholeAmounts | None:
        """What of cpu and memory the node leaves to pods, None while unknown."""

    @property
    def capacity(self) -> WholeAmounts | None:
        """Capacity of the node, None while unknown."""


class NoCluster:
    """A machine without a cluster: nothing is bound to it, and nothing of it is reserved."""

    def __init__(self, observer: NodeObserver) -> None:
        self.pods = PodTable()
        self.pods.keep_only(())
        self.spec = node_metric.NodeMetricSpec()
        self.generation: int | None = None
        self.may_lack_pods = True
        self.reservation_problem: str | None = None
        self._observer = observer

    @property
    def allocatable(self) -> WholeAmounts | None:
        """Everything the machine has."""
        return self.capacity

    @property
    def capacity(self) -> WholeAmounts | None:
        """CPUs and memory of the machine."""
        return self._observer.machine_capacity()


@dataclass(frozen=True, slots=True)
class Observation:
    """A status that may be published, and the values that say whether it is news."""

    status: node_metric.NodeMetricStatus
    publishes: schedule.Published
    allocatable: Mapping[str, int] | None


class NodeObserver:
    """Measures one machine. Not thread-safe: everything is called from one event loop."""

    def __init__(self, host_root: Path, max_series: int, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.server = PredictionServer(_DEFAULT_PARAMETERS)
        self.newest: Mapping[SeriesKey, UsageSample] = {}
        self.newest_at_seconds: float | None = None
        self.no_data: Sequence[NoData] = ()
        self.prediction: Prediction | None = None
        self.without_prediction: dict[Cause, int] = dict.fromkeys(Cause, 0)
        """How often there was none when a report was looked at."""
        self.conditions: Sequence[node_metric.Condition] = ()
        """Those of the last report; a condition keeps its transition time while its status lasts."""
        self.trained_at_seconds: collections.deque[float] = collections.deque(
            maxlen=math.ceil(CACHE_SECONDS / TRAINING_WINDOW_SECONDS)
        )
        self.predicted_at_seconds: collections.deque[float] = collections.deque(maxlen=self.trained_at_seconds.maxlen)
        self._collector = catalog.SnapshotCollector(HostRoot.at(host_root), monotonic_ns)
        self._cache = RingCache(CACHE_SECONDS, max_series=max_series)
        self._containers = ContainerHistory(CACHE_SECONDS, max_series)
        self._numa = NumaMeans(CACHE_SECONDS)
        self._pods_by_uid: Mapping[str, PodOnNode] = {}

    @property
    def collect_statistics(self) -> CollectStatistics:
        """Cost and failures of the collectors."""
        return self._collector.statistics

    @property
    def node_stalled_seconds(self) -> Mapping[str, Mapping[str, float]]:
        """Resource -> kind -> seconds the machine stalled since boot; empty on a kernel that does not count them."""
        return self._collector.collectors.node_pressure.stalled_seconds

    @property
    def pod_stalls(self) -> Sequence[tuple[PodOnNode, PodStall]]:
        """What every known pod waited for. /metrics asks from another thread, while a tick may add pods."""
        stalls = list(self._collector.collectors.pod_stalls.pods.items())
        return [(pod, stall) for uid, stall in stalls if (pod := self._pods_by_uid.get(uid)) is not None]

    @property
    def tracked_series(self) -> int:
        """Series held in memory."""
        return self._cache.series_count + self._containers.cache.series_count

    @property
    def refused_samples(self) -> int:
        """Samples that found no room in memory."""
        return self._cache.refused_samples + self._containers.cache.refused_samples

    def machine_capacity(self) -> WholeAmounts | None:
        """CPUs and memory of the machine itself, None while they cannot be read."""
        facts = self._collector.machine_facts()
        return None if facts is None else WholeAmounts(facts.cpu_count * 1000, facts.memory_bytes)

    def observe(self, now_seconds: float, cluster: Cluster) -> None:
        """One tick: a snapshot of the node, as series, into the metric cache."""
        pods = self._pods_by_uid = cluster.pods.by_uid()
        named = frozenset().union(*(pod.container_ids for pod in pods.values())) if cluster.pods.synced else None
        snapshot = self._collector.collect(now_seconds, named or None)
        if cluster.may_lack_pods and not snapshot.pods and not snapshot.unmeasured_pods:
            snapshot = dataclasses.replace(snapshot, system=snapshot.node)
        self.no_data = snapshot.no_data
        classes = {uid: pod.priority_class for uid, pod in pods.items()}
        self.newest = series.series_of(snapshot, classes, _reserved(cluster))
        self._cache.append(now_seconds, self.newest)
        self._containers.append(now_seconds, snapshot.containers)
        self._numa.append(snapshot)
        if snapshot.node is not None:
            self.newest_at_seconds = now_seconds

    def train(self, now_seconds: float, parameters: PredictParameters) -> TrainingRound:
        """Learn the p90 of the last 30 s of every series."""
        self.server.configure(parameters)
        keys = self._cache.keys()
        samples = self._cache.samples(keys, Window(now_seconds, TRAINING_WINDOW_SECONDS))
        p90 = aggregation.aggregate(samples, (Statistic.P90,))
        values = {key: usage for key in keys if (usage := p90.usage(Statistic.P90, key)) is not None}
        done = self.server.train(now_seconds, values)
        self.trained_at_seconds.append(now_seconds)
        return done

    def report(
        self,
        now_seconds: float,
        cluster: Cluster,
        policy: controller_config.PredictPolicy,
        state_problem: str | None,
    ) -> Observation | None:
        """The status as of the newest sample; None while the node was never measured."""
        if self.newest_at_seconds is None:
            return None
        bound = cluster.pods.active() if cluster.pods.synced else None
        answer = self._predict(now_seconds, bound, cluster.allocatable, spec_in_force.predict_parameters(policy))
        self.prediction = None if isinstance(answer, NoPrediction) else answer
        self.predicted_at_seconds.append(now_seconds)
        if isinstance(answer, NoPrediction):
            self.without_prediction[answer.cause] += 1
        now = dt.datetime.fromtimestamp(now_seconds, dt.UTC)
        peak = None if isinstance(answer, NoPrediction) else predicted.publishable(answer, policy, now)
        facts = conditions.Facts(
            has_node_usage=now_seconds - self.newest_at_seconds < _FRESH_SECONDS,
            no_data=self.no_data,
            pods_are_known=bound is not None,
            warm_pods=self.prediction.warm_pods if self.prediction else 0,
            cold_pods=self.prediction.cold_pods if self.prediction else 0,
            cold_start_period_seconds=policy.cold_start_period_seconds or 0,
            no_prediction=answer.reason if isinstance(answer, NoPrediction) else None,
            state_problem=state_problem,
            reservation_problem=cluster.reservation_problem,
            throttled_pods=throttled_pods.prod(self.pod_stalls),
        )
        judged = conditions.judge(facts, self.conditions, now, cluster.generation)
        built = size_limit.fit(self._status(cluster, bound, peak, judged))
        allocatable = None if cluster.allocatable is None else predicted.units(cluster.allocatable)
        publishes = schedule.Published(peak.peak if peak else None, peak.reclaimable if peak else None)
        return Observation(built, publishes, allocatable)

    def means(self, now_seconds: float, window_seconds: float) -> dict[SeriesKey, UsageSample]:
        """Mean usage of every series but the containers over a window; a series without a sample in it is missing."""
        keys = self._cache.keys()
        samples = self._cache.samples(keys, Window(now_seconds, window_seconds))
        found = aggregation.aggregate(samples, (Statistic.AVG,))
        return {key: usage for key in keys if (usage := found.usage(Statistic.AVG, key)) is not None}

    def compare(
        self, now_seconds: float, cluster: Cluster, compared: Sequence[PredictParameters]
    ) -> list[Prediction | NoPrediction]:
        """What each of these would predict now, from the same history."""
        bound = cluster.pods.active()
        return [self.server.predict(now_seconds, bound, cluster.allocatable, each) for each in compared]

    def held_samples(self) -> WindowSamples:
        """Every raw sample held, of all but the containers."""
        until = self.newest_at_seconds or 0.0
        return self._cache.samples(self._cache.keys(), Window(until, CACHE_SECONDS))

    def held_container_samples(self) -> WindowSamples:
        """Every raw sample of containers held."""
        return self._containers.held(self.newest_at_seconds or 0.0)

    def close(self) -> None:
        """Close every file."""
        self._collector.close()

    def _predict(
        self,
        now_seconds: float,
        bound: Sequence[PodOnNode] | None,
        allocatable: WholeAmounts | None,
        parameters: PredictParameters,
    ) -> Prediction | NoPrediction:
        """By the parameters of now, not those of the last training: a restored history has none of this process."""
        if bound is None:
            reason = "the apiserver has not yet told which pods are bound to this node"
            return NoPrediction(reason, Cause.PODS_UNKNOWN)
        return self.server.predict(now_seconds, bound, allocatable, parameters)

    def _status(
        self,
        cluster: Cluster,
        bound: Sequence[PodOnNode] | None,
        peak: status.PredictedPeak | None,
        judged: list[node_metric.Condition],
    ) -> node_metric.NodeMetricStatus:
        sampled_at = self.newest_at_seconds or 0.0
        collect = cluster.spec.metric_collect_policy
        by_uid = {SeriesKey(SeriesKind.POD, pod.uid): pod for pod in bound or ()}
        window = Window(sampled_at, spec_in_force.usage_window_seconds(collect))
        recent = self._cache.samples([NODE, SYSTEM, *by_uid], window)
        means = aggregation.aggregate(recent, (Statistic.AVG,))
        windows = [
            (seconds, self._statistics(sampled_at, seconds))
            for seconds in spec_in_force.aggregate_windows_seconds(collect)
        ]
        return status.build(
            status.Report(
                sampled_at=dt.datetime.fromtimestamp(sampled_at, dt.UTC),
                observed_generation=cluster.generation,
                node_usage=means.usage(Statistic.AVG, NODE),
                system_usage=means.usage(Statistic.AVG, SYSTEM),
                node_windows=[(seconds, found[NODE]) for seconds, found in windows],
                system_windows=[(seconds, found[SYSTEM]) for seconds, found in windows],
                pods=[(pod, usage) for key, pod in by_uid.items() if (usage := means.usage(Statistic.AVG, key))],
                bound=bound,
                predicted=peak,
                conditions=judged,
                numa=self._numa.over(window),
            )
        )

    def _statistics(self, until_seconds: float, window_seconds: int) -> dict[SeriesKey, status.Statistics]:
        """Statistics of node and system over one window; None where the data span less than half of it."""
        samples = self._cache.samples((NODE, SYSTEM), Window(until_seconds, window_seconds))
        found = aggregation.aggregate(samples, _REPORTED)
        return {
            key: {name: None if found.is_cold(key) else found.usage(name, key) for name in _REPORTED}
            for key in (NODE, SYSTEM)
        }


def _reserved(cluster: Cluster) -> series.Reserved | None:
    """What the node keeps back from pods, at least nothing: an amplified allocatable may exceed the capacity."""
    capacity, allocatable = cluster.capacity, cluster.allocatable
    if capacity is None or allocatable is None:
        return None
    return series.Reserved(
        max(capacity.cpu_millis - allocatable.cpu_millis, 0) / 1000,
        float(max(capacity.memory_bytes - allocatable.memory_bytes, 0)),
    )
