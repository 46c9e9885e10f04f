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

import numpy as np

from koordlet.metric_cache import series as class_series
from koordlet.prediction import allocation
from koordlet.prediction.allocation import ChargedPod, PodSizes, WholeAmounts
from koordlet.prediction.calibration.history import ScoreHistogram
from koordlet.prediction.calibration.node_calibration import NodeCalibration, NodeCalibrationState
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.packages import loaded
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.packages.protocol import Load
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, Instant, NodePeak, NoPrediction, Peak, ProdLoad, no_sample
from koordlet.prediction.predictors import n_sigma, registry
from koordlet.prediction.prod_loads import LENDING, SETTLED, ProdLoads, in_cores_or_bytes
from koordlet.prediction.usage_models import (
    MAX_PODS,
    TRAINING_INTERVAL_SECONDS,
    ModelsState,
    PodStarts,
    TrainingRound,
    UsageModels,
)
from koordlet.prediction.week import Week
from koordlet.prediction.workloads import START_SECONDS, NodeWorkloads
from koordlet.samples import NODE, RESOURCES, SYSTEM, UNRESERVED_SYSTEM, Resource, SeriesKey, UsageSample


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
    borrowed_pods: int = 0
    """Cold pods that are predicted from the history of their workload, and count as neither."""
    lacking_history: Sequence[ChargedPod] = ()
    """All pods for which the history of their workload may be used, the youngest first."""


