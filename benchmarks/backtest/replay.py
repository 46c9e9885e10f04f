"""Replay one machine step by step through the prediction of the agent, as on a node.

All pods are Prod. Only pods run, so the system uses nothing and nothing is reserved for it. The traces have no memory:
every pod gets a constant one, and the predictions of memory are ignored.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.backtest import oracle
from benchmarks.backtest.calibrated import CalibratedMachine
from koordlet.metric_cache import series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.prediction.usage_models import UsageModels
from koordlet.samples import Resource, SeriesKind, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod as BoundPod

START_SECONDS = 1.7e9
MEMORY_BYTES = 2.0**30
NOTHING = UsageSample(0.0, 0.0)
NOTHING_RESERVED = Reserved(0.0, 0.0)
ALLOCATABLE = WholeAmounts(10**9, 2**50)  # bounds Mid resources, not the peak

N_SIGMA = PredictParameters(predictor="n-sigma-v2")
HALF_LIFE_SECONDS = {
    Resource.CPU: N_SIGMA.cpu_half_life_seconds,
    Resource.MEMORY: N_SIGMA.memory_half_life_seconds,
}


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


def replay(pods, cores, requests_cores, policies, predict_at, horizon_steps, step_seconds, targets=()):
    """Train on every step up to the last prediction, predict by each policy at the steps of `predict_at`.

    `cores` is (series, steps) without gaps; `requests_cores` has one element a series; `policies` are PredictParameters
    of the same half-lives, so that one history serves them all. `targets` are shares of violations (0..1): the
    calibrated peak of each, for forecasts of `horizon_steps`, follows the peaks of the policies.
    """
    if len({(each.cpu_half_life_seconds, each.memory_half_life_seconds) for each in policies}) != 1:
        raise ValueError("policies of different half-lives need a history each")
    usage = oracle.usage_of_pods(pods, cores)
    limits = np.array([requests_cores[pod.series] for pod in pods], float)
    bound = [
        BoundPod(f"pod-{number}", cpu_request_millis=round(1000 * requests_cores[pod.series]))
        for number, pod in enumerate(pods)
    ]
    server = PredictionServer(policies[0], training_interval_seconds=step_seconds)
    models = UsageModels(training_interval_seconds=step_seconds)
    machine = CalibratedMachine(limits, horizon_steps * step_seconds, models)
    wanted = {step: column for column, step in enumerate(predict_at)}
    peaks = np.empty((len(policies) + len(targets), len(wanted)))
    found_oracle, requests, now_used = (np.empty(len(wanted)) for _ in range(3))
    for step in range(max(wanted) + 1):
        running = oracle.running_at(pods, step)
        here = [bound[number] for number in np.flatnonzero(running)]
        at_seconds = START_SECONDS + step * step_seconds
        samples = measured(at_seconds, here, usage[running, step])
        server.train(at_seconds, samples)
        if targets:
            of_pods = {key: sample for key, sample in samples.items() if key.kind is SeriesKind.POD}
            models.train(at_seconds, of_pods, HALF_LIFE_SECONDS)
            machine.step(at_seconds, np.flatnonzero(running).tolist(), usage[running, step])
        if step in wanted:
            column = wanted[step]
            peaks[: len(policies), column] = [cpu_peak(server, policy, at_seconds, here) for policy in policies]
            if targets:
                n_sigma = cpu_peak(server, N_SIGMA, at_seconds, here)
                peaks[len(policies) :, column] = [machine.peak(n_sigma, target) for target in targets]
            found_oracle[column] = oracle.peak(usage, limits, running, step, horizon_steps)
            requests[column] = limits[running].sum()
            now_used[column] = usage[running, step].sum()
    return Replay(peaks, found_oracle, requests, now_used)


def measured(at_seconds, pods, cores):
    """Return the series of one step, as the agent derives them from its snapshot of the node."""
    of_pods = {pod.uid: UsageSample(float(used), MEMORY_BYTES) for pod, used in zip(pods, cores, strict=True)}
    node = UsageSample(float(cores.sum()), MEMORY_BYTES * len(pods))
    return series.series_of(Snapshot(at_seconds, node, NOTHING, of_pods), {}, NOTHING_RESERVED)


def cpu_peak(server, policy, at_seconds, pods):
    """Predict by one policy. A policy applies from the next training round, so one without samples runs first."""
    server.configure(policy)
    server.train(at_seconds, {})
    answer = server.predict(at_seconds, pods, ALLOCATABLE)
    if not isinstance(answer, Prediction):
        raise Unanswered(f"{policy.predictor} at {at_seconds - START_SECONDS:.0f} s: {answer.reason}")
    return answer.prod[Resource.CPU].peak
