"""Suppression of a node: measures what Mid pods may use, plans their CPU limits, and states what goes wrong.

Nothing here holds up a tick: planning is arithmetic, and sending is a task of its own. While suppression is off and no
limit is lowered, a tick costs a comparison.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods import cpu_limits
from apiserver_client import cluster_events, errors, objects, resources, session
from apiserver_client.decoding import Envelope
from component_base.logs import some
from koordlet import node_observer
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode
from koordlet.cluster.view import ClusterView
from koordlet.collectors import capped_usage, pod_pressure
from koordlet.metric_cache import series
from koordlet.mid_suppression import node_usage
from koordlet.mid_suppression.node_usage import CpuWaits, RecentUsage, SuppressionPods
from koordlet.mid_suppression.planner import Change, NodeCpu, Planner
from koordlet.node_observer import NodeObserver
from koordlet.samples import Resource, pod_key

log = logging.getLogger(__name__)

REPORTER: Final = "koordlet"
TIMEOUT_SECONDS: Final = 5.0
BLOCKED_SECONDS: Final = 300.0
"""Pause after an answer that holds for every pod: the agent has no right."""
UNREACHABLE_SECONDS: Final = 10.0
PLAN_SECONDS: Final = 10.0
"""Age from which the rest of a plan is dropped."""
_MANY_CONFLICTS: Final = 3
"""Conflicts in a row that are a problem: a pod may change once in a while."""
NOT_PERMITTED: Final = "the agent may not patch pods/resize: set the chart value koordlet.suppression.enabled"
_WITHOUT_RIGHT: Final = 'cannot patch resource "pods/resize"'


class ResizeOutcome(enum.StrEnum):
    """ResizeOutcome of a patch; the label of the counter."""

    PATCHED = "patched"
    CONFLICT = "conflict"
    GONE = "gone"
    QUOTA = "quota"
    REFUSED = "refused"
    NOT_PERMITTED = "not_permitted"
    UNREACHABLE = "unreachable"


_OUTCOMES: Final = (
    (errors.NotFound, ResizeOutcome.GONE),
    (errors.Conflict, ResizeOutcome.CONFLICT),
    (errors.ServerError, ResizeOutcome.UNREACHABLE),
    (errors.Throttled, ResizeOutcome.UNREACHABLE),
    (errors.StatusError, ResizeOutcome.REFUSED),
)
"""ResizeOutcome of an error: that of the first kind that it is."""


class SentResize(NamedTuple):
    """ResizeOutcome of one patch."""

    outcome: ResizeOutcome
    problem: str = ""
    quota: str = ""
    """Name of the ResourceQuota that refused it."""
    retry_after_seconds: float = 0.0


async def send(api: session.Session, change: Change) -> SentResize:
    """Patch the limits of one pod."""
    pod = change.pod
    assert pod.mid is not None
    manager = cpu_limits.field_manager(pod.mid.containers)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await objects.resize(
                api,
                pod.name,
                cpu_limits.patch(pod.uid, pod.mid, change.limits),
                namespace=pod.namespace,
                field_manager=manager,
                decode=Envelope,
            )
    except TimeoutError:
        return SentResize(
            ResizeOutcome.UNREACHABLE, f"no answer to the resize of {pod.namespace}/{pod.name} in {TIMEOUT_SECONDS:g} s"
        )
    except errors.ApiServerError as error:
        return _refused(error)
    return SentResize(ResizeOutcome.PATCHED)


def _refused(error: errors.ApiServerError) -> SentResize:
    problem = str(error)
    match error:
        case errors.Forbidden() if quota := cpu_limits.refusing_quota(error.server_message):
            return SentResize(ResizeOutcome.QUOTA, problem, quota)
        case errors.Forbidden() if _WITHOUT_RIGHT in error.server_message:
            return SentResize(ResizeOutcome.NOT_PERMITTED, problem)
        case errors.Invalid() if any(cause.field == "metadata.uid" for cause in error.causes):
            return SentResize(ResizeOutcome.CONFLICT, problem)
    outcome = next((outcome for kind, outcome in _OUTCOMES if isinstance(error, kind)), ResizeOutcome.UNREACHABLE)
    return SentResize(outcome, problem, retry_after_seconds=error.retry_after_seconds or 0.0)


class Sender:
    """Sends the plans of one node, one after the other. Not thread-safe. Times are of a monotonic clock."""

    def __init__(self, planner: Planner, monotonic: Callable[[], float], utc_now: Callable[[], dt.datetime]) -> None:
        self._planner = planner
        self._monotonic = monotonic
        self._utc_now = utc_now
        self.patches = {(direction, outcome): 0 for direction in ("down", "up") for outcome in ResizeOutcome}
        """Patches since the agent started, by direction and outcome."""
        self.is_permitted = True
        """False after an answer that the agent has no right, until the next patch that succeeds."""
        self.refusals: dict[str, tuple[ResizeOutcome, str]] = {}
        """UID of a pod -> why the API server refused its newest patch."""
        self._is_sending = False
        self._blocked_until = 0.0
        self._logged: set[tuple[str, str]] = set()
        self._autoscaled: set[str] = set()
        """UIDs of pods with an Event that names their autoscaler."""

    def is_ready(self, now: float) -> bool:
        """Return whether a plan may be sent now: none is being sent, and no pause holds for all pods."""
        return not self._is_sending and now >= self._blocked_until

    async def send(self, api: session.Session, changes: Sequence[Change], may_lower: Callable[[], bool]) -> None:
        """Send a plan. Stops where the rest would be answered alike, is out of date, or limits may not be lowered."""
        self._is_sending = True
        try:
            begin = self._monotonic()
            for change in changes:
                now = self._monotonic()
                if now - begin >= PLAN_SECONDS or (change.is_lowering and not may_lower()):
                    return
                await self._send_one(api, change, now)
                if self._monotonic() < self._blocked_until:
                    return
        finally:
            self._is_sending = False

    def keep_only(self, uids: AbstractSet[str]) -> None:
        """Drop what is kept of other pods."""
        self.refusals = {uid: refusal for uid, refusal in self.refusals.items() if uid in uids}
        self._autoscaled &= uids
        self._logged = {(uid, text) for uid, text in self._logged if uid in uids or not uid}

    def log_once(self, uid: str, text: str) -> None:
        """Log a problem of a pod, or of all pods with an empty UID, unless the same was logged before."""
        if (uid, text) not in self._logged:
            self._logged.add((uid, text))
            log.warning("%s", text)

    async def _send_one(self, api: session.Session, change: Change, now: float) -> None:
        pod = change.pod
        self._planner.sent(now, change)
        sent = await send(api, change)
        self._record_outcome(self._monotonic(), change, sent)
        if sent.outcome is ResizeOutcome.QUOTA:
            await self._post_event(
                api, pod, cpu_limits.NOT_RESTORED, cpu_limits.quota_advice(sent.quota, pod.namespace)
            )
        if pod.mid is not None and pod.mid.autoscaler and pod.uid not in self._autoscaled:
            self._autoscaled.add(pod.uid)
            await self._post_event(api, pod, cpu_limits.AUTOSCALED, cpu_limits.autoscaler_advice(pod.mid.autoscaler))

    def _record_outcome(self, now: float, change: Change, sent: SentResize) -> None:
        pod, outcome = change.pod, sent.outcome
        self.patches["down" if change.is_lowering else "up", outcome] += 1
        if outcome is ResizeOutcome.PATCHED:
            self._planner.done(change)
            self.refusals.pop(pod.uid, None)
            self.is_permitted = True
        elif outcome is ResizeOutcome.NOT_PERMITTED:
            self.is_permitted, self._blocked_until = False, now + BLOCKED_SECONDS
            self.log_once("", f"suppression of Mid pods: {NOT_PERMITTED}: {sent.problem}")
        elif outcome is ResizeOutcome.UNREACHABLE:
            self._blocked_until = now + max(UNREACHABLE_SECONDS, sent.retry_after_seconds)
            self._planner.slow_down(self._blocked_until)
        else:
            in_a_row = self._planner.failed(now, change)
            problem = cpu_limits.quota_advice(sent.quota, pod.namespace) if sent.quota else sent.problem
            if outcome in (ResizeOutcome.CONFLICT, ResizeOutcome.GONE):
                if in_a_row < _MANY_CONFLICTS:
                    return
                outcome, problem = ResizeOutcome.REFUSED, f"the pod changes before each patch of it arrives: {problem}"
            self.refusals[pod.uid] = outcome, problem
            self.log_once(pod.uid, f"pod {pod.namespace}/{pod.name}: resize refused: {problem}; trying again")

    async def _post_event(self, api: session.Session, pod: PodOnNode, reason: str, message: str) -> None:
        """Post an Event on a pod. An equal one of the last hour, or a missing right, is no fault."""
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
        except errors.AlreadyExists:
            pass
        except errors.ApiServerError as error:
            log.debug("Event on pod %s/%s is not recorded: %s", pod.namespace, pod.name, error)


_WAITS_SECONDS: Final = 5.0
_LEAST_NAMED_CORES: Final = 0.1
"""Usage beyond limits that is named: a pod may exceed a limit that holds by a little, for a moment."""


@dataclass(eq=False)
class Suppressor:
    """Suppression of one node. Not thread-safe: one event loop calls everything. Times are of a monotonic clock."""

    observer: NodeObserver
    view: ClusterView
    monotonic: Callable[[], float]
    utc_now: Callable[[], dt.datetime]
    _: KW_ONLY
    is_enabled: bool

    def __post_init__(self) -> None:
        self.planner = Planner(self.monotonic())
        self.sender = Sender(self.planner, self.monotonic, self.utc_now)
        self.failures = 0
        """Plans that failed by an error of the agent."""
        self._pods = SuppressionPods(-1, (), False, frozenset())
        self._sampled_at: float | None = None
        self._last_sample: float | None = self.monotonic()
        """Time of the newest sample; None after a time without any."""
        self._waits_at = 0.0
        self._is_prod_short = False
        self._cpu_waits = CpuWaits()

    @property
    def lowered_pods(self) -> int:
        """Return the number of pods with a limit below its original."""
        return sum(pod.mid is not None and pod.mid.is_lowered for pod in self._pods.mid)

    def threshold_percent(self) -> int | None:
        """Return the threshold in force, 0 where suppression is off, None before the cluster is known."""
        view = self.view
        if not view.pods.synced or not view.watches["node_metric"].synced:
            return None
        if not self.is_enabled or view.resource_version is None:  # deleted, as by an uninstallation
            return 0
        return spec_in_force.suppress_threshold_percent(view.spec.mid_colocation_policy)

    def plan(self) -> list[Change]:
        """Return the patches to send now, none while others are being sent. Call once after each tick."""
        threshold = self.threshold_percent()
        if threshold is None:
            self._last_sample = None
            return []
        if self._pods.version != self.view.pods.version:
            self._follow_pods()
        if threshold == 0 and not self._pods.is_lowered:
            self.sender.is_permitted = True
            self._last_sample = self.planner.allowed_millis = self.planner.usage = None
            return []
        now = self.monotonic()
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
                problems.append((reason, f"{some([names[uid] for uid in refused])}: {next(iter(refused.values()))}"))
        pods = [(names[pod.uid], pod.mid) for pod in self._pods.mid if pod.mid is not None]
        if stuck := [f"{name} ({mid.resize_problem})" for name, mid in pods if mid.resize_problem]:
            problems.append(("ResizeNotDone", f"the kubelet does not do the resize of {some(stuck)}"))
        if unlimited := self._beyond_limits():
            text = f"other Mid pods, and then Prod, pay for CPU of Mid pods that no limit lowers: {some(unlimited)}"
            problems.append(("UsageBeyondLimits", text))
        if autoscaled := [f"{name} ({mid.autoscaler})" for name, mid in pods if mid.autoscaler]:
            problems.append((cpu_limits.AUTOSCALED, f"an autoscaler sets CPU of Mid pods too: {some(autoscaled)}"))
        return problems

    def _beyond_limits(self) -> list[str]:
        """Return each pod that uses CPU beyond its limits, while limits are lowered, the largest use first."""
        if not (self.planner.is_busy or self._is_prod_short or self._pods.is_lowered):
            return []
        used = [
            (self.planner.beyond_limits_cores(pod) + pod.mid.pinned_millis / 1000, pod, pod.mid)
            for pod in self._pods.mid
            if pod.mid is not None
        ]
        return [
            f"{pod.namespace}/{pod.name} ({cores:.2g} cores: "
            f"{mid.unlimited or mid.resize_problem or 'its limits do not hold'})"
            for cores, pod, mid in sorted(used, key=lambda each: -each[0])
            if cores >= _LEAST_NAMED_CORES
        ]

    def _follow_pods(self) -> None:
        self._pods = SuppressionPods.sort(self.view.pods)
        self.sender.keep_only({pod.uid for pod in self._pods.mid})
        for pod in self._pods.mid:
            if pod.mid is not None and pod.mid.resize_problem:
                text = f"the kubelet reports {pod.mid.resize_problem}; new limits wait until that condition ends"
                self.sender.log_once(pod.uid, f"pod {pod.namespace}/{pod.name}: resize: {text}")

    def _node(self, now: float) -> NodeCpu | None:
        capacity, allocatable = self.view.capacity, self.view.allocatable
        if capacity is None or allocatable is None:
            return None
        if now - self._waits_at >= _WAITS_SECONDS:
            self._waits_at, self._is_prod_short = now, self._has_short_prod(now)
        reserved = max(capacity.cpu_millis - allocatable.cpu_millis, 0) / 1000
        shared = capacity.cpu_millis - sum(self._exclusive().values())
        return NodeCpu(max(shared, 0), reserved, self._is_prod_short)

    def _exclusive(self) -> Mapping[str, int]:
        """Return the CPUs outside of the shared pool, to which alone everything here applies."""
        return node_observer.exclusive_cpus(self.observer.pods_by_uid, self.observer.collector.collectors)

    def _has_short_prod(self, now: float) -> bool:
        pods, collectors = self.observer.pods_by_uid, self.observer.collector.collectors
        waiting = self._cpu_waits.waiting(now, pod_pressure.waits(collectors, Resource.CPU))
        return any(
            (pod := pods.get(uid)) is not None and series.counted_class(pod.priority_class) is PriorityClass.PROD
            for uid in waiting.union(capped_usage.throttled(collectors))
        )

    def _sample(self, now: float, threshold_percent: int, node: NodeCpu | None) -> None:
        """Add the newest sample, which is the mean since the one before it."""
        sampled_at = self.observer.newest_at_seconds
        if node is None:
            self._last_sample = None
            return
        if sampled_at == self._sampled_at:
            return
        begin, self._last_sample, self._sampled_at = self._last_sample, now, sampled_at
        if begin is None:  # the time that it covers is unknown, and earlier samples are of another time
            self.planner.recent = RecentUsage()
            return
        usage = node_usage.from_samples(self.observer.newest, self._pods)
        if usage is not None and sampled_at is not None:
            newest = self.observer.newest
            alone = sum(newest[key].cpu_cores for key in map(pod_key, self._exclusive()) if key in newest)
            usage = usage._replace(node=usage.node - alone, prod=max(usage.prod - alone, 0.0))
            threshold = node.capacity_millis * threshold_percent / 100_000
            beyond_limits = self.planner.note_usage(now, self._pods.mid, self.observer.newest)
            usage = usage._replace(beyond_limits=beyond_limits)
            self.planner.recent.add(max(begin, now - node_usage.STALE_SECONDS), now, usage, threshold)
