"""Suppression of a node: reads what the agent knows, plans, sends, and keeps what went wrong for the report.

Nothing here holds up a tick: planning is arithmetic, and sending is a task of its own. While suppression is off and no
limit is lowered, a tick costs a comparison.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods import cpu_limits
from apiserver_client import cluster_events, errors, objects, resources, session
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode
from koordlet.cluster.view import ClusterView
from koordlet.collectors import capped_usage, pod_pressure
from koordlet.metric_cache import series
from koordlet.mid_suppression import node_usage, resize
from koordlet.mid_suppression.node_usage import Members, RecentUsage
from koordlet.mid_suppression.planner import Change, Node, Planner
from koordlet.mid_suppression.prod_waits import CpuWaits
from koordlet.mid_suppression.resize import Outcome, Sent
from koordlet.node_observer import NodeObserver

log = logging.getLogger(__name__)

BLOCKED_SECONDS: Final = 300.0
"""Pause after an answer that holds for every pod: no right, no such resource."""
UNREACHABLE_SECONDS: Final = 10.0
PLAN_SECONDS: Final = 10.0
"""Age from which the rest of a plan is dropped."""
_WAITS_SECONDS: Final = 5.0
_OF_ALL_PODS: Final = {
    Outcome.NOT_PERMITTED: (
        "NotPermitted",
        "the agent may not patch pods/resize: set the chart value koordlet.suppression.enabled",
    ),
}
REPORTER: Final = "koordlet"
_MANY_CONFLICTS: Final = 3
"""Conflicts in a row that are a problem: a pod may change once in a while."""
_MOST_NAMED: Final = 5


@dataclass(slots=True)
class Counts:
    """Counts of patches since the agent started."""

    patches: dict[tuple[str, Outcome], int] = field(
        default_factory=lambda: {(direction, outcome): 0 for direction in ("down", "up") for outcome in Outcome}
    )
    failures: int = 0
    """Plans that failed by an error of the agent."""


class Suppressor:
    """Suppression of one node. Not thread-safe: one event loop calls everything. Times are of a monotonic clock."""

    def __init__(
        self,
        observer: NodeObserver,
        view: ClusterView,
        monotonic: Callable[[], float],
        utc_now: Callable[[], dt.datetime],
        *,
        is_enabled: bool,
    ) -> None:
        self._is_enabled = is_enabled
        self.planner = Planner(monotonic())
        self.counts = Counts()
        self._observer = observer
        self._view = view
        self._monotonic = monotonic
        self._utc_now = utc_now
        self._members = Members(-1, (), False, (), (), frozenset())
        self._sampled_at: float | None = None
        self._last_sample: float | None = monotonic()
        """Time of the newest sample; None after a time without any."""
        self._waits_at = 0.0
        self._is_prod_short = False
        self._cpu_waits = CpuWaits()
        self._is_sending = False
        self._blocked_until = 0.0
        self._blocked: tuple[str, str] | None = None
        self._refusals: dict[str, tuple[Outcome, str]] = {}
        """UID of a pod -> why the API server refused its newest patch."""
        self._logged: set[tuple[str, str]] = set()
        self._autoscaled: set[str] = set()
        """UIDs of pods with an Event that names their autoscaler."""

    @property
    def mid_pods(self) -> Sequence[object]:
        """Return the pods of the node whose priority is Mid."""
        return self._members.mid

    @property
    def lowered_pods(self) -> int:
        """Return the number of pods with a limit below its original."""
        return sum(pod.mid is not None and pod.mid.is_lowered for pod in self._members.mid)

    def threshold_percent(self) -> int | None:
        """Return the threshold in force, 0 where suppression is off, None before the cluster is known."""
        view = self._view
        if not view.pods.synced or not view.watches["node_metric"].synced:
            return None
        if not self._is_enabled or view.resource_version is None:  # deleted, as by an uninstallation
            return 0
        return spec_in_force.suppress_threshold_percent(view.spec.mid_colocation_policy)

    def plan(self) -> list[Change]:
        """Return the patches to send now, none while others are being sent. Call once after each tick."""
        threshold = self.threshold_percent()
        if threshold is None:
            self._last_sample = None
            return []
        if self._members.version != self._view.pods.version:
            self._members = Members.of(self._view.pods)
            self._forget()
        if threshold == 0 and not self._members.is_lowered:
            self._blocked = self._last_sample = self.planner.allowed_millis = self.planner.usage = None
            return []
        now = self._monotonic()
        node = self._node(now)
        self._sample(now, threshold, node)
        if self._is_sending or now < self._blocked_until:
            return []
        return self.planner.plan(now, threshold, node, self._members.mid)

    async def send(self, api: session.Session, changes: Sequence[Change]) -> None:
        """Send a plan. Stops where the rest would be answered alike, is out of date, or suppression is off by now."""
        self._is_sending = True
        try:
            await self._send(api, changes)
        finally:
            self._is_sending = False

    async def _send(self, api: session.Session, changes: Sequence[Change]) -> None:
        begin = self._monotonic()
        for change in changes:
            now = self._monotonic()
            if now - begin >= PLAN_SECONDS or (change.is_lowering and not self.threshold_percent()):
                return
            self.planner.sent(now, change)
            sent = await resize.send(api, change)
            self._note(self._monotonic(), change, sent)
            if sent.outcome is Outcome.QUOTA:
                advice = cpu_limits.quota_advice(sent.quota, change.pod.namespace)
                await self._record(api, change.pod, cpu_limits.NOT_RESTORED, advice)
            await self._name_autoscaler(api, change.pod)
            if self._monotonic() < self._blocked_until:
                return

    def problems(self) -> list[tuple[str, str]] | None:
        """Return reason and message of each problem, the most severe first; None where there is nothing to do.

        While suppression is off there is nothing to do once every limit is restored.
        """
        threshold = self.threshold_percent()
        if threshold is None or not (threshold or self._members.is_lowered):
            return None
        found = [self._blocked] if self._blocked else []
        if threshold and self.planner.usage is None and self._members.mid:
            found.append(("NoData", "the usage of Prod and system is unknown: no limit is lowered"))
        names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in self._members.mid}
        for reason, outcome in (("QuotaExceeded", Outcome.QUOTA), ("ResizeRefused", Outcome.REFUSED)):
            if of_kind := [uid for uid, (kind, _) in self._refusals.items() if kind is outcome and uid in names]:
                found.append((reason, f"{_named([names[uid] for uid in of_kind])}: {self._refusals[of_kind[0]][1]}"))
        stuck = [pod for pod in self._members.mid if pod.mid is not None and pod.mid.resize_problem]
        if stuck:
            text = [f"{names[pod.uid]} ({pod.mid.resize_problem})" for pod in stuck if pod.mid is not None]
            found.append(("ResizeNotDone", f"the kubelet does not do the resize of {_named(text)}"))
        autoscaled = [pod for pod in self._members.mid if pod.mid is not None and pod.mid.autoscaler]
        if autoscaled:
            text = [f"{names[pod.uid]} ({pod.mid.autoscaler})" for pod in autoscaled if pod.mid is not None]
            found.append((cpu_limits.AUTOSCALED, f"an autoscaler sets CPU of Mid pods too: {_named(text)}"))
        return found

    def _forget(self) -> None:
        known = {pod.uid for pod in self._members.mid}
        for gone in self._refusals.keys() - known:
            del self._refusals[gone]
        self._autoscaled &= known
        self._logged = {each for each in self._logged if each[0] in known or not each[0]}
        for pod in self._members.mid:
            if pod.mid is not None and pod.mid.resize_problem:
                text = f"the kubelet reports {pod.mid.resize_problem}; its limits stay until that condition ends"
                self._log_once(pod.uid, f"pod {pod.namespace}/{pod.name}: resize: {text}")

    def _node(self, now: float) -> Node | None:
        capacity, allocatable = self._view.capacity, self._view.allocatable
        if capacity is None or allocatable is None:
            return None
        if now - self._waits_at >= _WAITS_SECONDS:
            self._waits_at, self._is_prod_short = now, self._has_short_prod(now)
        reserved = max(capacity.cpu_millis - allocatable.cpu_millis, 0) / 1000
        return Node(capacity.cpu_millis, reserved, self._is_prod_short)

    def _has_short_prod(self, now: float) -> bool:
        """Return whether a Prod pod is throttled, or waits for a CPU."""
        pods, collectors = self._observer.pods_by_uid, self._observer.collector.collectors
        waiting = self._cpu_waits.waiting(now, pod_pressure.cpu_waits(collectors))
        return any(
            (pod := pods.get(uid)) is not None
            and pod.mid is None
            and series.counted_class(pod.priority_class) is PriorityClass.PROD
            for uid in waiting.union(capped_usage.throttled(collectors))
        )

    def _sample(self, now: float, threshold_percent: int, node: Node | None) -> None:
        """Add the newest sample, which is the mean since the one before it."""
        sampled_at = self._observer.newest_at_seconds
        if node is None:
            self._last_sample = None
            return
        if sampled_at == self._sampled_at:
            return
        begin, self._last_sample, self._sampled_at = self._last_sample, now, sampled_at
        if begin is None:  # the time that it covers is unknown, and earlier samples are of another time
            self.planner.recent = RecentUsage()
            return
        usage = node_usage.of_samples(self._observer.newest, self._members)
        if usage is not None and sampled_at is not None:
            threshold = node.capacity_millis * threshold_percent / 100_000
            self.planner.recent.add(max(begin, now - node_usage.STALE_SECONDS), now, usage, threshold)

    def _note(self, now: float, change: Change, sent: Sent) -> None:
        pod, outcome = change.pod, sent.outcome
        self.counts.patches["down" if change.is_lowering else "up", outcome] += 1
        if outcome is Outcome.PATCHED:
            self.planner.done(change)
            self._refusals.pop(pod.uid, None)
            self._blocked = None
            return
        if outcome in _OF_ALL_PODS:
            self._blocked, self._blocked_until = _OF_ALL_PODS[outcome], now + BLOCKED_SECONDS
            self._log_once("", f"suppression of Mid pods: {self._blocked[1]}: {sent.problem}")
        elif outcome is Outcome.UNREACHABLE:
            self._blocked_until = now + max(UNREACHABLE_SECONDS, sent.retry_after_seconds)
        else:
            in_a_row = self.planner.failed(now, change)
            problem = cpu_limits.quota_advice(sent.quota, pod.namespace) if sent.quota else sent.problem
            if outcome in (Outcome.CONFLICT, Outcome.GONE):
                if in_a_row < _MANY_CONFLICTS:
                    return
                outcome, problem = Outcome.REFUSED, f"the pod changes before each patch of it arrives: {problem}"
            self._refusals[pod.uid] = outcome, problem
            self._log_once(pod.uid, f"pod {pod.namespace}/{pod.name}: resize refused: {problem}; trying again")

    def _log_once(self, uid: str, text: str) -> None:
        if (uid, text) not in self._logged:
            self._logged.add((uid, text))
            log.warning("%s", text)

    async def _name_autoscaler(self, api: session.Session, pod: PodOnNode) -> None:
        """Record once that an autoscaler sets CPU of a pod that is suppressed."""
        if pod.mid is not None and pod.mid.autoscaler and pod.uid not in self._autoscaled:
            self._autoscaled.add(pod.uid)
            await self._record(api, pod, cpu_limits.AUTOSCALED, cpu_limits.autoscaler_advice(pod.mid.autoscaler))

    async def _record(self, api: session.Session, pod: PodOnNode, reason: str, message: str) -> None:
        """Record an Event on a pod. An equal one of the last hour, or a missing right, is no fault."""
        event = cluster_events.body(
            cluster_events.Subject(resources.PODS, pod.name, pod.uid, pod.namespace),
            severity="Warning",
            reason=reason,
            message=message,
            reporter=REPORTER,
            now=self._utc_now(),
        )
        try:
            await objects.create(api, resources.EVENTS, event, namespace=pod.namespace)
        except errors.ApiServerError as error:
            if not isinstance(error, errors.AlreadyExists):
                log.debug("Event on pod %s/%s is not recorded: %s", pod.namespace, pod.name, error)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
