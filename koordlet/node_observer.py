"""Observation of one machine: collect, cache and train. Needs no cluster.

`ClusterState` (pods, allocatable, spec) is passed in; `NoCluster` replaces it on a standalone machine.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric import types as node_metric
from api_types.node_metric.workloads import WorkloadHistory, pod_hash
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import ClusterState, PodOnNode, PodTable
from koordlet.collectors import pod_pressure
from koordlet.collectors.capped_usage import CappedUsage
from koordlet.collectors.host import HostRoot
from koordlet.collectors.interface import Collector
from koordlet.collectors.snapshot import HostCollector
from koordlet.metric_cache import series
from koordlet.metric_cache.aggregation import TimeWindow
from koordlet.metric_cache.store import MetricStore
from koordlet.prediction import allocation, evaluation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.calibration.history import Prior
from koordlet.prediction.evaluation import LiveEvaluation
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.prediction.usage_models import TrainingRound
from koordlet.samples import NoData, SeriesKey, UsageSample, pod_key

log = logging.getLogger(__name__)

CACHE_SECONDS: Final = 1800.0
TRAINING_WINDOW_SECONDS: Final = 30.0
_LEAST_STEP_SECONDS: Final = 0.5
_DEFAULT_PARAMETERS: Final = spec_in_force.predict_parameters(spec_in_force.predict_policy(None))


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundPods:
    """What a tick needs of the pods, computed when they change."""

    table: PodTable
    version: int
    synced: bool
    by_uid: Mapping[str, PodOnNode]
    classes: Mapping[str, PriorityClass]
    containers: Mapping[str, int]
    """Id -> whole CPUs that it requests."""
    not_started: frozenset[str]
    waiting: frozenset[str]

    @classmethod
    def read(cls, table: PodTable) -> Self:
        """Compute everything from the table."""
        by_uid = table.by_uid()
        pods = by_uid.values() if table.synced else ()
        named = {identity: pod.whole_cpus.get(identity, 0) for pod in pods for identity in pod.container_ids}
        classes = {uid: pod.priority_class for uid, pod in by_uid.items()}
        not_started = frozenset(uid for uid, pod in by_uid.items() if not pod.has_started)
        waiting = frozenset(uid for uid, pod in by_uid.items() if pod.is_waiting)
        return cls(table, table.version, table.synced, by_uid, classes, named, not_started, waiting)

    def matches(self, table: PodTable) -> bool:
        """Return whether nothing has changed in the table."""
        return self.table is table and self.version == table.version and self.synced == table.synced


class NodeObserver:
    """Measures one machine and trains its models. Not thread-safe: one event loop calls everything."""

    def __init__(
        self,
        host_root: Path,
        max_series: int,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        packages: LoadedPredictors | None = None,
    ) -> None:
        self.collector = HostCollector(HostRoot.at(host_root), monotonic_ns)
        rings = {
            collector.name: collector.ring for collector in self.collector.collectors if collector.ring is not None
        }
        self.cache = MetricStore(CACHE_SECONDS, max_series, rings)
        self.server = PredictionServer(_DEFAULT_PARAMETERS, packages=packages)
        self.evaluation = LiveEvaluation()
        self.newest: Mapping[SeriesKey, UsageSample] = {}
        """Newest sample of each series."""
        self.newest_at_seconds: float | None = None
        """Unix time of the newest sample of the node."""
        self.no_data: Sequence[NoData] = ()
        self.pods_by_uid: Mapping[str, PodOnNode] = {}
        """Pods of the last tick, by the UID in the names of their cgroups."""
        self.pods_in_system: frozenset[str] = frozenset()
        """Pods that cannot be measured: their usage is part of the system's."""
        self.newest_training: TrainingRound | None = None
        self.expired_pods = 0
        """Models of pods that were discarded because their pods had gone."""
        self._bound: _BoundPods | None = None
        self._lent: tuple[node_metric.NodeMetricSpec, _BoundPods] | None = None
        """Spec and pods of which the server has the history of workloads."""
        self._capped_usage = CappedUsage()
        self._counts_page_cache = False
        self._booted_at_seconds: float | None = None
        """Wall clock minus the time since boot, when cached samples were last shifted."""
        self.trained_at_seconds: collections.deque[float] = collections.deque(
            maxlen=math.ceil(CACHE_SECONDS / TRAINING_WINDOW_SECONDS)
        )

    def machine_capacity(self) -> WholeAmounts | None:
        """Return CPUs and memory of the machine itself, None while they cannot be read."""
        facts = self.collector.machine_facts()
        return None if facts is None else WholeAmounts(facts.cpu_count * 1000, facts.memory_bytes)

    def observe(self, now_seconds: float, cluster: ClusterState, boot_seconds: float | None = None) -> None:
        """Do one tick: add the series of a snapshot of the node to the cache.

        `boot_seconds` is the time since boot (CLOCK_BOOTTIME); without it the wall clock is trusted not to be set.
        """
        if boot_seconds is not None:
            self._follow_clock(now_seconds - boot_seconds)
        if self._bound is None or not self._bound.matches(cluster.pods):
            self._bound = _BoundPods.read(cluster.pods)
        bound = self._bound
        if self._lent is None or self._lent[0] is not cluster.spec or self._lent[1] is not bound:
            self._lent = cluster.spec, bound
            self.server.prod.history = _entries(cluster.spec.workload_history or (), bound.by_uid)
            prior = cluster.spec.score_prior
            self.server.prod.prior = Prior.from_wire(prior) if prior else None
        self.pods_by_uid = bound.by_uid
        snapshot = self.collector.collect(
            now_seconds,
            bound.containers or None,
            bound.by_uid if bound.synced else None,
            self._follow_memory_policy(cluster),
        )
        if cluster.may_lack_pods and not snapshot.pods and not snapshot.unmeasured_pods:
            snapshot = dataclasses.replace(snapshot, system=snapshot.node)
        self.no_data = snapshot.no_data
        self.pods_in_system = snapshot.pods_in_system
        self.newest = series.snapshot_series(snapshot, bound.classes if bound.synced else None, _reserved(cluster))
        self.cache.append(snapshot, self.newest)
        if snapshot.node is not None:
            self.newest_at_seconds = now_seconds

    def train(
        self, now_seconds: float, parameters: PredictParameters, boot_seconds: float | None = None
    ) -> TrainingRound:
        """Add the p90 of the last 30 s of every series to its model. See `UsageModels.train` for `boot_seconds`."""
        self.server.configure(parameters)
        self.server.sizes.exclusive = exclusive_cpus(self.pods_by_uid, self.collector.collectors)
        if self._bound is not None:
            self.server.starts.not_started, self.server.starts.waiting = self._bound.not_started, self._bound.waiting
        samples = self.cache.p90(now_seconds, TRAINING_WINDOW_SECONDS)
        done = self.server.train(now_seconds, samples, boot_seconds, self.pods_by_uid.values())
        self.trained_at_seconds.append(now_seconds)
        self.newest_training = done
        self.expired_pods += done.expired_pods
        return done

    def calibrate(self, now_seconds: float, cluster: ClusterState, boot_seconds: float) -> None:
        """Record the usage of the Prod pods for calibrated peaks. Follows a training; nothing before pods are known."""
        if cluster.generation is None or not cluster.pods.synced:
            return
        bound = cluster.pods.active()
        prod = {pod.uid: self.newest.get(pod_key(pod.uid)) for pod in allocation.charged_to_prod(bound)}
        usage = {uid: sample for uid, sample in prod.items() if sample is not None}
        capped = self._capped_usage.resources(boot_seconds, self.collector.collectors, usage)
        self.server.calibrate(now_seconds, bound, cluster.capacity, unmeasured=self.pods_in_system, capped=capped)

    def inform_packages(self, now_seconds: float, cluster: ClusterState, plan: evaluation.Plan) -> None:
        """Pass what was trained to predictors of packages that learn. Follows a calibration."""
        if not self.server.packages or cluster.generation is None or not cluster.pods.synced:
            return
        self.server.inform_packages(
            now_seconds, cluster.pods.active(), cluster.capacity, plan.predictors, unmeasured=self.pods_in_system
        )

    def evaluate(self, now_seconds: float, cluster: ClusterState, plan: evaluation.Plan, boot_seconds: float) -> None:
        """Observe the forecast of the live evaluation, and make the next one when it is due. Follows a training.

        There is no forecast before pods and spec are known: it would be one of other pods, or of other parameters.
        """
        evaluated = self.evaluation
        watched = evaluated.watched()
        window = TimeWindow(now_seconds, TRAINING_WINDOW_SECONDS)
        usage = evaluation.total_usage(self.cache.series.samples(watched, window)) if watched else None
        evaluated.observe(boot_seconds, usage)
        if cluster.generation is None or not cluster.pods.synced or not evaluated.is_due(plan):
            return
        bound = cluster.pods.active()
        plan = plan._replace(predictors=self.server.packages.evaluated(plan.predictors))
        answers = self.server.predict_each(
            now_seconds,
            bound,
            cluster.allocatable,
            [plan.parameters.for_predictor(name) for name in plan.predictors],
            cluster.capacity,
            unmeasured=self.pods_in_system,
        )
        predicted = dict(zip(plan.predictors, answers, strict=True))
        in_force = plan.predictors[0]  # of any other one, the answer of a substitute does not count
        valid_predictions = {
            prediction.parameters.predictor: prediction
            for name, prediction in predicted.items()
            if isinstance(prediction, Prediction) and name in (in_force, prediction.parameters.predictor)
        }
        pods = [pod.uid for pod in allocation.charged_to_prod(bound)]
        evaluated.begin(now_seconds, plan, valid_predictions, pods, cluster.capacity)

    def _follow_clock(self, booted_at_seconds: float) -> None:
        """Keep the ages of cached samples when the wall clock is set. A slow adjustment adds up to a step."""
        step = booted_at_seconds - self._booted_at_seconds if self._booted_at_seconds is not None else math.inf
        if abs(step) < _LEAST_STEP_SECONDS:
            return
        if self._booted_at_seconds is not None:
            log.warning("the clock was set by %.1f s; cached samples keep their ages", step)
            self.cache.shift(step)
        self._booted_at_seconds = booted_at_seconds

    def _follow_memory_policy(self, cluster: ClusterState) -> bool:
        """Return whether page cache counts as used. Samples of before a change stay as they were measured."""
        counts_page_cache = spec_in_force.counts_page_cache(cluster.spec.metric_collect_policy)
        if counts_page_cache != self._counts_page_cache:
            log.info(
                "memory is measured %s page cache from now on, as metricMemoryCollectPolicy requests; windows and "
                "predictions contain older samples until these have left the window or decayed",
                "with" if counts_page_cache else "without",
            )
            self._counts_page_cache = counts_page_cache
        return counts_page_cache


