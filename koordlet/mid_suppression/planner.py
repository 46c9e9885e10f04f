"""When which CPU limits of Mid pods change. Pure: clocks are passed in, the caller sends what is planned.

Down, at once, when the usage of the node is above the threshold for 5 s or a Prod pod is short of it, and to Mid CPU
where an author has set a limit above it. Up, by at most a
tenth of the original limit each 30 s, after 30 s of calm. A change of at most a twentieth of the original is left out,
unless it restores it. The rise that a pod may take grows while it waits for its turn in the budget of the node.

    allowed(Mid) = capacity * threshold - usage of Prod - max(usage of system, reserved) - usage beyond limits
    limit        = ratio * request of mid-cpu, between the floor and the original limit of the container

with the largest ratio for which the limits do not exceed what is allowed. The ratio is one for the whole node, so no
pod pays for another one, except where a floor or a stricter limit of an author holds. Requests are the weights because
schedulers and quotas count them: a limit of mid-cpu may be any number, and reserves nothing.

Usage beyond limits is what a pod uses above the sum of its limits that may be lowered: all usage of one without such
limits, such as a BestEffort pod, and of one whose resize API server or kubelet refuse what is above the refused limit.
Mid pods pay for it, Prod not.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from api_types.mid_pods.cpu_limits import MidContainer, ResizablePod
from component_base.rate_limits import SlidingWindow
from koordlet.cluster.pods import PodOnNode
from koordlet.mid_suppression.node_usage import CoresByPart, RecentUsage
from koordlet.samples import SeriesKey, UsageSample, pod_key

CALM_SECONDS: Final = 30.0
STEP_SECONDS: Final = 30.0
STEP_PERCENT: Final = 10
DEAD_BAND_PERCENT: Final = 5
POD_SECONDS: Final = 10.0
"""Time between two patches of a pod."""
BLIND_SECONDS: Final = 300.0
"""Time without data after which limits rise."""
SETTLED_SECONDS: Final = 8.0
"""Time after which the kubelet has set a new limit, and usage is within it."""
BUDGET_SECONDS: Final = 60.0
"""In this time each Mid pod of the node may be patched 2.5 times: Prod grows into what Mid gives back, so most are
lowered twice. Pods that were patched within it wait for the others, so those whose limits rise again and again by
another writer leave a turn to all."""
LEAST_PATCHES: Final = 20
"""Patches in that time on a node with few Mid pods."""
LEAST_RISES: Final = 10
"""Of those, patches that raise limits, on larger nodes half of the pods: the others are kept for a Prod pod that needs
its CPU back."""
MOST_AT_ONCE: Final = 10
"""Most patches of a plan, which is made once a second."""
LONGEST_BACKOFF_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class NodeCpu:
    """What is known of the node. Amounts are in millicores and cores."""

    capacity_millis: int
    reserved_cores: float
    is_prod_short: bool = False
    """Whether a Prod pod is throttled or waits for a CPU."""


@dataclass(frozen=True, slots=True)
class Change:
    """New limits of containers of one pod, in millicores, by their keys."""

    pod: PodOnNode
    limits: Mapping[str, int]
    is_lowering: bool


@dataclass(slots=True)
class _PodState:
    """History of one pod."""

    patched_at: float = -math.inf
    sent_version: str = ""
    """Version of the pod that the last successful patch changed: until a newer one is seen, the pod is out of date."""
    failures: int = 0
    retry_at: float = -math.inf
    may_rise_since: float | None = None
    """Time since which its turn is all that it waits for to rise."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Limits that the API server refused last, by the keys of containers."""
    limits_millis: int | None = None
    """Sum of the limits that may be lowered, or that were refused."""
    limited_since: float = -math.inf
    beyond_limits_cores: float = 0.0
    """Usage above them, as of the last time at which they were settled."""


@dataclass(frozen=True, slots=True)
class _Goal:
    """Limits to reach, and in which direction."""

    allowed_millis: int | None
    """CPU of all Mid pods; None for the originals."""
    may_lower: bool = False
    rises_since: float | None = None
    """Time from which 30 s have to pass before the first step upwards, None where limits may not rise."""
    is_off: bool = False
    """Whether suppression is off, so nothing has to be kept for a Prod pod that needs its CPU back."""


