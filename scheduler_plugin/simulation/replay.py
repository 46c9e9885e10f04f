"""Replay of a scenario: pods arrive and get a node, and their usage there becomes the next reports.

Time is simulated and advances only with arrivals, retries and departures. Before each decision the product receives the
due reports, by the calls that its watches make. It is asked as by the plugin inside kube-scheduler. A pod that no node
accepts waits in the model of kube-scheduler's queue, and the product wakes it as in a cluster; preemption is not
simulated. The load watcher reads the simulated reports alone, whichever providers the configuration lists. Pure.
"""

from __future__ import annotations

import asyncio
import collections
import enum
import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np

from api_types.kubernetes import pods, quantities, times
from scheduler_plugin.assembly import Parts
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider
from scheduler_plugin.load_watcher.providers.node_metric import NodeMetricProvider
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Data, Snapshot, Windows
from scheduler_plugin.simulation.kube_scheduler_model import Due, KubeSchedulerModel, SchedulingQueue, Weights
from scheduler_plugin.simulation.outcome import PodPlacement, ReplayOutcome
from scheduler_plugin.simulation.scenario import NodeAgents, Scenario, SimulatedPod
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.node_columns import Bools, Ints

REFRESH_SECONDS: Final = 30.0

_WAKING_SECONDS: Final = 1.0
"""Interval at which the product chooses waiting pods to wake."""


class _EventKind(enum.IntEnum):
    """Kinds of events, in their order at the same moment: arrivals find the capacity that departures free."""

    STARTS = 0
    """A pod that the scenario binds: reports of that moment contain it."""
    LEAVES = 1
    FLUSH = 2
    WAKE = 3
    TRY = 4


class _Event(NamedTuple):
    at: float
    kind: _EventKind
    rank: int = 0
    """Negative priority of the pod: the most important pod is tried first."""
    pod: int = -1


