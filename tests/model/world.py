"""The true state of one node: its machine, the pods on it, their loads, and what each tick measured."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

CPU, MEMORY = "cpu", "memory"
NATIVE = (CPU, MEMORY)
MID = {CPU: "kubernetes.io/mid-cpu", MEMORY: "kubernetes.io/mid-memory"}
PRIORITIES = {"prod": 9500, "mid": 7500, "batch": 5500, "free": 3500, "none": 0}
GIB = 1 << 30
CAPACITY = {CPU: 16_000, MEMORY: 64 * GIB}
ALLOCATABLE = {CPU: 15_000, MEMORY: 60 * GIB}
SYSTEM = (0.4, 1.5 * GIB)
"""Usage of the machine outside of pods."""
_REPORTED_TICKS = 4
"""Ticks that the usage of a report may be from: those of half a minute, and one that was late."""
LASTING_SECONDS = 30.0
"""Time after which the collectors count a pod that cannot be measured as system."""


class Usage(NamedTuple):
    """Usage at one instant."""

    cpu_cores: float
    memory_bytes: float


@dataclass
class Pod:
    """A pod, as its author, the scheduler and the kubelet have made it."""

    name: str
    uid: str
    kind: str
    """Class by its priority: prod, mid, batch, free, none."""
    requests: dict[str, int]
    """In milli-cores and bytes, by the name on the wire."""
    created: float
    load: Callable[[float], float]
    """Share of `demand` in use at a time."""
    demand: tuple[float, float]
    """Largest usage: cores, bytes."""
    cpu_limit: int | None = None
    cgroup: str = ""
    """UID in the name of its cgroup, where it is not the pod's own: of a static pod."""
    node_name: str = ""
    bound_at: float | None = None
    """Time of the binding by a scheduler, or of the creation with a node name."""
    by_scheduler: bool = False
    admitted_at: float | None = None
    ended_at: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the author wrote beside the name."""
    namespace: str = "default"
    form: str = "{}"
    """How its author writes amounts."""
    workload: str = ""
    """Name of the first pod of those that replace one another; empty for a pod that nothing replaces."""
    leaving_at: float | None = None
    """When the kubelet saw that it was evicted."""
    is_trick: bool = False
    """Whether annotations or owners of the pod claim something that is not so."""

    @property
    def cgroup_uid(self) -> str:
        return self.cgroup or self.uid

    def runs(self) -> bool:
        return self.admitted_at is not None and self.ended_at is None

    def holds(self) -> bool:
        """Return whether kube-scheduler counts it on the node."""
        return bool(self.node_name) and self.ended_at is None

    def mid(self, native: str) -> int:
        return self.requests.get(MID[native], 0)


def load_shape(rng: random.Random) -> Callable[[float], float]:
    """Return a load over time: constant, waves of a day, a step, or spikes."""
    kind, phase, level = rng.randrange(4), rng.random(), rng.uniform(0.2, 1.0)
    if kind == 0:
        return lambda _: level
    if kind == 1:
        return lambda t: level * (0.5 + 0.5 * math.sin(2 * math.pi * (t / 3_600 + phase)))
    if kind == 2:
        return lambda t: level if (t / 2_400 + phase) % 1 < 0.5 else level * 0.1
    return lambda t: level if (t / 600 + phase) % 1 < 0.1 else level * 0.2


class Tick(NamedTuple):
    """Usage of one tick: of the node, and by class of the pods that were measured."""

    at: float
    node: Usage
    pods: dict[str, Usage]
    """By UID of the cgroup."""
    kinds: dict[str, str]
    unmeasured: frozenset[str]
    in_system: frozenset[str]
    """Pods that could not be measured for so long that they count as system."""


class World:
    """The node, and every pod that ever was."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        """By name, of those that exist in the API server."""
        self.gone: deque[Pod] = deque(maxlen=100)
        """The last pods that were deleted; they have ended."""
        self.ticks: deque[Tick] = deque(maxlen=180)
        self.noise = 0.0
        """Largest share by which the usage of a pod differs from one tick to the next."""
        self._rng = random.Random(0)
        self.unmeasurable: dict[str, float] = {}
        """UIDs of cgroups that cannot be read now, and since when."""

    def all_pods(self) -> Iterable[Pod]:
        yield from self.pods.values()
        yield from self.gone

    def forget(self, pod: Pod) -> None:
        """Note that a pod is no longer in the API server."""
        del self.pods[pod.name]
        self.gone.append(pod)

    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.runs()]

    def measure(self, at: float) -> Tick:
        """Return what the machine does now: Prod first, and the rest shares what is left."""
        free = [CAPACITY[CPU] / 1000 - SYSTEM[0], CAPACITY[MEMORY] - SYSTEM[1]]
        pods: dict[str, Usage] = {}
        kinds = {}
        order = ("prod", "none", "mid", "batch", "free")
        for pod in sorted(self.running(), key=lambda each: (order.index(each.kind), each.created)):
            share = pod.load(at) * (1 + self.noise * self._rng.uniform(-1, 1))
            limit = math.inf if pod.cpu_limit is None else pod.cpu_limit / 1000
            used = Usage(min(pod.demand[0] * share, limit, free[0]), min(pod.demand[1] * max(share, 0.3), free[1]))
            free[0] -= used.cpu_cores
            free[1] -= used.memory_bytes
            pods[pod.cgroup_uid] = used
            kinds[pod.cgroup_uid] = pod.kind
        node = Usage(
            SYSTEM[0] + math.fsum(each.cpu_cores for each in pods.values()),
            SYSTEM[1] + math.fsum(each.memory_bytes for each in pods.values()),
        )
        lasting = frozenset(uid for uid, since in self.unmeasurable.items() if at - since >= LASTING_SECONDS)
        unmeasured = frozenset(self.unmeasurable) & pods.keys()
        tick = Tick(at, node, pods, kinds, unmeasured - lasting, unmeasured & lasting)
        self.ticks.append(tick)
        return tick

    def unused(self, native: str, *, in_any_tick: bool = False) -> int:
        """Return the largest amount that a report of now may call unused: that of any of the last ticks.

        `in_any_tick`: the clock was set, and samples of the past may have the time of now.
        """
        column = NATIVE.index(native)
        lent = ("mid",) if native == MEMORY else ("mid", "batch", "free")

        def of(tick: Tick) -> int:
            given = math.fsum(usage[column] for uid, usage in tick.pods.items() if tick.kinds[uid] in lent)
            apart = math.fsum(tick.pods[uid][column] for uid in tick.unmeasured | tick.in_system)
            scale = 1000 if native == CPU else 1
            reserved = min((SYSTEM[column] + apart) * scale, CAPACITY[native] - ALLOCATABLE[native])
            return max(ALLOCATABLE[native] - math.floor((tick.node[column] - given) * scale - reserved), 0)

        return max((of(tick) for tick in list(self.ticks)[-_REPORTED_TICKS if not in_any_tick else 0 :]), default=0)

    def mid_held(self, native: str, *, now: float, since: float, bound_before: float = math.inf) -> int:
        """Return the Mid requests of pods that the kubelet had admitted and that ran at any time after `since`.

        Only pods bound before `bound_before` count. It is an upper bound of what anyone may have seen since then.
        """
        return min(
            sum(
                pod.mid(native)
                for pod in self.all_pods()
                if pod.admitted_at is not None
                and pod.admitted_at <= now
                and (pod.ended_at is None or pod.ended_at >= since)
                and (pod.bound_at if pod.bound_at is not None else pod.created) < bound_before
            ),
            CAPACITY[native],
        )
