"""Recorded usage and requests of the pods of one node, at the steps of a back-test; series placed as pods. No I/O."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.prediction.allocation import ChargedPod, Owner, WholeAmounts
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.samples import Resource

REQUESTS_CORES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class SeriesStay:
    """One stay of a series on a machine, in steps `start` <= step < `end`."""

    series: int
    start: int
    end: int
    workload: int = 0
    """Number of the controller of the pod on this machine; a successor has the same."""


def draw_requests(series_count: int, seed: int) -> list[int]:
    """Draw the cores that each series requests; the traces do not contain them."""
    rng = random.Random(f"requests {seed}")  # noqa: S311  # not a secret
    return [rng.choice(REQUESTS_CORES) for _ in range(series_count)]


_EMPTY = -1
_EMPTY_STEPS = 12


def place(has_value: np.ndarray, slots: int, mean_life_steps: float, rng: random.Random) -> list[SeriesStay]:
    """Return the pods of one machine over all steps; `has_value` (series, steps) is where each series has a value.

    All slots are taken from the beginning. A pod lives for an exponentially distributed time and is replaced in the
    next step by a pod of a series that is not on the machine: the same series twice would peak together, which two pods
    of a real machine do not. A series that returns is a new pod without history. A pod ends where its series has no
    value; a slot for which no series has one stays empty for a while.

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
    return [replace(pod, workload=number) for number, pod in enumerate(placed)]


def _pod(has_value: np.ndarray, series: int, start: int, mean_life_steps: float, rng: random.Random) -> SeriesStay:
    """Return a pod of a series, or an empty slot for a series without a value at the start."""
    steps = has_value.shape[1]
    if series == _EMPTY:
        return SeriesStay(_EMPTY, start, min(start + _EMPTY_STEPS, steps))
    life = max(1, round(rng.expovariate(1 / mean_life_steps)))
    gap = np.argmin(has_value[series, start:]) if not has_value[series, start:].all() else steps - start
    return SeriesStay(series, start, min(start + life, start + int(gap), steps))


GIB: Final = 2**30


@dataclass(frozen=True)
class BoundPod(ChargedPod):
    """A pod bound to a node, as a prediction reads it."""

    uid: str
    priority_class: PriorityClass = PriorityClass.PROD
    cpu_request_millis: int = 1000
    memory_request_bytes: int = GIB
    mid_cpu_request_millis: int = 0
    mid_memory_request_bytes: int = 0
    cpu_limit_millis: int | None = None
    is_admitted: bool = True
    is_terminated: bool = False
    owner: Owner | None = None
    """The controller at the top, by kind and name: series have no UID. None also where owners are not recorded."""


@dataclass(frozen=True, eq=False)
class NodeHistory:
    """All pods of one node over all steps."""

    name: str
    step_seconds: int
    bound: Sequence[BoundPod]
    stays: Sequence[SeriesStay]
    """When each of `bound` runs; `series` is its row in `usage`."""
    usage: Mapping[Resource, FloatArray]
    """(rows, steps) in cores and bytes; NaN where a running pod was not measured."""
    node_usage: Mapping[Resource, FloatArray] | None = None
    """(steps,) of the whole node; without it only the pods use anything."""
    capacity: WholeAmounts | None = None
    """Upper bound of peaks; None: none."""
    allocatable: WholeAmounts | None = None
    resources: tuple[Resource, ...] = (Resource.CPU, Resource.MEMORY)
    """Resources that are recorded; usage of another is a constant."""
    replaced_at: frozenset[int] = frozenset()
    """Steps at which another node takes its place, which knows nothing."""
    warnings: tuple[str, ...] = ()
    """Of the source: the history may be incomplete."""

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(next(iter(self.usage.values())).shape[1])

    def prod(self) -> np.ndarray:
        """Return which of `bound` are charged to Prod, in the order of `bound`."""
        return np.array([pod.priority_class in (PriorityClass.PROD, PriorityClass.NONE) for pod in self.bound], bool)


def nodes_of_one_resource(  # noqa: PLR0917
    name: str,
    pods: Sequence[SeriesStay],
    used: FloatArray,
    requested: Sequence[float],
    step_seconds: int,
    resource: Resource,
) -> NodeHistory:
    """Return a node of Prod pods with usage of one resource, (series, steps) in cores or GiB, and a constant other."""
    is_cpu = resource is Resource.CPU
    bound = []
    for number, pod in enumerate(pods):
        limit, owner = requested[pod.series], Owner(name, "Deployment", str(pod.workload))
        bound.append(
            BoundPod(f"pod-{number}", cpu_request_millis=round(1000 * limit), owner=owner)
            if is_cpu
            else BoundPod(f"pod-{number}", memory_request_bytes=round(limit * GIB), owner=owner)
        )
    usage = {
        Resource.CPU: used if is_cpu else np.ones_like(used),
        Resource.MEMORY: np.full_like(used, GIB) if is_cpu else used * GIB,
    }
    return NodeHistory(name, step_seconds, bound, pods, usage, resources=(resource,))


SHORT_GAP_SECONDS: Final = 3600
"""A shorter gap has the value before it."""


def without_short_gaps(values: np.ndarray, most_steps: int) -> np.ndarray:
    """Fill gaps of at most `most_steps` steps with the value before each."""
    missing = np.isnan(values)
    filled_at = np.where(missing, 0, np.arange(values.shape[1]))
    before = np.maximum.accumulate(filled_at, axis=1)
    filled = np.take_along_axis(values, before, axis=1)
    next_at = np.where(missing, values.shape[1], filled_at)
    after = np.minimum.accumulate(next_at[:, ::-1], axis=1)[:, ::-1]
    is_short = missing & (after - before - 1 <= most_steps) & (after < values.shape[1])
    return np.where(is_short, filled, values)