class Replay:
    """Run of one contender over one scenario. With `parts` None kube-scheduler decides alone."""

    def __init__(
        self,
        scenario: Scenario,
        parts: Parts | None = None,
        *,
        weights: Weights = Weights(),  # noqa: B008  # immutable
        seed: int = 1,
    ) -> None:
        """Prepare a run; `seed` decides between nodes of equal score. Raises quantities.InvalidQuantity."""
        self._scenario = scenario
        self._product = _Product(scenario, parts) if parts is not None else None
        self._weights = weights
        self._random = random.Random(f"ties {seed}")  # noqa: S311  # repeatable, not for security
        self._requests = [_requests(pod.pod) for pod in scenario.pods]
        self._agents = NodeAgents(scenario)
        self._model = KubeSchedulerModel([node.node for node in scenario.nodes])
        self._node_index = {node.node.metadata.name: index for index, node in enumerate(scenario.nodes)}
        self._node_of: dict[int, int] = {}
        self._tries: collections.Counter[int] = collections.Counter()
        self._placements: dict[int, PodPlacement] = {}
        self._rejections: collections.Counter[str] = collections.Counter()
        self._queue = SchedulingQueue()
        self._events: list[_Event] = []
        self._wakes_at: float | None = None
        self._lacks_room = False
        """Whether the requests of the pod that was tried last do not fit on some node."""

    def run(self, progress: Callable[[float], None] = lambda _share: None) -> ReplayOutcome:
        """Run to the end and return the outcome; `progress` receives the elapsed share of the time."""
        ends_at = self._scenario.steps * self._scenario.step_seconds
        self._events = [
            _Event(pod.at_seconds, _EventKind.STARTS, pod=index) if node else self._try_at(Due(index, pod.at_seconds))
            for index, pod in enumerate(self._scenario.pods)
            if not (node := pod.pod.spec.node_name) or node in self._node_index  # others run elsewhere
        ]
        heapq.heapify(self._events)
        while self._events and self._events[0].at < ends_at:
            event = heapq.heappop(self._events)
            progress(event.at / ends_at)
            self._handle(event)
        progress(1.0)
        return ReplayOutcome(
            scenario=self._scenario,
            demand=self._agents.demand,
            pod_counts=self._agents.pod_counts,
            placements=dict(sorted(self._placements.items())),
            tries=dict(self._tries),
            rejections=dict(self._rejections),
        )

    def _handle(self, event: _Event) -> None:
        if event.kind is _EventKind.STARTS:
            self._start(event.pod, self._node_index[self._scenario.pods[event.pod].pod.spec.node_name], event.at)
            return
        if event.kind is _EventKind.LEAVES:
            self._model.add(self._node_of.pop(event.pod), self._requests[event.pod], -1)
            if self._product is not None:
                self._product.deleted(self._scenario.pods[event.pod].pod)
            self._push(self._queue.pod_left(event.at))
            return
        if event.kind is _EventKind.FLUSH:
            if self._queue.flushed(event.pod, event.at):
                self._push([Due(event.pod, event.at)])
            return
        if self._product is not None:
            self._product.catch_up(self._agents, event.at)
        if event.kind is _EventKind.WAKE:
            self._wake(event.at)
        elif (node := self._choose(event.pod, event.at)) is None:
            flush_at = self._queue.refused(event.pod, self._tries[event.pod], event.at, lacks_room=self._lacks_room)
            heapq.heappush(self._events, _Event(flush_at, _EventKind.FLUSH, pod=event.pod))
            self._wake_later(event.at)
        else:
            self._placements[event.pod] = PodPlacement(self._scenario.nodes[node].node.metadata.name, event.at)
            self._start(event.pod, node, event.at)

    def _wake_later(self, at: float) -> None:
        """Let the product choose pods to wake, at the next full interval, while it remembers any."""
        if self._product is None or not self._product.parts.refused or self._wakes_at is not None:
            return
        self._wakes_at = (at // _WAKING_SECONDS + 1) * _WAKING_SECONDS
        heapq.heappush(self._events, _Event(self._wakes_at, _EventKind.WAKE))

    def _wake(self, at: float) -> None:
        self._wakes_at = None
        if self._product is not None:
            self._push(Due(index, at) for index in self._product.woken(at) if self._queue.remove(index))
        self._wake_later(at)

    def _push(self, due: Iterable[Due]) -> None:
        for due_pod in due:
            heapq.heappush(self._events, self._try_at(due_pod))

    def _try_at(self, due: Due) -> _Event:
        return _Event(due.at, _EventKind.TRY, -(self._scenario.pods[due.pod].pod.spec.priority or 0), due.pod)

    def _start(self, index: int, node: int, at: float) -> None:
        pod = self._scenario.pods[index]
        self._model.add(node, self._requests[index])
        self._agents.place(pod, node, at)
        self._node_of[index] = node
        if self._product is not None:
            self._product.bound(pod, self._scenario.nodes[node].node.metadata.name, at)
        leaves_at = at + pod.lifetime_seconds
        if math.isfinite(leaves_at):
            heapq.heappush(self._events, _Event(leaves_at, _EventKind.LEAVES, pod=index))

    def _choose(self, index: int, at: float) -> int | None:
        self._tries[index] += 1
        requests = self._requests[index]
        fits = np.ones(len(self._scenario.nodes), dtype=np.bool_)
        for reason, nodes in self._model.misfits(requests).items():
            self._rejections[reason] += int(nodes.sum())
            fits &= ~nodes
        self._lacks_room = not fits.all()
        load_scores = None
        if self._product is not None:
            fits, load_scores = self._product.ask(index, fits, at, self._rejections)
        candidates = self._model.sample(fits)
        if not len(candidates):
            return None
        scores = self._model.scores(requests, candidates, self._weights)
        if load_scores is not None:
            scores = scores + self._weights.product * load_scores[candidates]
        best = candidates[scores == scores.max()]
        return int(best[self._random.randrange(len(best))])


class _Product:
    """Cluster state and answers of the product on simulated time; nodes and pods by their index."""

    def __init__(self, scenario: Scenario, parts: Parts) -> None:
        self.parts = parts
        self._scenario = scenario
        self._index_of = {pod.pod.metadata.uid: index for index, pod in enumerate(scenario.pods)}
        self._shown: set[int] = set()
        self._began_at = scenario.began_at
        self._windows = Windows(parts.measurements.oldest_seconds)
        cluster = parts.cluster
        self._provider = NodeMetricProvider(
            cluster.reports,
            lambda: {
                name: provider.known_node(entry.node)
                for name, entry in cluster.entries.items()
                if entry.node is not None
            },
            cluster.resources,
        )
        self._refreshed_at = -math.inf
        for node in scenario.nodes:
            cluster.node_changed(node.node)
        self._rows = parts.vectors.find([node.node.metadata.name for node in scenario.nodes])

    def catch_up(self, agents: NodeAgents, at: float) -> None:
        """Apply every report that was made until a moment, and refresh the load watcher if it is due."""
        refreshed_at = at // REFRESH_SECONDS * REFRESH_SECONDS
        if refreshed_at > self._refreshed_at:
            self._refreshed_at = refreshed_at
            self._apply_reports(agents, refreshed_at)
            if self.parts.measured:
                asyncio.run(self._measure(self._began_at + refreshed_at))
        self._apply_reports(agents, at)

    async def _measure(self, now: float) -> None:
        for duration in DURATIONS_SECONDS:
            window = records.window_ending_at(duration, now)
            fetched = await self._provider.fetch(window)
            self._windows.store(Snapshot(int(now), window, self._provider.name, Data(dict(fetched.nodes))))
        self.parts.measurements.select(self._windows, now)
        for entry in self.parts.cluster.entries.values():
            for plugin in self.parts.measured:
                plugin.write(entry)
        self.parts.measurements.confirm_rows()

    def _apply_reports(self, agents: NodeAgents, at: float) -> None:
        for report in agents.due(at):
            self.parts.cluster.metric_changed(report)

    def ask(
        self, index: int, fits: Bools, at: float, rejections: collections.Counter[str]
    ) -> tuple[Bools, Ints | None]:
        """Return the nodes that fit and pass, and the score of each node; rejections of the others are counted."""
        pod, now = self._scenario.pods[index].pod, self._began_at + at
        answers, uid = self.parts.answers, pod.metadata.uid
        self._set_time(at)
        if index not in self._shown:
            self._shown.add(index)
            answers.show(msgspec.json.encode(pod), now)
        answer = answers.ask(uid, now)
        scores = None if answer.scores is None else answer.scores[self._rows].astype(np.int64)
        if answer.codes is None:
            return fits, scores
        refused = fits & (answer.codes[self._rows] > 0)
        counts = np.bincount(answer.codes[self._rows[refused]])[1:].tolist()
        rejections.update(
            {reason: count for reason, count in zip(self.parts.cycle.reasons, counts, strict=False) if count}
        )
        if refused.any() and not (fits & ~refused).any():
            by_row = np.zeros(answer.rows, dtype=np.bool_)
            by_row[self._rows[refused]] = True
            answers.refuse(uid, np.packbits(by_row, bitorder="little").tobytes())
        return fits & ~refused, scores

    def woken(self, at: float) -> Iterator[int]:
        """Yield the indices of the refused pods to try again now."""
        self._set_time(at)
        if not self.parts.refused.begins_round(at):
            return
        for pod in self.parts.refused.choose(self._began_at + at, at):
            if pod is not None:
                yield self._index_of[pod.uid]

    def deleted(self, pod: pods.Pod) -> None:
        """Apply the end of a pod that left."""
        self.parts.answers.gone(pod.metadata.uid, pod_info.key(pod))

    def bound(self, pod: SimulatedPod, node: str, at: float) -> None:
        """Show a pod that runs."""
        now = self._began_at + at
        since = times.format_epoch(now)
        is_new = not pod.pod.spec.node_name
        conditions = [pods.ObjectCondition(kind, "True", since) for kind in ("PodScheduled", "Initialized")]
        status = pods.PodStatus(phase="Running", conditions=conditions) if is_new else pod.pod.status
        shown = msgspec.structs.replace(
            pod.pod, spec=msgspec.structs.replace(pod.pod.spec, node_name=node), status=status
        )
        self.parts.answers.show(msgspec.json.encode(shown), now)

    def _set_time(self, at: float) -> None:
        self.parts.cluster.monotonic = lambda: at


def _requests(pod: pods.Pod) -> pods.Resources:
    try:
        return quantities.known(pods.requests(pod.spec))
    except quantities.InvalidQuantity:
        return {}
