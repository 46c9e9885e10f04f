"""Place pods on many machines from a seed, and replay them in one process for each core."""

import dataclasses
import functools
import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from benchmarks.backtest import reference
from benchmarks.backtest.replay import replay
from koordctl.backtest import node_history
from koordctl.backtest.node_history import SeriesStay
from koordctl.backtest.sources import Traces
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import Resource

Result = TypeVar("Result")

HORIZON_HOURS = 24.0
LONGEST_CALIBRATED_SECONDS = 10_800


@dataclass(frozen=True, slots=True)
class Setting:
    """A cell and the times of its predictions. The last prediction is made one horizon before the end of the trace."""

    machines: int
    slots: int
    mean_life_days: float
    first_prediction_day: float
    interval_hours: float = 1.0
    seed: int = 1
    horizon_hours: float = HORIZON_HOURS
    resource: Resource = Resource.CPU


@dataclass(frozen=True, eq=False)
class CellReplay:
    """Replays of all machines: `peaks` is (policies, machines, times), the others (machines, times); cores or GiB."""

    peaks: np.ndarray
    oracle: np.ndarray
    requests: np.ndarray
    usage: np.ndarray


@dataclass(frozen=True, eq=False)
class Cell:
    """Pods on machines, and the times of the predictions."""

    machines: Sequence[Sequence[SeriesStay]]
    used: np.ndarray
    """(series, steps) in cores or GiB."""
    requested: Sequence[float]
    predict_at: range
    horizon_steps: int
    horizon_seconds: int
    """Of `calibrated`: at most what it accepts."""
    step_seconds: int
    resource: Resource


def _place(traces: Traces, setting: Setting) -> Cell:
    """Place the series of `traces` on machines. Raises ValueError for traces that are too few or too short."""
    series_count, steps = traces.shares.shape
    steps_a_day = 86_400 / traces.step_seconds
    horizon_steps = round(setting.horizon_hours / 24 * steps_a_day)
    first, interval = (
        round(setting.first_prediction_day * steps_a_day),
        round(setting.interval_hours / 24 * steps_a_day),
    )
    if min(horizon_steps, interval) < 1:
        raise ValueError(
            f"one value in {traces.step_seconds} s: want at least one in the horizon of {setting.horizon_hours:g} h "
            f"and between two predictions"
        )
    predict_at = range(first, steps - horizon_steps, interval)
    if not predict_at:
        raise ValueError(
            f"{steps} values: want more than {first} before the first prediction and {horizon_steps} in the horizon"
        )
    requested = node_history.draw_requests(series_count, setting.seed)
    rng = random.Random(f"placement {setting.seed}")
    known = np.isfinite(traces.shares)
    return Cell(
        machines=[
            node_history.place(known, setting.slots, setting.mean_life_days * steps_a_day, rng)
            for _ in range(setting.machines)
        ],
        used=traces.shares * np.array(requested)[:, np.newaxis],
        requested=requested,
        predict_at=predict_at,
        horizon_steps=horizon_steps,
        horizon_seconds=min(round(3600 * setting.horizon_hours), LONGEST_CALIBRATED_SECONDS),
        step_seconds=traces.step_seconds,
        resource=setting.resource,
    )


def replay_cell(
    traces: Traces, setting: Setting, policies: Sequence[PredictParameters], processes: int | None = None
) -> CellReplay:
    """Place the series of `traces` on machines, and predict each by every policy, for the horizon of the setting.

    Raises ValueError for traces that are too few or too short.
    """
    cell = _place(traces, setting)
    work = functools.partial(
        replay,
        used=cell.used,
        requested=cell.requested,
        policies=[dataclasses.replace(each, horizon_seconds=cell.horizon_seconds) for each in policies],
        predict_at=cell.predict_at,
        horizon_steps=cell.horizon_steps,
        step_seconds=cell.step_seconds,
        resource=cell.resource,
    )
    found = _on_every_core(work, cell.machines, processes)
    return CellReplay(
        peaks=np.stack([each.peaks for each in found], axis=1),
        oracle=np.stack([each.oracle for each in found]),
        requests=np.stack([each.requests for each in found]),
        usage=np.stack([each.usage for each in found]),
    )


def refer_cell(
    traces: Traces, setting: Setting, target_shares: Sequence[float], processes: int | None = None
) -> np.ndarray:
    """Return the peaks of the reference on the same machines, (targets, machines, times), at most the requests."""
    cell = _place(traces, setting)
    work = functools.partial(
        reference.peaks,
        used=cell.used,
        requested=cell.requested,
        predict_at=cell.predict_at,
        step_seconds=cell.step_seconds,
        horizon_seconds=cell.horizon_seconds,
        resource=cell.resource,
        target_shares=target_shares,
    )
    return np.stack(_on_every_core(work, cell.machines, processes), axis=1)


def _on_every_core(
    work: Callable[[Sequence[SeriesStay]], Result],
    machines: Sequence[Sequence[SeriesStay]],
    processes: int | None = None,
) -> list[Result]:
    processes = processes or os.cpu_count() or 1
    if processes == 1:
        return [work(machine) for machine in machines]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(work, machines))
