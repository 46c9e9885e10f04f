"""Replay one node step by step through the prediction of the agent, as on the node.

A step is one training and one sample. Steps without a measured pod train nothing. The oracle counts the Prod pods that
run at the time of the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric.workloads import ScorePrior, WorkloadHistory
from koordctl.backtest import scores, workload_history
from koordctl.backtest.node_history import BoundPod, NodeHistory
from koordctl.backtest.scores import Stays
from koordctl.backtest.workload_history import HOUR_SECONDS, START_SECONDS, Handed, Stated
from koordlet.metric_cache import series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import Owner, WholeAmounts
from koordlet.prediction.calibration.history import Prior
from koordlet.prediction.histogram_bank import FloatArray, IntArray
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.samples import RESOURCES, Resource, SeriesKey, Snapshot, UsageSample
from manager.node_metric.workload_history import pools
from manager.node_metric.workload_history.prior import NodeScores, Scores

NOTHING: Final = UsageSample(0.0, 0.0)
UNBOUNDED: Final = WholeAmounts(10**9, 2**50)
"""Allocatable that bounds no Mid resources, of a node whose own is not known."""


@dataclass(frozen=True, eq=False)
class ReplayedForecasts:
    """Predictions and results of one resource of one node, in cores or bytes; `peaks` is (policies, times)."""

    peaks: FloatArray
    """As predicted, neither limited by the requests nor raised to the usage; NaN without a prediction."""
    oracle: FloatArray
    requests: FloatArray
    usage: FloatArray
    """Of the Prod pods at the time of the prediction, as `requests`."""
    other_usage: FloatArray
    """Of all but Prod and Mid pods: of the system, and of the memory of Batch and Free pods."""
    mid_requests: FloatArray


def replay(  # noqa: PLR0917
    node: NodeHistory,
    policies: Sequence[PredictParameters],
    predict_at: Sequence[int],
    horizon_steps: int,
    packages: LoadedPredictors | None = None,
    handed: Handed | None = None,
) -> Mapping[Resource, ReplayedForecasts]:
    """Train on every step up to the last prediction, predict by each policy at the steps of `predict_at`.

    `packages` are the predictors that policies may name beside the built-in ones; `handed` is the history of workloads.
    All policies share one history: they have the same half-lives, and the same horizon.
    """
    package_names = [policy.predictor for policy in policies if policy.predictor not in registry.PREDICTORS]
    is_calibrated = bool(package_names) or any(
        policy.predictor == "calibrated" or "calibrated" in policy.members for policy in policies
    )
    forecasts = {
        resource: ReplayedForecasts(
            np.full((len(policies), len(predict_at)), np.nan), *(np.full(len(predict_at), np.nan) for _ in range(5))
        )
        for resource in node.resources
    }
    replayed = _Replay(node, policies[0], packages, is_calibrated=is_calibrated)
    records = {resource: _Recorder(forecasts[resource], node, resource, replayed.stays) for resource in node.resources}
    columns = {step: column for column, step in enumerate(predict_at)}
    for step in range(max(columns, default=-1) + 1):
        replayed.train(step, handed or Handed())
        at_seconds, here = replayed.at_seconds, replayed.here
        replayed.server.inform_packages(at_seconds, here, node.capacity, package_names)
        if step in columns:
            column = columns[step]
            for row, answer in enumerate(_answers(replayed.server, policies, node, at_seconds, here)):
                if answer is not None:
                    for resource in node.resources:
                        forecasts[resource].peaks[row, column] = answer.prod[resource].peak
            for record in records.values():
                record(replayed.running, step, column, horizon_steps)
    return forecasts


def state(node: NodeHistory, parameters: PredictParameters, handed: Handed) -> Stated:
    """Return what a node states. What it adds to its workloads depends on no history, its scores on no prior."""
    replayed = _Replay(node, parameters, None, is_calibrated=True)
    added, scores, before = {}, {}, 0
    for step in range(node.steps):
        replayed.train(step, handed)
        before += step in node.replaced_at
        if replayed.server.workloads.stated_seconds == replayed.at_seconds:
            hour = step * node.step_seconds // HOUR_SECONDS
            added[hour] = replayed.server.workloads.stated
            if stated := replayed.server.stated_scores:
                of_each = (Scores(stated[resource].labels, stated[resource].cells()) for resource in RESOURCES)
                scores[hour] = before, NodeScores(0, *of_each)
    first = min((stay.start for stay in node.stays), default=0) * node.step_seconds
    cold = workload_history.owners_of_cold_pods(node, parameters.cold_start_period_seconds)
    return Stated(added, scores, cold, node.capacity, is_young=bool(node.replaced_at) or first > HOUR_SECONDS)


class _Replay:
    """A prediction server, and the pods of the step that it was trained with."""

    def __init__(
        self,
        node: NodeHistory,
        parameters: PredictParameters,
        packages: LoadedPredictors | None,
        *,
        is_calibrated: bool,
    ) -> None:
        self.server = PredictionServer(parameters, training_interval_seconds=node.step_seconds, packages=packages)
        self.stays = Stays(node.stays)
        self.running: IntArray = np.zeros(0, np.intp)
        self.here: list[BoundPod] = []
        self.at_seconds = float(START_SECONDS)
        self._node = node
        self._unit = (node.capacity or _sum_of_requests(node)) if is_calibrated else None
        self._history: dict[Owner, WorkloadHistory] = {}

    def train(self, step: int, handed: Handed) -> None:
        """Train with the pods of a step. What was handed at the begin of its hour is known to the node."""
        node, server = self._node, self.server
        if step in node.replaced_at:
            server.forget()
        hour, seconds = divmod(step * node.step_seconds, HOUR_SECONDS)
        if seconds < node.step_seconds:
            entries = handed.entries.get(hour, {}).items()
            self._history |= {owner: WorkloadHistory.model_validate(entry.to_wire("")) for owner, entry in entries}
            prior = handed.priors.get(hour)
            server.prod.prior = Prior.from_wire(ScorePrior.model_validate(pools.to_wire(prior))) if prior else None
        self.running = self.stays.running_at(step)
        self.here = [node.bound[number] for number in self.running]
        self.at_seconds = float(START_SECONDS + step * node.step_seconds)
        server.prod.history = {
            pod.uid: self._history[pod.owner] for pod in self.here if pod.owner and pod.owner in self._history
        }
        used = np.stack([node.usage[resource][self.stays.series[self.running], step] for resource in RESOURCES], axis=1)
        server.train(self.at_seconds, _measured(node, self.at_seconds, self.here, used, step), pods=self.here)
        if self._unit is not None:
            server.calibrate(self.at_seconds, self.here, self._unit)


def _answers(
    server: PredictionServer,
    policies: Sequence[PredictParameters],
    node: NodeHistory,
    at_seconds: float,
    pods: Sequence[BoundPod],
) -> list[Prediction | None]:
    """Return the prediction of each policy, None without one. Equal policies are predicted once."""
    different = list(dict.fromkeys(policies))  # the default predictor is also a preset
    predicted = server.predict_each(at_seconds, pods, node.allocatable or UNBOUNDED, different, node.capacity)
    answers = {
        policy: None
        if isinstance(answer, NoPrediction) or server.packages.problem_in_force(policy.predictor)
        else answer
        for policy, answer in zip(different, predicted, strict=True)
    }
    return [answers[policy] for policy in policies]


class _Recorder:
    """Writes the oracle, requests and usage of one resource into forecasts."""

    def __init__(self, forecasts: ReplayedForecasts, node: NodeHistory, resource: Resource, stays: Stays) -> None:
        self._forecasts = forecasts
        self._stays = stays
        self._used = node.usage[resource]
        self._node_usage = None if node.node_usage is None else node.node_usage[resource]
        self._is_prod = node.prod()
        self._requested = np.array([pod.request(resource) for pod in node.bound], float)
        # Usage of traces is a share of the request, never above it; a pod of a cluster may use more than it requests.
        self._limits = self._requested if node.capacity is None else np.full(len(self._requested), np.inf)
        counted = (PriorityClass.BATCH, PriorityClass.FREE) if resource is Resource.MEMORY else ()
        self._is_counted = np.array([pod.priority_class in counted for pod in node.bound], bool)
        self._mid_requested = [
            pod.mid_cpu_request_millis / 1000 if resource is Resource.CPU else pod.mid_memory_request_bytes
            for pod in node.bound
        ]

    def __call__(self, running: IntArray, step: int, column: int, horizon_steps: int) -> None:
        """Record the pods that run at a step."""
        forecasts, stays = self._forecasts, self._stays
        prod = running[self._is_prod[running]]
        used = self._used[stays.series[running], step]
        future = stays.usage_after(self._used, prod, step, horizon_steps)
        forecasts.oracle[column] = scores.oracle_peak(future, self._limits[prod])
        forecasts.requests[column] = self._requested[prod].sum()
        forecasts.usage[column] = used[self._is_prod[running]].sum()
        system = 0.0 if self._node_usage is None else max(float(self._node_usage[step] - np.nansum(used)), 0.0)
        forecasts.other_usage[column] = np.nansum(used[self._is_counted[running]]) + system
        forecasts.mid_requests[column] = sum(self._mid_requested[number] for number in running)


def _measured(
    node: NodeHistory, at_seconds: float, pods: Sequence[BoundPod], used: FloatArray, step: int
) -> dict[SeriesKey, UsageSample]:
    """Return the series of one step, as the agent derives them from its snapshot of the node."""
    samples = {pod.uid: UsageSample(*usage) for pod, usage in zip(pods, used.tolist(), strict=True)}
    measured = {
        uid: sample for uid, sample in samples.items() if sample.cpu_cores < math.inf and sample.memory_bytes < math.inf
    }
    missing = frozenset(samples) - frozenset(measured)
    node_usage = UsageSample(*np.sum([NOTHING, *measured.values()], axis=0).tolist())
    system: UsageSample | None = NOTHING
    if node.node_usage is not None:
        whole = UsageSample(*(float(node.node_usage[resource][step]) for resource in RESOURCES))
        system = UsageSample(*(max(a - b, 0.0) for a, b in zip(whole, node_usage, strict=True)))
        node_usage = whole
    system = None if missing else system
    classes = {pod.uid: pod.priority_class for pod in pods}
    snapshot = Snapshot(at_seconds, node_usage, system, measured, unmeasured_pods=missing)
    return series.snapshot_series(snapshot, classes, _reserved(node))


def _reserved(node: NodeHistory) -> Reserved:
    if node.capacity is None or node.allocatable is None:
        return Reserved(0.0, 0.0)
    cpu, memory = (
        node.capacity.in_cores_or_bytes(resource) - node.allocatable.in_cores_or_bytes(resource)
        for resource in RESOURCES
    )
    return Reserved(max(cpu, 0.0), max(memory, 0.0))


def _sum_of_requests(node: NodeHistory) -> WholeAmounts:
    """Return what every pod that ever ran requested, successors once.

    Of a resource without a record the same number of cores or GiB.
    """
    pods = {(stay.series, stay.workload): pod for stay, pod in zip(node.stays, node.bound, strict=True)}.values()
    if node.resources == (Resource.CPU,):
        cores = sum(pod.cpu_request_millis for pod in pods) / 1000
    else:
        cores = sum(pod.memory_request_bytes for pod in pods) / 2**30
    return WholeAmounts(round(1000 * cores), round(cores * 2**30))
