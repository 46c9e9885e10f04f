"""The right to evict pods, and what the evictor writes to a node: its annotation, which closes it, and Events.

The apiserver is asked for the right, which the chart grants by namespace, by default nowhere.
"""

from __future__ import annotations

import datetime as dt
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_eviction
from api_types.node_metric.mid_eviction import MidEvictionRecord
from apiserver_client import errors, objects, resources, session
from apiserver_client.cluster_events import Subject
from manager.cache.store import ClusterStore
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource import decision
from manager.mid_resource.events import Event, last_writer, stripped_event
from manager.mid_resource.eviction import planning, shortage
from manager.mid_resource.eviction.nodes import OPENED_AGAIN, NodeTurn, Turns
from manager.mid_resource.eviction.pace import MOST_RECENT, WINDOW
from manager.mid_resource.eviction.pods import EvictablePods
from manager.mid_resource.eviction.shortage import Trigger

log = logging.getLogger(__name__)


ALL_NAMESPACES: Final = "*"
KNOWN_FOR: Final = dt.timedelta(minutes=1)
_MOST_NAMESPACES: Final = 10_000

FIX: Final = "set the chart's value manager.eviction.namespaces"


@dataclass(eq=False)
class Rights:
    """Answers by namespace, each asked again after a minute.

    `namespaces` are those that are to have the right, separated by commas; `now` returns aware time.
    """

    api: session.Session
    namespaces: str
    now: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        named = (namespace.strip() for namespace in self.namespaces.split(","))
        self._namespaces = [namespace for namespace in named if namespace not in ("", ALL_NAMESPACES)]
        self._answers: dict[str, tuple[bool, dt.datetime]] = {}
        self.granted = False
        """Whether the last `refresh` found the right in a namespace that is to have it: the take-back gate.

        The administrator of a namespace may take it back there: that costs the namespace, and no other tenant."""
        self.missing: tuple[str, ...] = ()
        """Namespaces that are to have the right and lack it."""

    async def refresh(self) -> bool:
        """Ask again; return whether `granted` or `missing` has changed. A failed request changes nothing."""
        before = self.granted, self.missing
        try:
            is_everywhere = await self._may_evict("")
            lacking = [] if is_everywhere else [name for name in self._namespaces if not await self._may_evict(name)]
        except errors.ApiServerError as error:
            log.warning("cannot ask whether pods may be evicted: %s", error)
            return False
        self.granted, self.missing = is_everywhere or len(lacking) < len(self._namespaces), tuple(lacking)
        return before != (self.granted, self.missing)

    async def in_namespace(self, namespace: str) -> bool:
        """Return whether pods of a namespace may be evicted. Raises errors.ApiServerError."""
        return await self._may_evict("") or await self._may_evict(namespace)

    async def lost(self, namespace: str) -> bool:
        """Ask again after an eviction was forbidden; return whether the right is missing, or nothing answers.

        Where it is not missing, admission has refused that one pod, and others may be evicted.
        """
        for forgotten in ("", namespace):
            self._answers.pop(forgotten, None)
        try:
            return not await self.in_namespace(namespace)
        except errors.ApiServerError as error:
            log.warning("cannot ask whether pods may be evicted: %s", error)
            return True

    async def _may_evict(self, namespace: str) -> bool:
        answered = self._answers.get(namespace)
        now = self.now()
        if answered is not None and dt.timedelta() <= now - answered[1] < KNOWN_FOR:
            return answered[0]
        status = await objects.access_review(
            self.api, namespace=namespace, verb="create", resource="pods", subresource="eviction"
        )
        allowed = bool(status.get("allowed"))
        if not (allowed or status.get("denied")) and (fault := status.get("evaluationError")):
            raise errors.ApiServerError(f"an authorizer of the apiserver did not answer: {fault}")
        if len(self._answers) >= _MOST_NAMESPACES:
            self._answers.clear()
        self._answers[namespace] = (allowed, now)
        return allowed


REPORTED_AGAIN: Final = dt.timedelta(hours=1)
"""Time after which the same Event about the same subject is recorded again."""
SLOW_AFTER: Final = dt.timedelta(minutes=10)
"""Time after which a pod that still terminates is named."""
_MOST_REMEMBERED: Final = 20_000