class PredictionServer:
    """Models of this node's series and the parameters in force. Not thread-safe.

    A caller without an agent passes `pods` to `train`, hands in `prod.history` and `prod.prior` before it trains and
    predicts, and gets what the node adds from `workloads` and `stated_scores`, new where `workloads.stated_seconds` has
    changed.
    """

    def __init__(
        self,
        parameters: PredictParameters,
        max_pods: int = MAX_PODS,
        training_interval_seconds: float = TRAINING_INTERVAL_SECONDS,
        packages: LoadedPredictors | None = None,
    ) -> None:
        self._next_parameters = parameters
        self._training_interval_seconds = training_interval_seconds
        self._new_models = functools.partial(UsageModels, max_pods, training_interval_seconds)
        self._new_calibration = functools.partial(NodeCalibration, training_interval_seconds)
        self.packages = packages if packages is not None else LoadedPredictors()
        self.starts = PodStarts()
        self.sizes = PodSizes()
        self.prod = ProdLoads(parameters, self.starts, self.sizes, training_interval_seconds)
        self._begin()
        self.week = Week()
        self.workloads = NodeWorkloads()
        """What the pods of this node add to the history of their workloads, stated once an hour."""
        self.stated_scores: Mapping[Resource, ScoreHistogram] = {}
        """Scores of the calibrated forecasts at the time of that statement."""
        self._past_start: Sequence[SeriesKey] = ()
        """Pods that were past their start at the newest training."""

    def configure(self, parameters: PredictParameters) -> None:
        """Use other parameters from the next training on."""
        self._next_parameters = parameters

    def train(
        self,
        now_seconds: float,
        samples: Mapping[SeriesKey, UsageSample],
        boot_seconds: float | None = None,
        pods: Iterable[ChargedPod] = (),
    ) -> TrainingRound:
        """Add one sample per series: the p90 of its last 30 s. NaN marks a resource without a sample.

        See `UsageModels.train` for `boot_seconds`. `pods` are those bound to the node; without them nothing is known of
        Prod without its new pods, nor of the week.
        """
        parameters = self.prod.parameters = self._next_parameters
        self.starts.begin_again(self._models, parameters.cold_start_period_seconds)
        self._past_start = self.prod.past_start()
        self._models.forget_samples(self._past_start)
        half_lives = {
            Resource.CPU: parameters.cpu_half_life_seconds,
            Resource.MEMORY: parameters.memory_half_life_seconds,
        }
        if prod_pods := allocation.charged_to_prod(pods):
            settled, requested = self.prod.settled_usage(samples, prod_pods)
            self.week.add(now_seconds, settled, requested)
            if all(map(math.isfinite, settled)):
                samples = {**samples, SETTLED: settled}
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
        parameters = self.prod.parameters
        prod_pods = allocation.charged_to_prod(pods)
        keys = [UNRESERVED_SYSTEM, *(pod.key for pod in prod_pods)]
        usage = {resource: self._models.newest_values(resource, keys, of_last_training=True) for resource in RESOURCES}
        unit = {resource: in_cores_or_bytes(capacity, resource) for resource in RESOURCES}
        self.calibration.begin_again([*self.starts.begun_again, *self._past_start])
        horizon, target = parameters.horizon_seconds, parameters.violation_target_percent
        self.calibration.tick(
            now_seconds,
            keys,
            usage,
            capacity=unit,
            horizon_seconds=horizon,
            target_percent=target,
            basis=f"{parameters.cold_start} after {parameters.cold_start_period_seconds:g} s",
            capped=capped,
        )
        self._note_workloads(now_seconds, prod_pods, usage)
        idle = [resource for resource, calibration in self.calibration.resources.items() if calibration.watched is None]
        if idle:
            divided = self.prod.divided(now_seconds, prod_pods, parameters, unmeasured)
            added = self.sizes.added(divided.predicted, self._models, parameters.cold_start_period_seconds)
            proven = [pod for pod in divided.predicted if pod.uid not in added]
            for resource in idle:
                load = self.prod.prod_load(now_seconds, resource, divided, capacity=capacity, parameters=parameters)
                if (calibrated := self.prod.calibrated(load, proven, divided.lent, parameters)) is not None:
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
        policies = [parameters or self.prod.parameters]
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
        loads = self.prod.of_instant(instant, parameters)
        predicted: dict[Resource, Peak] = {}
        for resource, load in loads.by_resource.items():
            result = self._peak(instant.now_seconds, load, loads.pods.predicted, parameters)
            if isinstance(result, Peak) and result.peak < (least := self._least(instant, load)):
                result = dataclasses.replace(result, peak=min(least, load.capacity))
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
            warm_pods=loads.pods.warm_pods,
            cold_pods=len(loads.pods.cold),
            borrowed_pods=len(loads.pods.lent) + len(loads.pods.starting),
            lacking_history=self.prod.by_age(loads.pods.new) if parameters.cold_start == LENDING else (),
            node=instant.node_peaks[parameters.n],
            prod=predicted,
            prod_peak=peak,
            prod_allocated=instant.requested,
            prod_reclaimable=allocation.prod_reclaimable(instant.requested, peak, instant.allocatable),
        )

    def _least(self, instant: Instant, load: ProdLoad) -> float:
        """Return the least of every peak: the usage now, and that of the same hours of the last days."""
        requested = instant.requested.in_cores_or_bytes(load.resource)
        return max(load.usage, self.week.floor(instant.now_seconds, load.resource, requested))

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
        parameters = self.prod.parameters
        prod_pods = allocation.charged_to_prod(pods)
        divided = self.prod.divided(now_seconds, prod_pods, parameters, unmeasured)

        def current_load(resource: Resource) -> Load | None:
            load = self.prod.prod_load(now_seconds, resource, divided, capacity=capacity, parameters=parameters)
            if load.unreserved_system is None:
                return None
            return self._given(now_seconds, load, divided.predicted, parameters)

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
        self._begin()
        self.week = Week()
        self.packages.forget()

    def _begin(self) -> None:
        self._models, self.calibration = self._new_models(), self._new_calibration()
        self.prod.begin(self._models, self.calibration)

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

    def _note_workloads(
        self, now_seconds: float, prod_pods: Sequence[ChargedPod], usage: Mapping[Resource, FloatArray]
    ) -> None:
        """Add the usage of all pods but those that wait for a container; `usage` is of S and of every Prod pod."""
        away = self.starts.waiting | self.starts.not_started
        places = [index for index, pod in enumerate(prod_pods) if pod.uid not in away and pod.key in self._models]
        pods = [prod_pods[index] for index in places]
        recorded_seconds = self._models.recorded_seconds([pod.key for pod in pods])
        is_warm = recorded_seconds >= self.prod.parameters.cold_start_period_seconds
        chosen = np.flatnonzero(is_warm | (recorded_seconds < START_SECONDS))
        rows = 1 + np.array(places, np.intp)[chosen]
        self.workloads.add(
            now_seconds,
            [(pods[index], bool(is_warm[index])) for index in chosen],
            {resource: values[rows] for resource, values in usage.items()},
            longest_gap_seconds=2 * self._training_interval_seconds,
        )
        if self.workloads.is_due(now_seconds):
            rises = self.calibration.rises([pod.key for pod in pods])
            uids = [pod.uid for pod in prod_pods]
            self.workloads.state(now_seconds, uids, {pod.uid: rise for pod, rise in zip(pods, rises, strict=True)})
            self.stated_scores = self.calibration.scores()

    def _node_peaks(self, instant: Instant, n: float) -> dict[Resource, NodePeak]:
        now_seconds, peaks = instant.now_seconds, {}
        for resource in RESOURCES:
            node = self.prod.current(now_seconds, resource, NODE)
            system = self.prod.current(now_seconds, resource, SYSTEM)
            if node is None or system is None:
                return {}
            pods = self._models.statistics(resource, self._running_pods(resource, instant.bound))
            peak = n_sigma.everything(node, pods, system, n, in_cores_or_bytes(instant.capacity, resource))
            peaks[resource] = NodePeak(float(node.mean()[0]), float(node.stdev()[0]), peak)
        return peaks

    def _running_pods(self, resource: Resource, bound: Sequence[ChargedPod]) -> list[SeriesKey]:
        """Return the pods with a model that run: bound and not terminated, or measured last time and not yet listed."""
        terminated = {pod.key: pod.is_terminated for pod in bound}
        modelled = self._models.pods()
        newest = self._models.last_seconds(modelled) == self._models.trained_seconds
        has_mean = np.isfinite(self._models.statistics(resource, modelled).mean())
        return [
            key
            for key, is_newest, is_known in zip(modelled, newest, has_mean, strict=True)
            if is_known and not terminated.get(key, not is_newest)
        ]
