"""Replay one machine step by step through the prediction of the agent, as on a node.

All pods are Prod. Only pods run, so the system uses nothing and nothing is reserved for it. A trace is of one resource:
every pod has a constant usage of the other, and its predictions are ignored.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.backtest import oracle
from koordlet.metric_cache import series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.packages import installed
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.samples import Resource, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod as BoundPod

START_SECONDS = 1.7e9
GIB = 2**30
UNITS = {Resource.CPU: 1.0, Resource.MEMORY: float(GIB)}
"""A trace is in cores or GiB."""
NOTHING = UsageSample(0.0, 0.0)
NOTHING_RESERVED = Reserved(0.0, 0.0)
ALLOCATABLE = WholeAmounts(10**9, 2**50)  # bounds Mid resources, not the peak


class Unanswered(Exception):
    """A predictor had no prediction where the back-test expects one; the text names the predictor, time and reason."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Predictions and results of one machine; `peaks` is (policies, times), the others (times,)."""

    peaks: np.ndarray
    """As predicted, neither limited by the requests nor raised to the usage."""
    oracle: np.ndarray
    requests: np.ndarray
    usage: np.ndarray
    """Requests at the time of the prediction."""


def replay(pods, used, requested, policies, predict_at, horizon_steps, step_seconds, resource=Resource.CPU):
    """Train on every step up to the last prediction, predict by each policy at the steps of `predict_at`.

    `used` is (series, steps) in cores or GiB, without gaps while a pod runs; `requested` has one element a series;
    `policies` are PredictParameters of the same half-lives and the same horizon, so that one history serves them all.
    """
    if len({(each.cpu_half_life_seconds, each.memory_half_life_seconds) for each in policies}) != 1:
        raise ValueError("policies of different half-lives need a history each")
    if len({each.horizon_seconds for each in policies}) != 1:
        raise ValueError("policies of different horizons need a calibration each")
    usage = oracle.usage_of_pods(pods, used)
    limits = np.array([requested[pod.series] for pod in pods], float)
    bound = [_bound(f"pod-{number}", limit, resource) for number, limit in enumerate(limits)]
    of_packages = [each.predictor for each in policies if each.predictor not in registry.PREDICTORS]
    packages = installed.load("back-test") if of_packages else None
    server = PredictionServer(policies[0], training_interval_seconds=step_seconds, packages=packages)
    is_calibrated = bool(of_packages) or any(
        each.predictor == "calibrated" or "calibrated" in each.members for each in policies
    )
    unit = WholeAmounts(round(1000 * limits.sum()), round(limits.sum() * GIB))
    wanted = {step: column for column, step in enumerate(predict_at)}
    peaks = np.empty((len(policies), len(wanted)))
    found_oracle, requests, now_used = (np.empty(len(wanted)) for _ in range(3))
    for step in range(max(wanted) + 1):
        running = oracle.running_at(pods, step)
        here = [bound[number] for number in np.flatnonzero(running)]
        at_seconds = START_SECONDS + step * step_seconds
        server.train(at_seconds, measured(at_seconds, here, usage[running, step], resource))
        if is_calibrated:
            server.calibrate(at_seconds, here, unit)
        server.inform_packages(at_seconds, here, None, of_packages)
        if step in wanted:
            column = wanted[step]
            peaks[:, column] = [_peak(server, policy, at_seconds, here, resource) for policy in policies]
            found_oracle[column] = oracle.peak(usage, limits, running, step, horizon_steps)
            requests[column] = limits[running].sum()
            now_used[column] = usage[running, step].sum()
    return Replay(peaks, found_oracle, requests, now_used)


def measured(at_seconds, pods, used, resource=Resource.CPU):
    """Return the series of one step, as the agent derives them from its snapshot of the node."""
    of_pods = {pod.uid: _sample(float(each), resource) for pod, each in zip(pods, used, strict=True)}
    node = UsageSample(*np.sum([NOTHING, *of_pods.values()], axis=0).tolist())
    return series.series_of(Snapshot(at_seconds, node, NOTHING, of_pods), {}, NOTHING_RESERVED)


def _sample(used, resource):
    return UsageSample(used, float(GIB)) if resource is Resource.CPU else UsageSample(1.0, used * GIB)


def _bound(uid, requested, resource):
    if resource is Resource.CPU:
        return BoundPod(uid, cpu_request_millis=round(1000 * requested))
    return BoundPod(uid, memory_request_bytes=round(requested * GIB))


def _peak(server, policy, at_seconds, pods, resource):
    answer = server.predict(at_seconds, pods, ALLOCATABLE, policy)
    if not isinstance(answer, Prediction):
        raise Unanswered(f"{policy.predictor} at {at_seconds - START_SECONDS:.0f} s: {answer.reason}")
    if answer.parameters.predictor != policy.predictor:
        raise Unanswered(f"{server.packages.problem_in_force(policy.predictor)}")
    return answer.prod[resource].peak / UNITS[resource]
