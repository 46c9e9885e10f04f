"""Place pods on many machines from a seed, and replay them in one process for each core."""

import dataclasses
import functools
import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks.backtest.replay import replay
from koordctl.backtest import placement
from koordlet.samples import Resource

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


def replay_cell(traces, setting, policies, processes=None):
    """Place the series of `traces` on machines, and predict each by every policy, for the horizon of the setting."""
    series_count, steps = traces.shares.shape
    steps_a_day = 86_400 / traces.step_seconds
    horizon_steps = round(setting.horizon_hours / 24 * steps_a_day)
    first, interval = (
        round(setting.first_prediction_day * steps_a_day),
        round(setting.interval_hours / 24 * steps_a_day),
    )
    horizon_seconds = min(round(3600 * setting.horizon_hours), LONGEST_CALIBRATED_SECONDS)
    requests = placement.draw_requests(series_count, setting.seed)
    rng = random.Random(f"placement {setting.seed}")
    machines = [
        placement.place(np.isfinite(traces.shares), setting.slots, setting.mean_life_days * steps_a_day, rng)
        for _ in range(setting.machines)
    ]
    work = functools.partial(
        replay,
        used=traces.shares * np.array(requests)[:, np.newaxis],
        requested=requests,
        policies=[dataclasses.replace(each, horizon_seconds=horizon_seconds) for each in policies],
        predict_at=range(first, steps - horizon_steps, interval),
        horizon_steps=horizon_steps,
        step_seconds=traces.step_seconds,
        resource=setting.resource,
    )
    found = _each(work, machines, processes or os.cpu_count() or 1)
    return CellReplay(
        peaks=np.stack([each.peaks for each in found], axis=1),
        oracle=np.stack([each.oracle for each in found]),
        requests=np.stack([each.requests for each in found]),
        usage=np.stack([each.usage for each in found]),
    )


def _each(work, machines, processes):
    if processes == 1:
        return [work(machine) for machine in machines]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(work, machines))
