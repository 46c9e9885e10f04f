"""Replay a machine of a trace by the replay of `koordctl backtest`, in cores or GiB.

All pods are Prod. Only pods run, so the system uses nothing and nothing is reserved for it. A trace is of one resource:
every pod has a constant usage of the other, and its predictions are ignored.
"""

from dataclasses import dataclass

import numpy as np

from koordctl.backtest import node_history
from koordctl.backtest import replay as node_replay
from koordlet.prediction.packages import installed
from koordlet.prediction.predictors import registry
from koordlet.samples import Resource

UNITS = {Resource.CPU: 1.0, Resource.MEMORY: float(node_history.GIB)}
"""A trace is in cores or GiB."""


class Unanswered(Exception):
    """A predictor had no prediction where the back-test expects one; the text names the predictor and the time."""


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
    node = node_history.nodes_of_one_resource("machine", pods, used, requested, step_seconds, resource)
    needs_packages = any(each.predictor not in registry.PREDICTORS for each in policies)
    packages = installed.load("back-test") if needs_packages else None
    result = node_replay.replay(node, policies, predict_at, horizon_steps, packages)[resource]
    for row, column in np.argwhere(np.isnan(result.peaks)):
        raise Unanswered(f"{policies[row].predictor} at {predict_at[column] * step_seconds} s: no prediction")
    unit = UNITS[resource]
    return Replay(result.peaks / unit, result.oracle / unit, result.requests / unit, result.usage / unit)
