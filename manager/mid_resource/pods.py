"""Requests of the pods on a node, from one pod list: where the agent does not report them, and while Mid shrinks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, times
from api_types.node_metric.mid_report import Requests
from apiserver_client import objects, resources, session


class MidPod(NamedTuple):
    """Mid requests of a pod that the kubelet admitted, and the time of its binding; None where it has none."""

    requests: pods.Resources
    bound_at: dt.datetime | None
    is_leaving: bool = False
    """Whether it terminates: no kubelet needs its resources to be published."""


class NodePods(NamedTuple):
    """Requests of the pods on a node."""

    prod: pods.Resources
    mid: tuple[MidPod, ...]
    is_old: bool = False
    """Whether these are of an earlier list, because the newest one failed: a report may know better."""

    def requests(self) -> Requests:
        """Sum the requests of all pods."""
        return Requests(self.prod, _sum(pod.requests for pod in self.mid))

    def mid_bound_until(self, time: dt.datetime) -> pods.Resources:
        """Sum the requests of the Mid pods that stay and were bound no later than in the second of `time`."""
        end = time.replace(microsecond=0)  # the precision of the times in conditions
        stay = (pod for pod in self.mid if not pod.is_leaving)
        return _sum(pod.requests for pod in stay if pod.bound_at is not None and pod.bound_at <= end)


class ListedPods(NamedTuple):
    """The newest pod list of a node: at most one for a sample, and without one at most one in `period`."""

    sample: dt.datetime | None
    at: dt.datetime
    pods: NodePods | None

    def counts(
        self, sample: dt.datetime | None, now: dt.datetime, since: dt.datetime | None, period: dt.timedelta
    ) -> bool:
        """Check whether the list need not be renewed.

        With `since`, a list from before that time is renewed: it lacks pods that were bound until then.
        """
        is_recent = self.sample == sample if sample is not None else now - period < self.at <= now
        return is_recent and not (since is not None and self.at < since <= now)


async def list_node(
    api: session.Session, node: str, newly_evicted: Callable[[], Collection[str]] = frozenset
) -> NodePods:
    """List a node's pods once, from the apiserver's cache. Raises errors.ApiServerError.

    That cache may not show yet that some pods terminate; `newly_evicted` returns their UIDs.
    """
    selector = f"spec.nodeName={node}"
    listing = await objects.list_all(api, resources.PODS, field_selector=selector, decode=pods.Pod, from_cache=True)
    return summed(listing.items, newly_evicted())


def summed(bound: Iterable[pods.Pod], evicted: Collection[str] = ()) -> NodePods:
    """Sum the native requests of Prod pods, and read the Mid requests of pods that the kubelet admitted.

    Prod pods count from their binding on, and a pod of unknown priority class counts as Prod: their requests are not
    given to Mid. Of Mid, only what the kubelet admitted runs: `spec.nodeName` alone may be written by a pod's author.
    """
    prod: pods.Resources = {}
    mid: list[MidPod] = []
    for pod in bound:
        if pods.is_terminal(pod):
            continue
        requests = pods.requests(pod.spec)
        own = {name: requests[name] for name in names.MID_RESOURCES if requests.get(name, 0) > 0}
        if own and pods.is_admitted(pod):
            is_leaving = pod.metadata.deletion_timestamp is not None or pod.metadata.uid in evicted
            mid.append(MidPod(own, _bound_at(pod), is_leaving))
        if priority_and_qos.priority_class(pod) is priority_and_qos.PriorityClass.PROD:
            for name in (names.CPU, names.MEMORY):
                prod[name] = prod.get(name, 0) + requests.get(name, 0)
    return NodePods(prod, tuple(mid))


def _bound_at(pod: pods.Pod) -> dt.datetime | None:
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) == ("PodScheduled", "True"):
            return times.parse_rfc3339_or_none(condition.last_transition_time)
    return None


def _sum(requests: Iterable[pods.Resources]) -> pods.Resources:
    total = dict.fromkeys(names.MID_RESOURCES, 0)
    for amounts in requests:
        for name, amount in amounts.items():
            total[name] += amount
    return total
