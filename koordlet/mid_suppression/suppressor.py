"""Suppression of a node: measures what Mid pods may use, plans their CPU limits, and states what goes wrong.

Nothing here holds up a tick: planning is arithmetic, and sending is a task of its own. While suppression is off and no
limit is lowered, a tick costs a comparison.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Final

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods import cpu_limits
from apiserver_client import session
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode
from koordlet.cluster.view import ClusterView
from koordlet.collectors import capped_usage, pod_pressure
from koordlet.metric_cache import series
from koordlet.mid_suppression import node_usage
from koordlet.mid_suppression.node_usage import CpuWaits, RecentUsage, SuppressionPods
from koordlet.mid_suppression.planner import Change, NodeCpu, Planner
from koordlet.mid_suppression.resize import NOT_PERMITTED, ResizeOutcome, Sender
from koordlet.node_observer import NodeObserver

_WAITS_SECONDS: Final = 5.0
_MOST_NAMED: Final = 5


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
        self.sender = Sender(self.planner, monotonic, utc_now)
        self.failures = 0
        """Plans that failed by an error of the agent."""
        self._observer = observer
        self._view = view
        self._monotonic = monotonic
        self._pods = SuppressionPods(-1, (), False, (), (), frozenset())
        self._sampled_at: float | None = None
        self._last_sample: float | None = monotonic()
        """Time of the newest sample; None after a time without any."""
        self._waits_at = 0.0
        self._is_prod_short = False
        self._cpu_waits = CpuWaits()

    @property
    def mid_pods(self) -> Sequence[PodOnNode]:
        """Return the pods of the node whose priority is Mid."""
        return self._pods.mid

    @property
    def lowered_pods(self) -> int:
        """Return the number of pods with a limit below its original."""
        return sum(pod.mid is not None and pod.mid.is_lowered for pod in self._pods.mid)

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
        if self._pods.version != self._view.pods.version:
            self._follow_pods()
        if threshold == 0 and not self._pods.is_lowered:
            self.sender.is_permitted = True
            self._last_sample = self.planner.allowed_millis = self.planner.usage = None
            return []
        now = self._monotonic()
        node = self._node(now)
        self._sample(now, threshold, node)
        return self.planner.plan(now, threshold, node, self._pods.mid) if self.sender.is_ready(now) else []

    async def send(self, api: session.Session, changes: Sequence[Change]) -> None:
        """Send a plan; lower no limit once suppression is off."""
        await self.sender.send(api, changes, lambda: bool(self.threshold_percent()))

    def problems(self) -> list[tuple[str, str]] | None:
        """Return reason and message of each problem, the most severe first; None where there is nothing to do.

        While suppression is off there is nothing to do once every limit is restored.
        """
        threshold = self.threshold_percent()
        if threshold is None or not (threshold or self._pods.is_lowered):
            return None
        problems = [] if self.sender.is_permitted else [("NotPermitted", NOT_PERMITTED)]
        if threshold and self.planner.usage is None and self._pods.mid:
            problems.append(("NoData", "the usage of Prod and system is unknown: no limit is lowered"))
        names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in self._pods.mid}
        for reason, outcome in (("QuotaExceeded", ResizeOutcome.QUOTA), ("ResizeRefused", ResizeOutcome.REFUSED)):
            refused = {
                uid: text for uid, (kind, text) in self.sender.refusals.items() if kind is outcome and uid in names
            }
            if refused:
                problems.append((reason, f"{_first([names[uid] for uid in refused])}: {next(iter(refused.values()))}"))
        pods = [(names[pod.uid], pod.mid) for pod in self._pods.mid if pod.mid is not None]
        if stuck := [f"{name} ({mid.resize_problem})" for name, mid in pods if mid.resize_problem]:
            problems.append(("ResizeNotDone", f"the kubelet does not do the resize of {_first(stuck)}"))
        if autoscaled := [f"{name} ({mid.autoscaler})" for name, mid in pods if mid.autoscaler]:
            problems.append((cpu_limits.AUTOSCALED, f"an autoscaler sets CPU of Mid pods too: {_first(autoscaled)}"))
        return problems

    def _follow_pods(self) -> None:
        self._pods = SuppressionPods.sort(self._view.pods)
        self.sender.keep_only({pod.uid for pod in self._pods.mid})
        for pod in self._pods.mid:
            if pod.mid is not None and pod.mid.resize_problem:
                text = f"the kubelet reports {pod.mid.resize_problem}; its limits stay until that condition ends"
                self.sender.log_once(pod.uid, f"pod {pod.namespace}/{pod.name}: resize: {text}")

    def _node(self, now: float) -> NodeCpu | None:
        capacity, allocatable = self._view.capacity, self._view.allocatable
        if capacity is None or allocatable is None:
            return None
        if now - self._waits_at >= _WAITS_SECONDS:
            self._waits_at, self._is_prod_short = now, self._has_short_prod(now)
        reserved = max(capacity.cpu_millis - allocatable.cpu_millis, 0) / 1000
        return NodeCpu(capacity.cpu_millis, reserved, self._is_prod_short)

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

    def _sample(self, now: float, threshold_percent: int, node: NodeCpu | None) -> None:
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
        usage = node_usage.from_samples(self._observer.newest, self._pods)
        if usage is not None and sampled_at is not None:
            threshold = node.capacity_millis * threshold_percent / 100_000
            self.planner.recent.add(max(begin, now - node_usage.STALE_SECONDS), now, usage, threshold)


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
