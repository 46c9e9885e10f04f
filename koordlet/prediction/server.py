"""Prediction server: trains the models of this node and predicts the peaks of Prod and of the whole node.

A state machine without clock or I/O. The agent passes the newest value of every series each half minute, and requests a
prediction before each report. A changed policy takes effect at the next training and loses no history.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from koordlet.metric_cache import series as class_series
from koordlet.prediction import allocation
from koordlet.prediction.allocation import ChargedPod, PodSizes, WholeAmounts
from koordlet.prediction.calibration.node_calibration import (
    Calibrated,
    NodeCalibration,
    NodeCalibrationState,
    WarmSeries,
)
from koordlet.prediction.packages import loaded
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.packages.protocol import Load
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, Instant, Loads, NodePeak, NoPrediction, Peak, ProdLoad, no_sample
from koordlet.prediction.predictors import n_sigma, registry
from koordlet.prediction.usage_models import (
    MAX_PODS,
    TRAINING_INTERVAL_SECONDS,
    ModelsState,
    PodStarts,
    SeriesStatistics,
    TrainingRound,
    UsageModels,
)
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    RESOURCES,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKey,
    UsageSample,
    pod_key,
)

# Ten trainings without a sample: older statistics do not describe the node any more. Well below the manager's
# degradeTimeMinutes (15), which begins to count only when predictions stop.
STALE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted peaks of Prod and of the node, with all of their inputs."""

    parameters: PredictParameters
    """Parameters in use, with the name of the predictor."""
    since_seconds: float
    """Time of the first sample of the Prod class."""
    warm_pods: int
    cold_pods: int
    node: Mapping[Resource, NodePeak]
    """Usage of the whole node in cores and bytes; empty where the node was not measured."""
    prod: Mapping[Resource, Peak]
    """Peaks in cores and bytes."""
    prod_peak: WholeAmounts
    """`prod`, rounded up."""
    prod_allocated: WholeAmounts
    """Requests of the pods in `prod`."""
    prod_reclaimable: WholeAmounts


