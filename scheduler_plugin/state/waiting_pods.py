"""Pods that are not bound yet, as the watch shows them: what ends a reservation or a wait. Pure.

The filter request of kube-scheduler has all else that is known of such a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Final, NamedTuple

import msgspec

from api_types.kubernetes import pods

NOT_BOUND: Final = "spec.nodeName=,status.phase=Pending"
"""Field selector of these pods; a pod that is bound leaves the selection and arrives as deleted."""
_ERROR: Final = "SchedulerError"  # the reason that kube-scheduler states; a pod that fits nowhere is "Unschedulable"


class WaitingCondition(pods.ObjectCondition, rename="camel", frozen=True):
    """A condition, with its text."""

    message: str = ""


class WaitingPodStatus(msgspec.Struct, rename="camel", frozen=True):
    """Conditions, and the node for which other pods are evicted."""

    conditions: list[WaitingCondition] | None = None
    nominated_node_name: str = ""


class WaitingPod(msgspec.Struct, rename="camel", frozen=True):
    """A pod without a node."""

    metadata: pods.TenantMeta = pods.TenantMeta()
    status: WaitingPodStatus = WaitingPodStatus()


def is_unscheduled(pod: WaitingPod) -> bool:
    """Return whether kube-scheduler has given up its last attempt: the condition PodScheduled is False."""
    return _given_up(pod) is not None


def refusal(pod: WaitingPod) -> str:
    """Return the text with which kube-scheduler gave up its last attempt; empty before the first one."""
    condition = _given_up(pod)
    return condition.message if condition else ""


def has_failed(pod: WaitingPod) -> bool:
    """Return whether the last attempt ended with an error, such as a binding that failed, after a node was found."""
    condition = _given_up(pod)
    return condition is not None and condition.reason == _ERROR


def is_leaving(pod: WaitingPod) -> bool:
    """Return whether the pod is deleted and only waits for its finalizers: kube-scheduler does not try it again."""
    return pod.metadata.deletion_timestamp is not None


def _given_up(pod: WaitingPod) -> WaitingCondition | None:
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition
    return None


class _Shown(NamedTuple):
    """What is kept of a pod without a node."""

    uid: str
    outcome: int
    """Hash of the condition with which the last attempt was given up."""
    is_nominated: bool


class WaitingPods:
    """Pods without a node by key; `on_changed` gets a shown pod, `on_gone` the UID of one that left.

    `on_changed` also gets whether the pod shows the end of another attempt. The condition of an earlier attempt stays
    while the next one goes on, and comes again with every change of the pod; kube-scheduler does not repeat a patch.
    """

    def __init__(self, on_changed: Callable[[WaitingPod, bool], None], on_gone: Callable[[str], None]) -> None:
        self._on_changed = on_changed
        self._on_gone = on_gone
        self._shown: dict[tuple[str, str], _Shown] = {}

    def changed(self, pod: WaitingPod) -> None:
        """Store a pod that the watch shows."""
        key = pod.metadata.namespace, pod.metadata.name
        before = self._shown.get(key)
        if before is not None and before.uid != pod.metadata.uid:
            self._on_gone(before.uid)
            before = None
        shown = _Shown(pod.metadata.uid, hash(_given_up(pod)), bool(pod.status.nominated_node_name))
        self._shown[key] = shown
        is_repeated = (
            before is not None and before.outcome == shown.outcome and before.is_nominated <= shown.is_nominated
        )
        self._on_changed(pod, not is_repeated)

    def gone(self, namespace: str, name: str) -> None:
        """Drop a pod that was bound or deleted."""
        shown = self._shown.pop((namespace, name), None)
        if shown is not None:
            self._on_gone(shown.uid)

    def keep(self, existing: Container[tuple[str, str]]) -> Iterator[None]:
        """Drop the pods that a new list no longer contains, one with each step."""
        for namespace, name in [key for key in self._shown if key not in existing]:
            self.gone(namespace, name)
            yield
