"""Predictors of packages that this agent has: one of them in force, others evaluated, some switched off or refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from api_types.colocation import controller_config
from koordlet.prediction.allocation import ChargedPod
from koordlet.prediction.calibration.node_calibration import NodeCalibration
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.packages.guard import MOST_STATE_BYTES, Failed, GuardedPredictor
from koordlet.prediction.packages.protocol import Load, Series
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction, Peak, ProdLoad
from koordlet.prediction.usage_models import SeriesStatistics, UsageModels
from koordlet.samples import RESOURCES, UNRESERVED_SYSTEM, Resource

FALLBACK: Final = "n-sigma-v2"
"""Predictor that steps in for one that is switched off."""
_INSTALL: Final = "install its package in the agent's image, or name another predictor in colocation-config"


class LoadedPredictors:
    """Predictors by name. `refused` has the names of packages that are not used, each with the reason."""

    def __init__(
        self, node_name: str = "", predictors: Sequence[GuardedPredictor] = (), refused: Mapping[str, str] | None = None
    ) -> None:
        self.node_name = node_name
        self.by_name = {predictor.name: predictor for predictor in predictors}
        self.refused = dict(refused or {})

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def in_force(self, name: str) -> str:
        """Return the predictor that answers for a name: itself, or n-sigma-v2 if it is switched off."""
        predictor = self.by_name.get(name)
        return name if predictor is None or predictor.off_reason is None else FALLBACK

    def evaluated(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the predictors to evaluate; the first of the names is the one in force, or its substitute."""
        first, *others = names
        usable = [name for name in others if self.in_force(name) == name]
        return tuple(dict.fromkeys((self.in_force(first), *usable)))

    def predict(self, load: Load, parameters: PredictParameters) -> Peak | NoPrediction:
        """Return the peak of the predictor in `parameters`, at most capacity, or why there is none. Raises KeyError."""
        name = parameters.predictor
        try:
            answer = self.by_name[name].predict(load)
        except Failed as failed:
            return NoPrediction(f"predictor {name} is switched off: {failed}", Cause.UNUSABLE_ANSWER)
        if isinstance(answer, str):
            return NoPrediction(f"predictor {name}, {load.resource}: {answer}")
        highest = answer * parameters.margin_factor + load.cold_requests
        return Peak(min(highest, load.capacity), load.cold_requests)

    def observe(self, names: Collection[str], current_load: Callable[[Resource], Load | None]) -> None:
        """Pass the load of each resource to those of the named predictors that learn."""
        for predictor in [self.by_name[name] for name in names if name in self.by_name]:
            for resource in RESOURCES:
                if predictor.observes and (load := current_load(resource)) is not None:
                    predictor.observe(load)

    def states(self) -> dict[str, bytes]:
        """Return the states to store; a predictor whose state has no room beside the others is left out."""
        stored: dict[str, bytes] = {}
        room = 4 * MOST_STATE_BYTES
        for name, predictor in self.by_name.items():
            state = predictor.save(min(room, MOST_STATE_BYTES))
            if state is not None:
                stored[name] = state
                room -= len(state)
        return stored

    def restore(self, states: Mapping[str, bytes]) -> None:
        """Load stored states; those of packages that are not installed any more are dropped."""
        for name, predictor in self.by_name.items():
            if name in states:
                predictor.restore(states[name])

    def forget(self) -> None:
        """Discard all states."""
        for predictor in self.by_name.values():
            predictor.forget()

    def missing(self, name: str) -> str:
        """Return the message for a predictor that this agent lacks."""
        refused = f" ({self.refused[name]})" if name in self.refused else ""
        return f"predictor {name} is not installed on node {self.node_name}{refused}: {self.listing()}; {_INSTALL}"

    def listing(self) -> str:
        """Return what is installed, for a message."""
        packages = ", ".join(self.by_name) or "none"
        return f"installed are {', '.join(controller_config.PREDICTOR_NAMES)}; from packages {packages}"

    def problem_in_force(self, name: str) -> str | None:
        """Return why another predictor answers for the one in force; None if none does."""
        predictor = self.by_name.get(name)
        if predictor is None or predictor.off_reason is None:
            return None
        return (
            f"predictor {name} is switched off on node {self.node_name} until the agent restarts: "
            f"{predictor.off_reason}; {FALLBACK} is in force in its place; "
            "fix or remove its package, or name another predictor"
        )

    def evaluation_problems(self, in_force: str, evaluated: Collection[str]) -> list[str]:
        """Return why predictors that are only evaluated are not; the published prediction is that of another one."""
        problems = []
        for name in dict.fromkeys(evaluated):
            predictor = self.by_name.get(name)
            if name == in_force or (predictor is None and name in controller_config.PREDICTOR_NAMES):
                continue
            if predictor is None:
                problems.append(f"{self.missing(name)}, or remove it from evaluatedPredictors")
            elif predictor.off_reason is not None:
                problems.append(
                    f"predictor {name} is switched off on node {self.node_name} until the agent restarts: "
                    f"{predictor.off_reason}; only its evaluation ends; fix or remove its package"
                )
        return problems


def package_load(
    now_seconds: float,
    load: ProdLoad,
    warm_pods: Sequence[ChargedPod],
    parameters: PredictParameters,
    *,
    models: UsageModels,
    calibration: NodeCalibration,
) -> Load:
    """Return what a package is given for one resource. There must be models of S and of every warm pod."""
    resource = load.resource
    keys = [pod.key for pod in warm_pods]
    system = [UNRESERVED_SYSTEM]
    requests = np.array([pod.request(resource) for pod in warm_pods], float)
    return Load(
        resource=resource.value,
        now_seconds=now_seconds,
        horizon_seconds=float(parameters.horizon_seconds),
        violation_target_percent=float(parameters.violation_target_percent),
        capacity=load.capacity,
        pod_uids=tuple(pod.uid for pod in warm_pods),
        pods=series(load.warm_pods, calibration.last_day(resource, keys)),
        pod_requests=read_only(requests),
        pod_limits=read_only(np.broadcast_to(load.warm_limits, len(keys))),
        unreserved_system=series(models.statistics(resource, system), calibration.last_day(resource, system)),
        cold_requests=load.cold_requests,
    )


def series(statistics: SeriesStatistics, ring: FloatArray) -> Series:
    """Return copies of the statistics of some series, and of their day rings, shape (series, 288)."""
    copied = dataclasses.replace(statistics, rows=statistics.rows.copy())

    def percentiles(*percents: float) -> FloatArray:
        return read_only(copied.percentiles([float(percent) for percent in percents]))

    return Series(
        mean=read_only(statistics.mean()),
        stdev=read_only(statistics.stdev()),
        newest=read_only(copied.bank.newest_values(copied.rows)),
        ring=read_only(ring),
        percentiles=percentiles,
    )


def read_only(values: FloatArray) -> FloatArray:
    """Return a copy that cannot be written."""
    copied = np.array(values, float)
    copied.flags.writeable = False
    return copied
