"""Small model of kube-scheduler 1.34: its queue, one attempt after the other, binding, and preemption. Pure.

    attempt     the nominated node alone, then all nodes: requests (NodeResourcesFit), the load plugin, the best score
    PostFilter  for each node with a resolvable rejection: remove the pods of lower priority, filter again, add back as
                many as fit; of the candidates take the one with the least important victims, and nominate it
    queue       by priority, then by time; a refused pod waits for an event, then until the end of its backoff

The load plugin is a `LoadPlugin`: the product, or a plain model of it. Only there the two schedulers differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tests.scheduler_plugin.in_process import scripted_cluster
from tests.scheduler_plugin.in_process.scripted_cluster import STEP_SECONDS, Report, Script, ScriptedPod

_WAKING_ROUNDS = 3
RESOLVABLE, UNRESOLVABLE = "resolvable", "unresolvable"


class LoadPlugin(Protocol):
    """What kube-scheduler calls, and what the API server shows. Times are seconds from the begin of the script."""

    def passes(self, pod: ScriptedPod, node: str) -> bool: ...  # Filter, also of the dry run
    def scores(self, pod: ScriptedPod, nodes: Sequence[str]) -> Mapping[str, int]: ...
    def refused(self, pod: ScriptedPod, nodes: Iterable[str]) -> None: ...
    def reserve(self, pod: ScriptedPod, node: str) -> None: ...
    def unreserve(self, pod: ScriptedPod) -> None: ...

    def clock_moved(self, seconds: float) -> None: ...
    def report_changed(self, report: Report) -> None: ...
    def pod_waits(self, pod: ScriptedPod) -> None: ...
    def pod_bound(self, pod: ScriptedPod, node: str, at: float) -> None: ...
    def pod_gone(self, pod: ScriptedPod) -> None: ...

    def hint(self, node: str, waiting: Sequence[ScriptedPod]) -> Iterable[ScriptedPod]: ...
    def woken(self) -> Iterable[str]: ...


@dataclasses.dataclass
class _Entry:
    """A pod in the queue."""

    pod: ScriptedPod
    is_active: bool = True
    attempts: int = 0
    ready_at: float = -1.0
    since: float = 0.0
    rejected_by_load: bool = False


@dataclasses.dataclass
class _Placed:
    """A pod that counts on its node: assumed until `bound_at`."""

    pod: ScriptedPod
    node: str
    bound_at: int | None = None
    binds_at: int = 0
    ends_at: int | None = None
    """End of its grace period after an eviction."""


class Placement(NamedTuple):
    """One decision; `best` are the nodes with the highest score."""

    step: int
    pod: str
    node: str
    best: frozenset[str]


class Eviction(NamedTuple):
    """One victim of a preemption."""

    step: int
    victim: str
    node: str
    preemptor: str


class KubeScheduler:
    """The model over one script. `ties` decides between equal nodes by (step, pod); by default the first name."""

    def __init__(
        self,
        script: Script,
        load: LoadPlugin,
        *,
        ties: Mapping[tuple[int, str], str] | None = None,
        initial_backoff: float = 0.0,
        longest_backoff: float = 0.0,
        most_feasible: int = 10**6,
        most_candidates: int = 100,
    ) -> None:
        self._script, self._load, self._ties = script, load, ties or {}
        self._backoff = initial_backoff, longest_backoff
        self._most_feasible, self._most_candidates = most_feasible, most_candidates
        self._nodes = {node.name: node for node in script.nodes}
        self._pods = {pod.name: pod for pod in script.pods}
        self._step = 0
        self._next_node = 0
        self._queue: dict[str, _Entry] = {}
        self._placed: dict[str, _Placed] = {}
        self._nominated: dict[str, str] = {}
        self._failed_binds: dict[str, int] = {}
        self.placements: list[Placement] = []
        self.evictions: list[Eviction] = []
        self.attempts = 0

    def run(self) -> KubeScheduler:
        """Run the script to its end."""
        for step in range(self._script.steps):
            self._step = step
            self._load.clock_moved(self._now)
            self._leave()
            self._report()
            self._settle()
            for pod in self._script.pods:
                if pod.arrives == step:
                    self._queue[pod.name] = _Entry(pod, since=self._now)
                    self._load.pod_waits(pod)
            self._finish_bindings()
            self._settle()
        return self

    def _settle(self) -> None:
        """Let the pods that are woken by what has just happened be tried, before more happens."""
        self._schedule()
        for _ in range(_WAKING_ROUNDS):
            self._wake(name for name in self._load.woken() if name in self._queue)
            self._schedule()

    def waiting(self) -> set[str]:
        """Return the pods without a node."""
        return set(self._queue)

    @property
    def _now(self) -> float:
        return float(self._step * STEP_SECONDS)

    # events

    def _leave(self) -> None:
        for name, placed in list(self._placed.items()):
            ends = [placed.ends_at, placed.pod.leaves]
            ends.append(None if placed.bound_at is None else placed.bound_at + placed.pod.lifetime)
            if any(end is not None and end <= self._step for end in ends):
                self._remove(name)
        for name, entry in list(self._queue.items()):
            if entry.pod.leaves <= self._step:
                del self._queue[name]
                self._end_nomination(name)
                self._load.pod_gone(entry.pod)

    def _remove(self, name: str) -> None:
        placed = self._placed.pop(name)
        if placed.bound_at is None:
            self._load.unreserve(placed.pod)
        self._load.pod_gone(placed.pod)
        self._wake(self._queue)

    def _report(self) -> None:
        for node in self._script.nodes:
            if not node.reports_at(self._step):
                continue
            running = {
                placed.pod: placed.bound_at
                for placed in self._placed.values()
                if placed.node == node.name and placed.bound_at is not None
            }
            self._load.report_changed(scripted_cluster.report(node, running, self._step))
            waiting = [entry.pod for entry in self._queue.values() if entry.rejected_by_load]
            self._wake([pod.name for pod in self._load.hint(node.name, waiting)])

    def _finish_bindings(self) -> None:
        for name, placed in list(self._placed.items()):
            if placed.bound_at is None and placed.binds_at <= self._step:
                self._bind(name)

    def _wake(self, names: Iterable[str]) -> None:
        for name in list(names):
            self._queue[name].is_active = True

    # one attempt

    def _schedule(self) -> None:
        while ready := [each for each in self._queue.values() if each.is_active and each.ready_at <= self._now]:
            entry = min(ready, key=lambda each: (-each.pod.priority, each.since))
            entry.attempts += 1
            self.attempts += 1
            entry.is_active = False  # an event during the attempt counts
            self._attempt(entry)

    def _attempt(self, entry: _Entry) -> None:
        pod, nominated = entry.pod, self._nominated.get(entry.pod.name, "")
        rejected: dict[str, str] = {}
        by_load: set[str] = set()
        feasible = self._feasible(pod, [nominated], {}, by_load) if nominated else []
        if not feasible:
            feasible = self._feasible(pod, list(self._nodes), rejected, by_load)
        if feasible:
            self._place(entry, feasible)
            return
        self._post_filter(pod, nominated, rejected)
        self._load.refused(pod, sorted(by_load))
        self._refuse(entry, rejected_by_load=bool(by_load))

    def _feasible(
        self, pod: ScriptedPod, nodes: list[str], rejected: dict[str, str], by_load: set[str]
    ) -> Sequence[str]:
        """Return the nodes that pass; fill in the rejections, and the nodes that the load plugin rejected."""
        found: list[str] = []
        start = self._next_node % len(nodes)
        tried = 0
        for name in nodes[start:] + nodes[:start]:
            if len(found) >= self._most_feasible:
                break
            tried += 1
            if not self._fits(pod, name, ()):
                rejected[name] = RESOLVABLE
            elif not self._load.passes(pod, name):
                rejected[name] = RESOLVABLE
                by_load.add(name)
            else:
                found.append(name)
        if len(nodes) > 1:
            self._next_node += tried
        return sorted(found)

    def _fits(self, pod: ScriptedPod, name: str, without: Iterable[str]) -> bool:
        node, absent = self._nodes[name], set(without)
        others = [each.pod for each in self._placed.values() if each.node == name and each.pod.name not in absent]
        others += [
            self._pods[other]
            for other, nominated in self._nominated.items()
            if nominated == name and other != pod.name and self._pods[other].priority >= pod.priority
        ]
        cpu = sum(each.cpu_millis for each in others) + pod.cpu_millis
        return cpu <= node.cpu_millis and sum(each.memory_mib for each in others) + pod.memory_mib <= node.memory_mib

    def _place(self, entry: _Entry, feasible: Sequence[str]) -> None:
        pod = entry.pod
        best = frozenset(feasible)
        if len(feasible) > 1:
            own = self._load.scores(pod, feasible)
            totals = {name: own.get(name, 0) + self._least_allocated(pod, name) for name in feasible}
            best = frozenset(name for name, total in totals.items() if total == max(totals.values()))
        node = self._ties.get((self._step, pod.name), "")
        node = node if node in best else min(best)
        self.placements.append(Placement(self._step, pod.name, node, best))
        del self._queue[pod.name]
        self._end_nomination(pod.name)
        self._placed[pod.name] = _Placed(pod, node, binds_at=self._step + pod.binds_after)
        self._load.reserve(pod, node)
        if not pod.binds_after:
            self._bind(pod.name)

    def _least_allocated(self, pod: ScriptedPod, name: str) -> int:
        if not self._script.in_tree_scores:
            return 0
        node, held = self._nodes[name], [each.pod for each in self._placed.values() if each.node == name]
        cpu = node.cpu_millis - sum(each.cpu_millis for each in held) - pod.cpu_millis
        memory = node.memory_mib - sum(each.memory_mib for each in held) - pod.memory_mib
        return (cpu * 100 // node.cpu_millis + memory * 100 // node.memory_mib) // 2

    def _bind(self, name: str) -> None:
        placed = self._placed[name]
        failed = self._failed_binds.get(name, 0)
        if failed < placed.pod.failing_binds:
            self._failed_binds[name] = failed + 1
            del self._placed[name]
            self._load.unreserve(placed.pod)
            self._wake(self._queue)
            entry = self._queue[name] = _Entry(placed.pod, attempts=failed)
            self._refuse(entry, rejected_by_load=False)
            return
        placed.bound_at = self._step
        self._load.pod_bound(placed.pod, placed.node, self._now)

    def _refuse(self, entry: _Entry, *, rejected_by_load: bool) -> None:
        initial, longest = self._backoff
        entry.rejected_by_load = rejected_by_load
        entry.ready_at = self._now + min(initial * 2 ** min(entry.attempts - 1, 20), longest)
        entry.since = self._now

    # preemption

    def _post_filter(self, pod: ScriptedPod, nominated: str, rejected: Mapping[str, str]) -> None:
        if nominated and rejected.get(nominated, UNRESOLVABLE) != UNRESOLVABLE:
            on_node = [each for each in self._placed.values() if each.node == nominated]
            if any(each.ends_at is not None and each.pod.priority < pod.priority for each in on_node):
                return  # its victims are still ending
        candidates: dict[str, list[ScriptedPod]] = {}
        for name in sorted(name for name, kind in rejected.items() if kind == RESOLVABLE):
            if (victims := self._victims(pod, name)) and len(candidates) < self._most_candidates:
                candidates[name] = victims
        if not candidates:
            self._end_nomination(pod.name)
            return
        self._evict(pod, min(candidates, key=lambda name: _importance(candidates[name], name)), candidates)

    def _victims(self, pod: ScriptedPod, name: str) -> list[ScriptedPod]:
        """Return the fewest pods whose eviction makes room, by the dry run; none if that does not help."""
        lower = [each.pod for each in self._placed.values() if each.node == name and each.pod.priority < pod.priority]
        gone = {each.name for each in lower}
        if not lower or not self._fits(pod, name, gone) or not self._load.passes(pod, name):
            return []
        for each in sorted(lower, key=lambda other: -other.priority):
            if self._fits(pod, name, gone - {each.name}):
                gone.remove(each.name)
        return [each for each in lower if each.name in gone]

    def _evict(self, pod: ScriptedPod, node: str, candidates: Mapping[str, Sequence[ScriptedPod]]) -> None:
        for victim in candidates[node]:
            placed = self._placed[victim.name]
            self.evictions.append(Eviction(self._step, victim.name, node, pod.name))
            if placed.bound_at is None:
                self._remove(victim.name)
            elif placed.ends_at is None:
                placed.ends_at = self._step + victim.grace
        for other, nominated in list(self._nominated.items()):
            if nominated == node and self._pods[other].priority < pod.priority:
                self._end_nomination(other)
        self._nominated[pod.name] = node

    def _end_nomination(self, name: str) -> None:
        if self._nominated.pop(name, None) is not None:
            self._wake(self._queue)


def _importance(victims: Sequence[ScriptedPod], name: str) -> tuple[int, int, int, str]:
    priorities = [each.priority for each in victims]
    return max(priorities), sum(priorities), len(priorities), name