@dataclass(slots=True)
class Planner:
    """State of one node. Times are of a monotonic clock."""

    started_at: float
    recent: RecentUsage = field(default_factory=RecentUsage)
    usage: CoresByPart | None = None
    """Mean usage that decides; None while it is unknown."""
    is_busy: bool = False
    """Whether the node's usage is above the threshold."""
    allowed_millis: int | None = None
    _known_at: float = field(init=False)
    _calm_since: float | None = None
    _off_since: float | None = None
    _slow_until: float = -math.inf
    _pods: dict[str, _PodState] = field(default_factory=dict)
    _patches: SlidingWindow = field(default_factory=lambda: SlidingWindow(BUDGET_SECONDS))
    _rises: SlidingWindow = field(default_factory=lambda: SlidingWindow(BUDGET_SECONDS))

    def __post_init__(self) -> None:
        """Start as if data had been known until now."""
        self._known_at = self.started_at

    def plan(self, now: float, threshold_percent: int, node: NodeCpu | None, pods: Sequence[PodOnNode]) -> list[Change]:
        """Return the changes to send now, the most urgent first. `pods` are those whose priority is Mid."""
        for gone in self._pods.keys() - {pod.uid for pod in pods}:
            del self._pods[gone]
        goal = self._goal(now, threshold_percent, node)
        if goal is None or not (goal.may_lower or goal.rises_since is not None):
            for state in self._pods.values():
                state.may_rise_since = None
            return []
        slowness = 2 if now < self._slow_until else 1
        most_patches = max(len(pods) * 5 // 2, LEAST_PATCHES) // slowness
        most_rises = max(len(pods) // 2, LEAST_RISES) // slowness
        room = min(max(most_patches - self._patches.count(now), 0), MOST_AT_ONCE // slowness)
        if not room and goal.rises_since is None:
            return []
        changes = self._changes(now, goal, pods)
        lowering = sorted(
            (change for change in changes if change.is_lowering),
            key=lambda change: (max(self._state(change.pod).patched_at, now - BUDGET_SECONDS), -_difference(change)),
        )[:room]
        rising = sorted(
            (change for change in changes if not change.is_lowering),
            key=lambda change: (self._state(change.pod).patched_at, -_difference(change)),
        )
        room_to_rise = min(room - len(lowering), (most_patches if goal.is_off else most_rises) - self._rises.count(now))
        return [*lowering, *rising[: max(room_to_rise, 0)]]

    def sent(self, now: float, change: Change) -> None:
        """Record that a patch is sent, whatever its outcome."""
        self._patches.add(now)
        if not change.is_lowering:
            self._rises.add(now)
        state = self._state(change.pod)
        state.patched_at, state.may_rise_since = now, None

    def done(self, change: Change) -> None:
        """Record that the API server took a patch."""
        state = self._state(change.pod)
        state.failures, state.refused = 0, {}
        state.sent_version = change.pod.mid.resource_version if change.pod.mid else ""

    def failed(self, now: float, change: Change) -> int:
        """Record that the API server refused a patch of this pod; return how many in a row, of which it counts ten.

        It is tried again after a growing pause.
        """
        state = self._state(change.pod)
        state.retry_at = now + min(POD_SECONDS * 2**state.failures, LONGEST_BACKOFF_SECONDS)
        state.failures, state.refused = min(state.failures + 1, 10), change.limits
        return state.failures

    def slow_down(self, now: float) -> None:
        """Halve the budget for a minute: the API server is busy."""
        self._slow_until = now + BUDGET_SECONDS

    def note_usage(self, now: float, pods: Sequence[PodOnNode], newest: Mapping[SeriesKey, UsageSample]) -> float:
        """Return the CPU in cores that Mid pods use beyond their limits. A new limit counts once it has settled."""
        beyond_limits = 0.0
        for pod in pods:
            state = self._state(pod)
            limits = sum(
                min(container.limit_millis, state.refused.get(container.key, container.limit_millis))
                for container in (pod.mid.containers if pod.mid else ())
            )
            if limits != state.limits_millis:
                state.limited_since = -math.inf if state.limits_millis is None else now
                state.limits_millis = limits
            if now - state.limited_since >= SETTLED_SECONDS:
                used = newest.get(pod_key(pod.uid))
                state.beyond_limits_cores = max(used.cpu_cores - limits / 1000, 0.0) if used else 0.0
            beyond_limits += state.beyond_limits_cores
        return beyond_limits

    def beyond_limits_cores(self, pod: PodOnNode) -> float:
        """Return the CPU that a Mid pod uses beyond its limits, in cores."""
        return self._state(pod).beyond_limits_cores

    def _state(self, pod: PodOnNode) -> _PodState:
        if (state := self._pods.get(pod.uid)) is None:
            state = self._pods[pod.uid] = _PodState()
        return state

    def _goal(self, now: float, threshold_percent: int, node: NodeCpu | None) -> _Goal | None:
        self.usage = self.recent.mean(now)
        self.allowed_millis = None
        if threshold_percent == 0:
            self.is_busy, self._calm_since, self._known_at = False, None, now
            if self._off_since is None:
                self._off_since = now
            return _Goal(None, rises_since=self._off_since, is_off=True)
        self._off_since = None
        if self.usage is None or node is None:
            self.is_busy, self._calm_since = False, None
            blind = now - self._known_at >= BLIND_SECONDS
            return _Goal(None, rises_since=self._known_at + BLIND_SECONDS - STEP_SECONDS) if blind else None
        self._known_at = now
        self.is_busy = self.recent.is_busy(now)
        if self.is_busy:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        self.allowed_millis = allowed_millis(
            node.capacity_millis,
            threshold_percent,
            prod_cores=self.usage.prod,
            system_cores=self.usage.system,
            reserved_cores=node.reserved_cores,
            beyond_limits_cores=self.usage.beyond_limits,
        )
        calm = self._calm_since is not None and now - self._calm_since >= CALM_SECONDS
        return _Goal(
            self.allowed_millis,
            may_lower=self.is_busy or node.is_prod_short,
            rises_since=self._calm_since if calm else None,
        )

    def _changes(self, now: float, goal: _Goal, pods: Sequence[PodOnNode]) -> list[Change]:
        limited = [(pod, container) for pod in pods if pod.mid is not None for container in pod.mid.containers]
        containers = [container for _, container in limited]
        if goal.allowed_millis is None:
            targets = [container.original_millis for container in containers]
        else:
            targets = limits_millis(goal.allowed_millis, containers)
        targets_by_pod: dict[str, dict[str, int]] = collections.defaultdict(dict)
        for (pod, container), limit in zip(limited, targets, strict=True):
            targets_by_pod[pod.uid][container.key] = limit
        return [
            change
            for pod in pods
            if pod.mid is not None and self._is_ready(now, pod, pod.mid)
            for change in self._change(now, goal, pod, targets_by_pod[pod.uid])
        ]

    def _is_ready(self, now: float, pod: PodOnNode, mid: ResizablePod) -> bool:
        state = self._state(pod)
        return (
            bool(mid.containers)
            and now - state.patched_at >= POD_SECONDS
            and now >= state.retry_at
            and state.sent_version != mid.resource_version
        )

    def _change(self, now: float, goal: _Goal, pod: PodOnNode, targets: Mapping[str, int]) -> Iterator[Change]:
        assert pod.mid is not None
        if goal.allowed_millis is not None:
            lower = {
                container.key: limit
                for container in pod.mid.containers
                if (limit := targets[container.key] if goal.may_lower else container.original_millis)
                < container.limit_millis
            }
            if any(
                _is_felt(container, lower.get(container.key, container.limit_millis))
                for container in pod.mid.containers
            ):
                yield Change(pod, lower, is_lowering=True)
                return
        state = self._state(pod)
        if goal.rises_since is None or now - max(goal.rises_since, state.patched_at) < STEP_SECONDS:
            state.may_rise_since = None
            return
        since = now if state.may_rise_since is None else state.may_rise_since
        steps = 1 + int((now - since) / STEP_SECONDS)
        higher = {
            container.key: limit
            for container in pod.mid.containers
            if (limit := _raised(container, steps, targets[container.key])) > container.limit_millis
            and (_is_felt(container, limit) or limit == container.original_millis)
        }
        state.may_rise_since = since if higher else None
        if higher:
            yield Change(pod, higher, is_lowering=False)


def _is_felt(container: MidContainer, limit_millis: int) -> bool:
    """Return whether a change is outside the dead band."""
    return abs(limit_millis - container.limit_millis) * 100 > DEAD_BAND_PERCENT * container.original_millis


def _raised(container: MidContainer, steps: int, most_millis: int) -> int:
    rise = math.ceil(container.original_millis * STEP_PERCENT / 100) * steps
    return min(container.limit_millis + rise, most_millis)


def _difference(change: Change) -> int:
    """Return how far the limits move in all, in millicores."""
    assert change.pod.mid is not None
    return sum(
        abs(change.limits[container.key] - container.limit_millis)
        for container in change.pod.mid.containers
        if container.key in change.limits
    )


def allowed_millis(
    capacity_millis: int,
    threshold_percent: int,
    *,
    prod_cores: float,
    system_cores: float,
    reserved_cores: float,
    beyond_limits_cores: float = 0.0,
) -> int:
    """Return the CPU that Mid pods may use within their limits, in millicores, at least 0."""
    taken = prod_cores + max(system_cores, reserved_cores) + beyond_limits_cores
    return max(int(capacity_millis * threshold_percent / 100 - taken * 1000), 0)


def limits_millis(allowed: int, containers: Sequence[MidContainer]) -> list[int]:
    """Return the limit of each container, in millicores. Their sum is at most `allowed`, unless floors exceed it."""
    full = [container.original_millis for container in containers]
    if sum(full) <= allowed:
        return full
    rest, weights = allowed - sum(container.floor_millis for container in containers), 0
    for ratio, freed, weight in sorted(_bends(containers)):
        if weights * ratio > rest:
            break
        rest, weights = rest + freed, weights + weight
    return [_limit(container, rest, weights) for container in containers]


def _bends(containers: Sequence[MidContainer]) -> Iterator[tuple[float, int, int]]:
    """Yield each ratio at which a container leaves its floor or reaches its original.

    With it the amount that no longer is, or now is, taken whatever the ratio, and the weight that begins or ends to
    count.
    """
    for container in containers:
        weight = _weight(container)
        yield container.floor_millis / weight, container.floor_millis, weight
        yield container.original_millis / weight, -container.original_millis, -weight


def _limit(container: MidContainer, rest: int, weights: int) -> int:
    """Return the limit at the ratio `left / weights`; without weights no container is above its floor."""
    share = _weight(container) * rest // weights if weights else 0
    return max(min(share, container.original_millis), container.floor_millis)


def _weight(container: MidContainer) -> int:
    return max(container.requested_millis, 1)