class PredictionServer:
    """Models of this node's series and the parameters in force. Not thread-safe."""

    def __init__(
        self,
        parameters: PredictParameters,
        max_pods: int = MAX_PODS,
        training_interval_seconds: float = TRAINING_INTERVAL_SECONDS,
        packages: LoadedPredictors | None = None,
    ) -> None:
        self._parameters = parameters
        self._next_parameters = parameters
        self._new_models = functools.partial(UsageModels, max_pods, training_interval_seconds)
        self._models = self._new_models()
        self._new_calibration = functools.partial(NodeCalibration, training_interval_seconds)
        self.calibration = self._new_calibration()
        self.packages = packages if packages is not None else LoadedPredictors()
        self.starts = PodStarts()
        self.sizes = PodSizes()

    def configure(self, parameters: PredictParameters) -> None:
        """Use other parameters from the next training on."""
        self._next_parameters = parameters

    def train(
        self, now_seconds: float, samples: Mapping[SeriesKey, UsageSample], boot_seconds: float | None = None
    ) -> TrainingRound:
        """Add one sample per series: the p90 of its last 30 s. NaN marks a resource without a sample.

        See `UsageModels.train` for `boot_seconds`.
        """
        self._parameters = self._next_parameters
        self.starts.begin_again(self._models, self._parameters.cold_start_period_seconds)
        half_lives = {
            Resource.CPU: self._parameters.cpu_half_life_seconds,
            Resource.MEMORY: self._parameters.memory_half_life_seconds,
        }
        done = self._models.train(now_seconds, samples, half_lives, boot_seconds)
        if done.clock_step_seconds:
            self.calibration.shift_clock(done.clock_step_seconds)
        return done

    def calibrate(
        self,
        now_seconds: float,
        pods: Iterable[ChargedPod],
        capacity: WholeAmounts | None,
        *,
        unmeasured: Container[str] = (),
        capped: Collection[Resource] = (),
    ) -> None:
        """Record usage for calibrated peaks, and begin their next forecast where one is due. Follows a training.

        See `predict` for the arguments; the usage of the resources in `capped` was held down.
        """
        if capacity is None or not all(capacity):
            return
        parameters = self._parameters
        prod_pods = allocation.charged_to_prod(pods)
        keys = [UNRESERVED_SYSTEM, *map(_pod_key, prod_pods)]
        usage = {resource: self._models.newest_values(resource, keys, of_last_training=True) for resource in RESOURCES}
        unit = {resource: _in_cores_or_bytes(capacity, resource) for resource in RESOURCES}
        self.calibration.begin_again(self.starts.begun_again)
        horizon, target = parameters.horizon_seconds, parameters.violation_target_percent
        self.calibration.tick(
            now_seconds, keys, usage, capacity=unit, horizon_seconds=horizon, target_percent=target, capped=capped
        )
        idle = [resource for resource, calibration in self.calibration.resources.items() if calibration.watched is None]
        if idle:
            warm, cold = self._warm_and_cold(prod_pods, parameters.cold_start_period_seconds, unmeasured)
            added = self.sizes.added(warm, self._models, parameters.cold_start_period_seconds)
            proven = [pod for pod in warm if pod.uid not in added]
            for resource in idle:
                load = self._prod_load(now_seconds, resource, warm, cold, capacity=capacity, parameters=parameters)
                if (calibrated := self._calibrated(load, proven, parameters.n)) is not None:
                    self.calibration.resources[resource].watch(calibrated.load)

    def predict(
        self,
        now_seconds: float,
        pods: Iterable[ChargedPod],
        allocatable: WholeAmounts | None,
        parameters: PredictParameters | None = None,
        capacity: WholeAmounts | None = None,
        *,
        unmeasured: Container[str] = (),
    ) -> Prediction | NoPrediction:
        """Predict for the pods that are bound to the node now.

        `allocatable` and `capacity` are the node's own for native cpu and memory, None while unknown; no peak exceeds
        the capacity. `parameters` replace those in force, for a comparison: the models do not depend on the predictor.
        `unmeasured` are UIDs of pods whose usage is part of the system's: they are cold, whatever was recorded before.
        The parameters of the result name the predictor that answered: n-sigma-v2 for one that is switched off.
        """
        policies = [parameters or self._parameters]
        return self.predict_each(now_seconds, pods, allocatable, policies, capacity, unmeasured=unmeasured)[0]

    def predict_each(
        self,
        now_seconds: float,
        pods: Iterable[ChargedPod],
        allocatable: WholeAmounts | None,
        policies: Sequence[PredictParameters],
        capacity: WholeAmounts | None = None,
        *,
        unmeasured: Container[str] = (),
    ) -> list[Prediction | NoPrediction]:
        """Return what `predict` returns for each policy; what does not depend on the predictor is computed once."""
        instant = Instant(now_seconds, list(pods), allocatable, capacity, unmeasured)
        return [self._predict(instant, policy) for policy in policies]

    def _predict(self, instant: Instant, parameters: PredictParameters) -> Prediction | NoPrediction:
        parameters = self._answering(parameters)
        if instant.allocatable is None:
            return NoPrediction("the node's allocatable is not known yet", Cause.ALLOCATABLE_UNKNOWN)
        prod = [class_series.PROD]
        since_seconds = float(self._models.first_seconds(prod)[0]) if class_series.PROD in self._models else math.nan
        if math.isnan(since_seconds):
            return NoPrediction("the Prod class has no sample yet")
        loads = self._loads(instant, parameters)
        predicted: dict[Resource, Peak] = {}
        for resource, load in loads.by_resource.items():
            result = self._peak(instant.now_seconds, load, loads.warm, parameters)
            if isinstance(result, Peak) and result.peak < load.usage:
                result = dataclasses.replace(result, peak=min(load.usage, load.capacity))
            if self._answering(parameters) is not parameters:  # this call has switched it off
                return self._predict(instant, parameters)
            if isinstance(result, NoPrediction):
                return result
            predicted[resource] = result
        if parameters.n not in instant.node_peaks:
            instant.node_peaks[parameters.n] = self._node_peaks(instant, parameters.n)
        peak = allocation.whole_peak(predicted[Resource.CPU].peak, predicted[Resource.MEMORY].peak)
        return Prediction(
            parameters=parameters,
            since_seconds=since_seconds,
            warm_pods=len(loads.warm),
            cold_pods=loads.cold_pods,
            node=instant.node_peaks[parameters.n],
            prod=predicted,
            prod_peak=peak,
            prod_allocated=instant.requested,
            prod_reclaimable=allocation.prod_reclaimable(instant.requested, peak, instant.allocatable),
        )

    def inform_packages(
        self,
        now_seconds: float,
        pods: Iterable[ChargedPod],
        capacity: WholeAmounts | None,
        names: Collection[str],
        *,
        unmeasured: Container[str] = (),
    ) -> None:
        """Pass the load of now to the named predictors of packages that learn. Follows a calibration."""
        if not self.packages:
            return
        parameters = self._parameters
        prod_pods = allocation.charged_to_prod(pods)
        warm, cold = self._warm_and_cold(prod_pods, parameters.cold_start_period_seconds, unmeasured)

        def current_load(resource: Resource) -> Load | None:
            load = self._prod_load(now_seconds, resource, warm, cold, capacity=capacity, parameters=parameters)
            if load.unreserved_system is None:
                return None
            return self._given(now_seconds, load, warm, parameters)

        self.packages.observe(names, current_load)

    def export(self) -> ModelsState:
        """Return a copy of all models, for a checkpoint."""
        return self._models.export()

    def restore(
        self,
        models: ModelsState,
        calibration: NodeCalibrationState | None = None,
        packages: Mapping[str, bytes] | None = None,
    ) -> None:
        """Continue what a checkpoint has, before the first training. Raises ValueError after it."""
        self._models.restore(models)
        if calibration is not None:
            self.calibration.restore(calibration)
        self.packages.restore(packages or {})

    def forget(self) -> None:
        """Discard all models and their history."""
        self._models = self._new_models()
        self.calibration = self._new_calibration()
        self.packages.forget()

    def _answering(self, parameters: PredictParameters) -> PredictParameters:
        name = self.packages.in_force(parameters.predictor)
        return parameters if name == parameters.predictor else parameters.for_predictor(name)

    def _peak(
        self, now_seconds: float, load: ProdLoad, warm: Sequence[ChargedPod], parameters: PredictParameters
    ) -> Peak | NoPrediction:
        name = parameters.predictor
        if name in registry.PREDICTORS:
            return registry.predict(load, parameters)
        if name not in self.packages.by_name:
            return NoPrediction(self.packages.missing(name), Cause.PREDICTOR_MISSING)
        if load.unreserved_system is None:
            return no_sample(load.resource, "unreserved system")
        return self.packages.predict(self._given(now_seconds, load, warm, parameters), parameters)

    def _given(
        self, now_seconds: float, load: ProdLoad, warm: Sequence[ChargedPod], parameters: PredictParameters
    ) -> Load:
        return loaded.package_load(
            now_seconds, load, warm, parameters, models=self._models, calibration=self.calibration
        )

    def _warm_and_cold(
        self, prod_pods: Sequence[ChargedPod], cold_start_period_seconds: float, unmeasured: Container[str]
    ) -> tuple[list[ChargedPod], list[ChargedPod]]:
        """Return warm pods and cold pods. A pod is cold when its own record, not its age, is too short."""
        self.sizes.follow(prod_pods, self._models, self._parameters.cold_start_period_seconds)
        running = [pod for pod in prod_pods if pod.uid not in unmeasured and pod.uid not in self.starts.not_started]
        modelled = [pod for pod in running if _pod_key(pod) in self._models]
        keys = [_pod_key(pod) for pod in modelled]
        is_measured = np.isfinite(self._models.first_seconds(keys))
        long_enough = is_measured & (self._models.recorded_seconds(keys) >= cold_start_period_seconds)
        warm = [pod for pod, is_warm in zip(modelled, long_enough, strict=True) if is_warm]
        warm_uids = {pod.uid for pod in warm}
        return warm, [pod for pod in prod_pods if pod.uid not in warm_uids]

    def _loads(self, instant: Instant, parameters: PredictParameters) -> Loads:
        """Return the loads of both resources; policies of one cold-start period and N share them."""
        key = parameters.cold_start_period_seconds, parameters.n
        if (loads := instant.loads.get(key)) is not None:
            return loads
        now_seconds, capacity = instant.now_seconds, instant.capacity
        warm, cold = self._warm_and_cold(instant.prod_pods, key[0], instant.unmeasured)
        by_resource = {
            resource: self._prod_load(now_seconds, resource, warm, cold, capacity=capacity, parameters=parameters)
            for resource in RESOURCES
        }
        instant.loads[key] = Loads(warm, len(cold), by_resource)
        return instant.loads[key]

    def _prod_load(
        self,
        now_seconds: float,
        resource: Resource,
        warm: Sequence[ChargedPod],
        cold: Sequence[ChargedPod],
        *,
        capacity: WholeAmounts | None,
        parameters: PredictParameters,
    ) -> ProdLoad:
        added = self.sizes.added(warm, self._models, parameters.cold_start_period_seconds).values()
        charged_beside = sum(amounts.in_cores_or_bytes(resource) for amounts in added)
        usage_of_cold = self._models.newest_values(resource, [_pod_key(pod) for pod in cold])
        warm_keys = [_pod_key(pod) for pod in warm]
        load = ProdLoad(
            resource=resource,
            warm_pods=self._models.statistics(resource, warm_keys),
            warm_usage=self._models.newest_values(resource, warm_keys),
            warm_limits=allocation.cpu_limits(warm) if resource is Resource.CPU else math.inf,
            warm_requests=allocation.requested_by(warm).in_cores_or_bytes(resource),
            cold_requests=allocation.charged_while_cold(cold, resource, usage_of_cold) + charged_beside,
            added=charged_beside,
            capacity=_in_cores_or_bytes(capacity, resource),
            prod=self._current(now_seconds, resource, class_series.PROD),
            system=self._current(now_seconds, resource, SYSTEM),
            unreserved_system=self._current(now_seconds, resource, UNRESERVED_SYSTEM),
            prod_and_unreserved_system=self._current(now_seconds, resource, PROD_AND_UNRESERVED_SYSTEM),
        )
        return dataclasses.replace(load, calibrated=functools.cache(lambda: self._calibrated(load, warm, parameters.n)))

    def _calibrated(self, load: ProdLoad, warm_pods: Sequence[ChargedPod], n: float) -> Calibrated | None:
        if load.unreserved_system is None:
            return None
        keys = [UNRESERVED_SYSTEM, *map(_pod_key, warm_pods)]
        series = self._models.statistics(load.resource, keys)
        oldest_seconds = float(np.fmin.reduce(self._models.first_seconds(keys)))
        warm = WarmSeries(keys, series.mean(), series.stdev(), oldest_seconds)
        requests = load.warm_requests + load.cold_requests - load.added + n_sigma.sig(load.unreserved_system, n)
        return self.calibration.calibrated(load.resource, warm, load.cold_requests, requests)

    def _current(self, now_seconds: float, resource: Resource, key: SeriesKey) -> SeriesStatistics | None:
        """Return the statistics of a series, None unless its newest sample is current."""
        if key not in self._models:
            return None
        series = self._models.statistics(resource, [key])
        age_seconds = now_seconds - float(series.bank.last_seconds(series.rows)[0])
        return series if age_seconds <= STALE_SECONDS else None

    def _node_peaks(self, instant: Instant, n: float) -> dict[Resource, NodePeak]:
        now_seconds, peaks = instant.now_seconds, {}
        for resource in RESOURCES:
            node = self._current(now_seconds, resource, NODE)
            system = self._current(now_seconds, resource, SYSTEM)
            if node is None or system is None:
                return {}
            pods = self._models.statistics(resource, self._running_pods(resource, instant.bound))
            peak = n_sigma.everything(node, pods, system, n, _in_cores_or_bytes(instant.capacity, resource))
            peaks[resource] = NodePeak(float(node.mean()[0]), float(node.stdev()[0]), peak)
        return peaks

    def _running_pods(self, resource: Resource, bound: Sequence[ChargedPod]) -> list[SeriesKey]:
        """Return the pods with a model that run: bound and not terminated, or measured last time and not yet listed."""
        terminated = {_pod_key(pod): pod.is_terminated for pod in bound}
        modelled = self._models.pods()
        newest = self._models.last_seconds(modelled) == self._models.trained_seconds
        has_mean = np.isfinite(self._models.statistics(resource, modelled).mean())
        return [
            key
            for key, is_newest, is_known in zip(modelled, newest, has_mean, strict=True)
            if is_known and not terminated.get(key, not is_newest)
        ]


def _in_cores_or_bytes(capacity: WholeAmounts | None, resource: Resource) -> float:
    return math.inf if capacity is None else capacity.in_cores_or_bytes(resource)


def _pod_key(pod: ChargedPod) -> SeriesKey:
    return pod_key(pod.uid)