@dataclass(eq=False)
class NodeRecords:
    """Writes annotations and Events; `clock` returns aware time."""

    api: session.Session
    cache: ClusterStore
    turns: Turns
    recorder: EventRecorder
    telemetry: Telemetry
    clock: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        self._reported: OrderedDict[tuple[str, str, str], dt.datetime] = OrderedDict()
        """(UID of the node, reason of an Event, its subject) -> time of that Event."""

    def all(self) -> Iterator[tuple[str, MidEvictionRecord]]:
        """Yield the name and the annotation of each node that has one, of whichever leader."""
        for name in self.cache.nodes.names():
            node = self.cache.nodes.get(name)
            record = mid_eviction.eviction_record(node) if node else None
            if record is not None:
                yield name, record

    def evictions(self, *, of_leaving: bool, now: dt.datetime) -> Iterator[dt.datetime]:
        """Yield the times of the evictions that are recorded, of whichever leader, on nodes that leave or on others.

        Those of the minute before the last one count as of its time: a rate that is not used up is safer than two.
        """
        for name, record in self.all():
            node, last = self.cache.nodes.get(name), times.parse_rfc3339_or_none(record.time)
            leaves = record.trigger == Trigger.LEAVING or (node is not None and decision.classify(node).is_leaving)
            if record.pod and leaves is of_leaving and last is not None and last <= now:
                yield from itertools.repeat(last, 1 + min(max(record.recent, 0), MOST_RECENT))

    async def close(self, turn: NodeTurn, trigger: str, *, pod: str = "", uid: str = "") -> None:
        """Write the annotation, before a pod is evicted where `pod` names one. Raises errors.ApiServerError."""
        now = self.clock()
        time = times.format_rfc3339(now)
        since, before = (turn.record.since, turn.record.trigger) if turn.record else (time, "")
        cause = shortage.recorded(before, trigger)
        recent = tuple(time for time in turn.recent if now - WINDOW < time <= now)
        record = MidEvictionRecord(time, since, pod, uid, cause, len(recent))
        await self._annotate(turn, mid_eviction.encode(record))
        turn.recent = (*recent, now) if pod else recent
        self.turns.closed(turn, record, now)

    async def restore(self, turn: NodeTurn) -> None:
        """Close a node again whose annotation another client has removed, and name that client."""
        assert turn.record is not None
        turn.closed_until = self.clock() + OPENED_AGAIN
        try:
            writer = await last_writer(self.api, turn.name)
            await self._annotate(turn, mid_eviction.encode(turn.record))
        except errors.ApiServerError as error:
            log.warning("node %s: cannot write the annotation %s: %s", turn.name, names.ANNOTATION_MID_EVICTION, error)
            return
        turn.is_stripped = False
        await self.event_once(turn, stripped_event(writer), "annotation")

    async def reopen(self, turn: NodeTurn) -> bool:
        """Let a node accept new Mid pods again; return whether the annotation was removed."""
        try:
            await self._annotate(turn, None)
        except errors.ApiServerError as error:
            log.warning("node %s: cannot remove the annotation %s: %s", turn.name, names.ANNOTATION_MID_EVICTION, error)
            turn.closed_until = self.clock() + OPENED_AGAIN
            return False
        log.info("node %s: accepts new Mid pods again", turn.name)
        self.turns.reopened(turn, self.clock())
        return True

    async def _annotate(self, turn: NodeTurn, text: str | None) -> None:
        body = {"metadata": {"uid": turn.uid, "annotations": {names.ANNOTATION_MID_EVICTION: text}}}
        with self.telemetry.write("node_eviction"):
            patched = await objects.merge_patch(
                self.api, resources.NODES, turn.name, body, subresource="status", decode=pods.Node
            )
        self.cache.nodes.update(patched, only_known=True)

    async def event(self, turn: NodeTurn, event: Event) -> None:
        """Record an Event on a node."""
        await self.recorder.event(Subject(resources.NODES, turn.name, turn.uid), *event)

    async def event_once(self, turn: NodeTurn, event: Event, about: str) -> None:
        """Record an Event on a node, once an hour for the same subject."""
        now, key = self.clock(), (turn.uid, event.reason, about)
        last = self._reported.get(key)
        if last is None or not dt.timedelta() <= now - last < REPORTED_AGAIN:
            self._reported.pop(key, None)
            self._reported[key] = now
            if len(self._reported) > _MOST_REMEMBERED:
                self._reported.popitem(last=False)
            await self.event(turn, event)

    async def name_slow_pods(self, turn: NodeTurn, pods: EvictablePods) -> None:
        """Name pods that count as freed and still run: a long grace period keeps their resources from Prod."""
        now = self.clock()
        for pod in pods.leaving:
            if pod.leaving_since is not None and now - pod.leaving_since > SLOW_AFTER:
                text = (
                    f"the Mid pod {pod.key} terminates since {times.format_rfc3339(pod.leaving_since)} and still runs; "
                    "its resources count as freed, so no other pod goes in its place"
                )
                await self.event_once(turn, Event("Warning", planning.SLOW, text), pod.uid)
