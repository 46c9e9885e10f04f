"""Place series as pods on machines over time, from a seed, so that a run can be repeated.

A machine has a fixed number of slots, all taken from the beginning. A pod lives for an exponentially distributed time
and is replaced in the next step by a pod of a series that is not on the machine: the same series twice on one machine
would peak together, which two pods of a real machine do not. A series that returns is a new pod without history. A pod
ends where its series has no value; a slot for which no series has one stays empty for a while.
"""

import random
from dataclasses import dataclass

import numpy as np

REQUESTS_CORES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class SeriesStay:
    """One stay of a series on a machine, in steps `start` <= step < `end`."""

    series: int
    start: int
    end: int


def draw_requests(series_count: int, seed: int) -> list[int]:
    """Draw the cores that each series requests; the traces do not contain them."""
    rng = random.Random(f"requests {seed}")  # noqa: S311  # not a secret
    return [rng.choice(REQUESTS_CORES) for _ in range(series_count)]


_EMPTY = -1
_EMPTY_STEPS = 12


def place(has_value: np.ndarray, slots: int, mean_life_steps: float, rng: random.Random) -> list[SeriesStay]:
    """Return the pods of one machine over all steps; `has_value` (series, steps) is where each series has a value.

    Raises ValueError where there are not more series than slots.
    """
    series_count, steps = has_value.shape
    if slots >= series_count:
        raise ValueError(f"{slots} slots and {series_count} series: want more series, one that arrives has to be new")
    waiting = list(range(series_count))
    rng.shuffle(waiting)
    running = []
    for _ in range(slots):
        with_value = [index for index, series in enumerate(waiting) if has_value[series, 0]]
        running.append(_pod(has_value, waiting.pop(with_value[-1]) if with_value else _EMPTY, 0, mean_life_steps, rng))
    placed = [pod for pod in running if pod.series != _EMPTY]
    while any(pod.end < steps for pod in running):
        slot = min(range(slots), key=lambda number: running[number].end)
        leaving = running[slot]
        with_value = [index for index, series in enumerate(waiting) if has_value[series, leaving.end]]
        arriving = waiting.pop(with_value[rng.randrange(len(with_value))]) if with_value else _EMPTY
        if leaving.series != _EMPTY:
            waiting.append(leaving.series)
        running[slot] = _pod(has_value, arriving, leaving.end, mean_life_steps, rng)
        if arriving != _EMPTY:
            placed.append(running[slot])
    return placed


def _pod(has_value: np.ndarray, series: int, start: int, mean_life_steps: float, rng: random.Random) -> SeriesStay:
    """Return a pod of a series, or an empty slot for a series without a value at the start."""
    steps = has_value.shape[1]
    if series == _EMPTY:
        return SeriesStay(_EMPTY, start, min(start + _EMPTY_STEPS, steps))
    life = max(1, round(rng.expovariate(1 / mean_life_steps)))
    gap = np.argmin(has_value[series, start:]) if not has_value[series, start:].all() else steps - start
    return SeriesStay(series, start, min(start + life, start + int(gap), steps))
