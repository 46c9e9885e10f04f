"""Nodes whose every series is driven by hand through a calibration, one sample in 5 minutes."""

from dataclasses import dataclass, field

import numpy as np

from koordlet.prediction.calibration.history import ScoreHistogram
from koordlet.prediction.calibration.resource_calibration import Load, ResourceCalibration
from koordlet.samples import Resource

STEP_SECONDS = 300.0
WARM_SECONDS = 7200.0
DECAY = 2 ** (-STEP_SECONDS / 43_200)
STEPS_A_DAY = 288


def daily_demand(requests, days, seed):
    """Return what each pod would use without a limit, (steps, pods), with a day, and noise that lasts for an hour."""
    rng = np.random.default_rng(seed)
    noise = np.zeros((days * STEPS_A_DAY, len(requests)))
    for step in range(1, len(noise)):
        noise[step] = 0.9 * noise[step - 1] + 0.12 * rng.normal(size=len(requests))
    hour = np.arange(len(noise))[:, np.newaxis] / STEPS_A_DAY * 2 * np.pi
    return requests * 0.12 * (1 + 0.5 * np.sin(hour + rng.uniform(0, 1, len(requests)))) * np.exp(noise)


@dataclass
class Node:
    """A calibration with decayed moments of each row; amounts are shares of `capacity`."""

    requests: np.ndarray
    capacity: float = 1.0
    resource: Resource = Resource.CPU
    horizon_seconds: float = 3600.0
    seconds: float = 1.7e9
    calibration: ResourceCalibration = field(init=False)

    def __post_init__(self):
        rows = len(self.requests)
        self.calibration = ResourceCalibration(ScoreHistogram.empty(self.resource, self.horizon_seconds))
        self.requests = np.asarray(self.requests, float) / self.capacity
        self.moments = np.zeros((3, rows))
        self.of_sum = np.zeros(3)
        self.first = np.full(rows, np.nan)

    def replace(self, rows):
        """Put a new pod into each row."""
        rows = np.asarray(rows, int)
        self.calibration.clear(rows)
        self.moments[:, rows] = 0
        self.first[rows] = np.nan

    def step(self, usage, **options):
        """Record one sample of every row and begin the next forecast where one is due."""
        self.seconds += STEP_SECONDS
        usage = np.asarray(usage, float) / self.capacity
        rows = np.arange(len(usage))
        self.first = np.fmin(self.first, self.seconds)
        self.moments = _added(self.moments, usage)
        self.of_sum = _added(self.of_sum, usage.sum())
        self.calibration.ensure_rows(len(rows))
        self.calibration.tick(self.seconds, rows, usage, target_share=0.01, **options)
        if self.calibration.watched is None:
            self.calibration.watch(self.load())

    def load(self):
        warm = self.seconds - self.first >= WARM_SECONDS
        weight, mean, spread = self.moments[:, warm]
        return Load(
            warm_rows=np.flatnonzero(warm),
            warm_mean=mean,
            warm_stdev=np.sqrt(spread / np.maximum(weight, 1)),
            oldest_seconds=float(np.min(self.first)),
            cold=float(self.requests[~warm].sum()),
            requests=float(self.requests.sum()),
        )

    def n_sigma(self):
        load = self.load()
        weight, mean, spread = self.of_sum
        of_class = mean + 5 * np.sqrt(spread / weight)
        return min(max(of_class, (load.warm_mean + 5 * load.warm_stdev).sum()) + load.cold, load.requests)

    def peak(self, target_share=0.01):
        """Return the peak in the unit of the requests."""
        return self.calibration.peak(self.load(), self.n_sigma(), target_share) * self.capacity


def _added(moments, value):
    weight, mean, spread = moments
    weight = weight * DECAY + 1
    delta = value - mean
    new_mean = mean + delta / weight
    return np.array([weight, new_mean, spread * DECAY + delta * (value - new_mean)])