def _entries(history: Sequence[WorkloadHistory], uids: Iterable[str]) -> dict[str, WorkloadHistory]:
    """Return what the manager knows of the workloads of pods, by the UID of the pod."""
    by_hash = {entry.pod: entry for entry in history}
    return {uid: by_hash[name] for uid in uids if by_hash and (name := pod_hash(uid)) in by_hash}


def exclusive_cpus(pods_by_uid: Mapping[str, PodOnNode], collectors: Sequence[Collector]) -> dict[str, int]:
    """Return the millicores of the CPUs that each pod has for itself alone, where it has some.

    The kubelet's static CPU manager gives whole CPUs to containers of Guaranteed pods, and sets their cpuset: one of
    exactly so many CPUs, and not of all, is exclusive. Which policy the kubelet has is written nowhere that an agent
    without privileges may read.
    """
    cpus, exclusive = pod_pressure.container_cpus(collectors), {}
    for uid, pod in pods_by_uid.items():
        own = 1000 * sum(count for identity, count in pod.whole_cpus.items() if cpus.get(identity) == count)
        if millis := max(own, pod.exclusive_cpu_millis):
            exclusive[uid] = millis
    return exclusive


def _reserved(cluster: ClusterState) -> series.Reserved | None:
    """Return the resources that the node reserves, never below 0: an amplified allocatable may exceed the capacity."""
    capacity, allocatable = cluster.capacity, cluster.allocatable
    if capacity is None or allocatable is None:
        return None
    return series.Reserved(
        max(capacity.cpu_millis - allocatable.cpu_millis, 0) / 1000,
        float(max(capacity.memory_bytes - allocatable.memory_bytes, 0)),
    )
