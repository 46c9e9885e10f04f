"""Load of Prod on a node: which pods are warm, borrowed or cold, and the statistics from which peaks are predicted."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Container, Mapping, Sequence
from typing import Final

import numpy as np

from api_types.node_metric.workloads import WorkloadHistory
from koordlet.metric_cache import series as class_series
from koordlet.prediction import allocation, workloads
from koordlet.prediction.allocation import ChargedPod, PodSizes, WholeAmounts
from koordlet.prediction.calibration.history import Prior
from koordlet.prediction.calibration.node_calibration import Calibrated, NodeCalibration
from koordlet.prediction.calibration.resource_calibration import Load
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Instant, Loads, ProdLoad
from koordlet.prediction.predictors import n_sigma
from koordlet.prediction.usage_models import PodStarts, SeriesStatistics, UsageModels
from koordlet.prediction.workloads import START_SECONDS, Division, Lent, LentStatistics
from koordlet.samples import (
    PROD_AND_UNRESERVED_SYSTEM,
    RESOURCES,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKey,
    SeriesKind,
    UsageSample,
    pod_key,
)

# Ten trainings without a sample: older statistics do not describe the node any more. Well below the manager's
# degradeTimeMinutes (15), which begins to count only when predictions stop.
STALE_SECONDS: Final = 300.0
SETTLED: Final = SeriesKey(SeriesKind.CLASS, "settled-prod")
"""Series of `ProdLoads.settled_usage`."""
_DAY_SECONDS: Final = 86_400.0
_LEAST_SHARE: Final = 0.01
"""Of a day, that a forecast knows of its pods."""
LENDING: Final = "history"
"""Value of `coldStart` with which the history of workloads is used."""


class ProdLoads:
    """Loads of Prod from the models of a node."""

    def __init__(
        self, parameters: PredictParameters, starts: PodStarts, sizes: PodSizes, training_interval_seconds: float
    ) -> None:
        self._starts, self._sizes = starts, sizes
        self._training_interval_seconds = training_interval_seconds
        self.parameters = parameters
        """Those in force."""
        self.history: Mapping[str, WorkloadHistory] = {}
        """What is known of the workloads of pods, by the UID of the pod. Callers replace it, and `prior`."""
        self.prior: Prior | None = None
        """Scores of nodes like this one."""

    def begin(self, models: UsageModels, calibration: NodeCalibration) -> None:
        """Use other models."""
        self._models, self._calibration = models, calibration
        self._lent_before: dict[str, WorkloadHistory] = {}
        """What pods were lent, until a day of them is recorded: the base of a calibrated peak is of a day."""

    def past_start(self) -> list[SeriesKey]:
        """Return the borrowed pods whose start has ended since the training before."""
        if self.parameters.cold_start != LENDING:
            self._lent_before = {}
            return []
        before = [uid for uid in self._lent_before if pod_key(uid) in self._models]
        is_short = self._models.recorded_seconds([pod_key(uid) for uid in before]) < _DAY_SECONDS
        self._lent_before = {uid: self._lent_before[uid] for uid in itertools.compress(before, is_short)}
        keys = [key for key in map(pod_key, self.history) if key in self._models]
        recorded_seconds = self._models.recorded_seconds(keys)
        until = START_SECONDS + self._training_interval_seconds
        ended = (recorded_seconds >= START_SECONDS) & (recorded_seconds < until)
        return list(itertools.compress(keys, ended & (until <= self.parameters.cold_start_period_seconds)))

    def divided(
        self,
        now_seconds: float,
        prod_pods: Sequence[ChargedPod],
        parameters: PredictParameters,
        unmeasured: Container[str],
    ) -> Division:
        """Divide the pods. One is warm when its own record, not its age, is long enough."""
        warm, rest = self._warm_and_other(prod_pods, parameters.cold_start_period_seconds, unmeasured)
        if not self.history or parameters.cold_start != LENDING:
            return Division(warm, {}, (), rest)
        started_seconds = START_SECONDS + self._training_interval_seconds  # then its start was dropped
        borrowed: list[ChargedPod] = []
        starting: list[tuple[ChargedPod, WorkloadHistory]] = []
        cold: list[ChargedPod] = []
        for pod in rest:
            entry, key = self.history.get(pod.uid), pod.key
            may_borrow = pod.uid not in unmeasured and not self._sizes.exclusive_millis(pod)
            if entry is None or not may_borrow or not workloads.lends_to(entry, pod, now_seconds):
                cold.append(pod)
            elif key in self._models and self._models.recorded_seconds([key])[0] >= started_seconds:
                borrowed.append(pod)
                self._lent_before[pod.uid] = entry
            else:
                starting.append((pod, entry))
        lent = {pod.uid: self.history[pod.uid] for pod in borrowed}
        return Division([*warm, *borrowed], lent, starting, cold)

    def _warm_and_other(
        self, prod_pods: Sequence[ChargedPod], cold_start_period_seconds: float, unmeasured: Container[str]
    ) -> tuple[list[ChargedPod], list[ChargedPod]]:
        """Return the warm pods, and the others."""
        self._sizes.follow(prod_pods, self._models, self.parameters.cold_start_period_seconds)
        running = [pod for pod in prod_pods if pod.uid not in unmeasured and pod.uid not in self._starts.not_started]
        modelled = [pod for pod in running if pod.key in self._models]
        keys = [pod.key for pod in modelled]
        is_measured = np.isfinite(self._models.first_seconds(keys))
        long_enough = is_measured & (self._models.recorded_seconds(keys) >= cold_start_period_seconds)
        warm = [pod for pod, is_warm in zip(modelled, long_enough, strict=True) if is_warm]
        warm_uids = {pod.uid for pod in warm}
        return warm, [pod for pod in prod_pods if pod.uid not in warm_uids]

    def of_instant(self, instant: Instant, parameters: PredictParameters) -> Loads:
        """Return the loads of both resources; policies of one cold-start period and N share them."""
        key = parameters.cold_start_period_seconds, parameters.n, parameters.cold_start
        if (loads := instant.loads.get(key)) is not None:
            return loads
        now_seconds, capacity = instant.now_seconds, instant.capacity
        divided = self.divided(now_seconds, instant.prod_pods, parameters, instant.unmeasured)
        by_resource = {
            resource: self.prod_load(now_seconds, resource, divided, capacity=capacity, parameters=parameters)
            for resource in RESOURCES
        }
        instant.loads[key] = Loads(divided, by_resource)
        return instant.loads[key]

    def by_age(self, pods: Sequence[ChargedPod]) -> list[ChargedPod]:
        """Return the pods that have a controller, those with the shortest record first."""
        owned = [pod for pod in pods if pod.owner is not None]
        keys = [pod.key for pod in owned if pod.key in self._models]
        recorded = dict(zip(keys, self._models.recorded_seconds(keys).tolist(), strict=True))
        return sorted(owned, key=lambda pod: recorded.get(pod.key, 0.0))

    def prod_load(
        self,
        now_seconds: float,
        resource: Resource,
        divided: Division,
        *,
        capacity: WholeAmounts | None,
        parameters: PredictParameters,
    ) -> ProdLoad:
        """Return the load on one resource."""
        predicted, newest = divided.predicted, self._models.newest_values
        added = self._sizes.added(predicted, self._models, parameters.cold_start_period_seconds).values()
        charged_beside = sum(amounts.in_cores_or_bytes(resource) for amounts in added)
        usage_of_cold = newest(resource, [pod.key for pod in divided.cold])
        warm_limits = allocation.cpu_limits(predicted) if resource is Resource.CPU else math.inf
        if divided.lent:
            warm_limits = np.minimum(warm_limits, self._most(resource, predicted, divided.lent))
        at_start = spared = 0.0
        if divided.starting:
            pods = [pod for pod, _ in divided.starting]
            used = newest(resource, [pod.key for pod in pods])
            at_start = workloads.charged_at_start(divided.starting, resource, used)
            spared = allocation.charged_while_cold(pods, resource, used) - at_start
        together = self.current(now_seconds, resource, PROD_AND_UNRESERVED_SYSTEM)
        load = ProdLoad(
            resource=resource,
            warm_pods=self._statistics(resource, predicted, divided.lent),
            warm_usage=newest(resource, [pod.key for pod in predicted]),
            warm_limits=warm_limits,
            warm_requests=allocation.requested_by(predicted).in_cores_or_bytes(resource),
            cold_requests=allocation.charged_while_cold(divided.cold, resource, usage_of_cold)
            + charged_beside
            + at_start,
            borrowed=len(divided.lent),
            spared=spared,
            added=charged_beside,
            capacity=in_cores_or_bytes(capacity, resource),
            prod=self.current(now_seconds, resource, class_series.PROD),
            system=self.current(now_seconds, resource, SYSTEM),
            unreserved_system=self.current(now_seconds, resource, UNRESERVED_SYSTEM),
            prod_and_unreserved_system=together,
            settled=self._settled(resource, together),
        )
        prior = self.prior.usable(resource, now_seconds) if self.prior else None

        @functools.cache
        def calibrated() -> Calibrated | None:
            return self.calibrated(load, predicted, divided.lent, parameters, prior=prior)

        return dataclasses.replace(load, calibrated=calibrated)

    def settled_usage(
        self, samples: Mapping[SeriesKey, UsageSample], prod_pods: Sequence[ChargedPod]
    ) -> tuple[UsageSample, UsageSample]:
        """Return the usage that Prod and S would have if all pods were as busy as the warm ones, and the requests.

        Starts of pods are not in it, nor pods that end before they are warm, and it does not fall while pods of it are
        replaced. NaN where less than half of the requests is of warm pods. Where all are warm, it is the usage of the
        class.
        """
        requested = UsageSample(*(math.fsum(pod.request(resource) for pod in prod_pods) for resource in RESOURCES))
        keys = [pod.key for pod in prod_pods if pod.key in self._models]
        recorded = dict(zip(keys, self._models.recorded_seconds(keys).tolist(), strict=True))
        cold_seconds = self.parameters.cold_start_period_seconds
        warm = [pod for pod in prod_pods if pod.key in samples and recorded.get(pod.key, 0.0) >= cold_seconds]
        if len(warm) == len(prod_pods) and PROD_AND_UNRESERVED_SYSTEM in samples:
            return samples[PROD_AND_UNRESERVED_SYSTEM], requested
        system, used = samples.get(UNRESERVED_SYSTEM), [math.nan, math.nan]
        for index, resource in enumerate(RESOURCES):
            measured = [pod for pod in warm if samples[pod.key][index] >= 0]  # false for NaN
            of_warm = math.fsum(pod.request(resource) for pod in measured)
            if system is not None and measured and of_warm >= requested[index] / 2:
                total = math.fsum(samples[pod.key][index] for pod in measured)
                used[index] = total * (requested[index] / of_warm if of_warm else 1.0) + system[index]
        return UsageSample(*used), requested

    def _settled(self, resource: Resource, together: SeriesStatistics | None) -> SeriesStatistics | None:
        """Return the series of that usage, or while it is short beside it that of Prod and S."""
        if together is None or SETTLED not in self._models:
            return together
        settled = self._models.statistics(resource, [SETTLED])
        recorded, of_all = (
            float(series.bank.recorded_seconds(series.rows)[0]) for series in (settled, together)
        )  # fmt: skip
        return settled if recorded >= min(of_all / 2, _DAY_SECONDS) and settled.mean()[0] >= 0 else together

    def _statistics(self, resource: Resource, pods: Sequence[ChargedPod], lent: Lent) -> SeriesStatistics:
        series = self._models.statistics(resource, [pod.key for pod in pods])
        return LentStatistics.with_least(series, pods, resource, lent) if lent else series

    def _most(self, resource: Resource, pods: Sequence[ChargedPod], lent: Lent) -> FloatArray:
        """Return what each pod counts at most for what it is lent: its request or its usage; infinite for warm pods."""
        used = np.nan_to_num(self._models.newest_values(resource, [pod.key for pod in pods]))
        requests = [pod.request(resource) if pod.uid in lent else math.inf for pod in pods]
        most: FloatArray = np.maximum(np.array(requests, float), used)
        return most

    def calibrated(
        self,
        load: ProdLoad,
        pods: Sequence[ChargedPod],
        lent: Lent,
        parameters: PredictParameters,
        *,
        prior: FloatArray | None = None,
    ) -> Calibrated | None:
        """Return the calibrated peaks of a load with these pods in the base, None where nothing was recorded."""
        resource, system = load.resource, load.unreserved_system
        if system is None:
            return None
        keys = [UNRESERVED_SYSTEM, *(pod.key for pod in pods)]
        before = self._lent_before if parameters.cold_start == LENDING else {}
        series = self._statistics(resource, pods, {**before, **lent} if before else lent)
        requests = load.warm_requests + load.cold_requests - load.added + load.spared
        known = Load(
            np.concatenate([system.mean(), series.mean()]),
            np.concatenate([system.stdev(), series.stdev()]),
            float(np.fmin.reduce(self._models.first_seconds(keys))),
            load.cold_requests,
            requests + n_sigma.sig(system, parameters.n),
            np.concatenate([[math.inf], self._most(resource, pods, lent)]) if lent else math.inf,
            max((entry.memory.rise for entry in lent.values() if resource is Resource.MEMORY), default=0.0),
            self._share_of_day(pods, before),
        )
        return self._calibration.calibrated(resource, keys, known, prior=prior)

    def _share_of_day(self, pods: Sequence[ChargedPod], lent: Lent) -> float:
        """Return how much of a day is known of pods, mean over them: their own record or that of their workloads."""
        recorded = self._models.recorded_seconds([pod.key for pod in pods])
        is_lent = np.array([pod.uid in lent for pod in pods], bool)
        shares = np.where(is_lent, 1.0, np.clip(recorded / _DAY_SECONDS, _LEAST_SHARE, 1.0))
        return float(shares.mean()) if len(pods) else 1.0

    def current(self, now_seconds: float, resource: Resource, key: SeriesKey) -> SeriesStatistics | None:
        """Return the statistics of a series, None unless its newest sample is current."""
        if key not in self._models:
            return None
        series = self._models.statistics(resource, [key])
        age_seconds = now_seconds - float(series.bank.last_seconds(series.rows)[0])
        return series if age_seconds <= STALE_SECONDS else None


def in_cores_or_bytes(capacity: WholeAmounts | None, resource: Resource) -> float:
    """Return the capacity in the unit of usage, infinite while it is not known."""
    return math.inf if capacity is None else capacity.in_cores_or_bytes(resource)
