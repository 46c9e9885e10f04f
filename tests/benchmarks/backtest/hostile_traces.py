"""Traces as nobody wants them, and a day and night of ordinary ones: shares of the request, (series, steps)."""

import numpy as np

STEPS_A_DAY = 288
DAYS, SERIES = 2.5, 6
STEPS = round(DAYS * STEPS_A_DAY)


def ordinary(days=DAYS, series=SERIES, noise=0.12, seed=1):
    """Return usage with a day and a night, and noise that lasts for about an hour."""
    rng = np.random.default_rng(seed)
    steps = round(days * STEPS_A_DAY)
    lasting = np.zeros((series, steps))
    for step in range(1, steps):
        lasting[:, step] = 0.9 * lasting[:, step - 1] + noise * rng.normal(size=series)
    hour = np.arange(steps) / STEPS_A_DAY * 2 * np.pi + rng.uniform(0, 2, (series, 1))
    return np.clip(rng.uniform(0.05, 0.3, (series, 1)) * (1 + 0.5 * np.sin(hour)) * np.exp(lasting), 0, 1)


def _spikes():
    usage = np.full((SERIES, STEPS), 0.02)
    usage[np.random.default_rng(2).random(usage.shape) < 0.003] = 1.0
    return usage


def _first_nothing_then_half():
    usage = np.zeros((SERIES, STEPS))
    usage[:, STEPS // 2 :] = 0.5
    return usage


def _leaks():
    ages = np.arange(STEPS) + np.arange(SERIES)[:, np.newaxis] * 61
    return (ages % 500) / 500 * np.linspace(0.3, 1.0, SERIES)[:, np.newaxis]


def _steps_of_memory():
    usage = ordinary(noise=0.01)
    for row, begin in enumerate(range(100, 700, 100)):
        usage[row, begin : begin + 60] += 0.4
    return np.minimum(usage, 1.0)


def _with_gaps(first, count, series=slice(None)):
    usage = ordinary()
    usage[series, first : first + count] = np.nan
    return usage


def _late():
    usage = ordinary()
    usage[::2, :STEPS_A_DAY] = np.nan
    return usage


FULL = np.ones((SERIES, STEPS))
SETS = {
    "ordinary usage, leaking memory": (ordinary(), _leaks()),
    "spikes, memory in steps": (_spikes(), _steps_of_memory()),
    "first nothing, then half; above the request": (_first_nothing_then_half(), ordinary() * 5),
    "constant": (0.3 * FULL, 0.3 * FULL),
    "nothing and everything": (0 * FULL, FULL),
    "very little": (ordinary() * 1e-3, ordinary() * 1e-3),
    "a gap of all": (_with_gaps(STEPS_A_DAY, 50),) * 2,
    "a gap of half": (_with_gaps(STEPS_A_DAY, 50, slice(0, None, 2)),) * 2,
    "half of them late": (_late(),) * 2,
    "two series": (ordinary(series=2),) * 2,
    "seven hours": (ordinary(days=0.3),) * 2,
}
"""Usage of CPU and of memory of the same pods."""
