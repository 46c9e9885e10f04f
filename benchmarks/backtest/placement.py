"""Place series as pods on machines over time, from a seed, so that a run can be repeated.

A machine has a fixed number of slots, all taken from the beginning. A pod lives for an exponentially distributed time
and is replaced in the next step by a pod of a series that is not on the machine: the same series twice on one machine
would peak together, which two pods of a real machine do not. A series that returns is a new pod without history.
"""

import random
from dataclasses import dataclass

REQUESTS_CORES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Pod:
    """One stay of a series on a machine, in steps `start` <= step < `end`."""

    series: int
    start: int
    end: int


def draw_requests(series_count: int, seed: int) -> list[int]:
    """Draw the cores that each series requests; the traces do not contain them."""
    rng = random.Random(f"requests {seed}")
    return [rng.choice(REQUESTS_CORES) for _ in range(series_count)]


def place(series_count: int, steps: int, slots: int, mean_life_steps: float, rng: random.Random) -> list[Pod]:
    """Return the pods of one machine over all steps by slot and start; a last pod ends with the trace (ValueError)."""
    if slots >= series_count:
        raise ValueError(f"{slots} slots and {series_count} series: want more series, one that arrives has to be new")
    waiting = list(range(series_count))
    rng.shuffle(waiting)
    running = [_pod(waiting.pop(), 0, steps, mean_life_steps, rng) for _ in range(slots)]
    placed = list(running)
    while any(pod.end < steps for pod in running):
        slot = min(range(slots), key=lambda each: running[each].end)
        leaving = running[slot]
        arriving = waiting.pop(rng.randrange(len(waiting)))
        waiting.append(leaving.series)
        running[slot] = _pod(arriving, leaving.end, steps, mean_life_steps, rng)
        placed.append(running[slot])
    return placed


def _pod(series: int, start: int, steps: int, mean_life_steps: float, rng: random.Random) -> Pod:
    life = max(1, round(rng.expovariate(1 / mean_life_steps)))
    return Pod(series, start, min(start + life, steps))
