"""Count a pod on its node from the scores on, before kube-scheduler binds it: the extender's Reserve. Pure.

An in-process plugin learns the node before the next pod is scheduled. An extender learns it from the bind call, which
waits for volumes (up to ten minutes) and for other plugins. So a pod counts tentatively on the node that has the one
best score, or that alone passed the filter:

    begins     after the response of prioritize (a unique best node) or of filter (one node)
    lasts      5 s; longer while a claim of the pod carries `volume.kubernetes.io/selected-node` (which also corrects
               the node), and while other pods are evicted for the pod (`status.nominatedNodeName`)
    ends       with the next filter call of the pod, PodScheduled=False, its deletion; the bind call and the watch of
               bound pods replace it

A binding that failed ends it too, also after the bind call: PodScheduled=False with the reason SchedulerError.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Final

from api_types.kubernetes import pods
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.waiting_pods import WaitingPod, has_failed, is_unscheduled

RESERVED_SECONDS: Final = 5.0
_SETTLING_SECONDS: Final = 0.25
"""A condition PodScheduled=False that arrives so soon belongs to the attempt before."""
_FIRST_CHECK_SECONDS: Final = 1.0
_CHECK_SECONDS: Final = 3.0
_LATE_CHECK_SECONDS: Final = 15.0
_LATE_AFTER_SECONDS: Final = 30.0
_LONGEST_SECONDS: Final = 660.0  # kube-scheduler waits 600 s for a volume
_MOST: Final = 4096
_CLAIMS_AT_ONCE: Final = 16


class Reservation:
    """A pod that counts tentatively."""

    __slots__ = ("began_at", "check_at", "claims", "node", "nominated", "pod", "unread")

    def __init__(self, pod: pods.Pod, node: str, claims: Sequence[str], monotonic: float) -> None:
        self.pod = pod
        self.node = node
        self.claims = list(claims)
        """Names of the pod's PersistentVolumeClaims, in its namespace; the next to read comes first."""
        self.unread = len(self.claims)
        """Claims that were not read since one of them named a node, or since they were all read."""
        self.began_at = monotonic
        self.check_at = monotonic + _FIRST_CHECK_SECONDS
        self.nominated = False

    def next_claims(self) -> list[str]:
        """Return the claims to read now: a few at a time, in turns."""
        part, later = self.claims[:_CLAIMS_AT_ONCE], self.claims[_CLAIMS_AT_ONCE:]
        self.claims = later + part
        self.unread -= len(part)
        return part


class Reservations:
    """Reservations by pod UID. `now` is Unix time, `monotonic` is monotonic seconds."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_uid: dict[str, Reservation] = {}
        self.begun = 0
        """Number of reservations since the start."""
        self.moved = 0
        """Number of reservations whose node a claim corrected, since the start."""

    def __len__(self) -> int:
        """Return the number of pods that count tentatively."""
        return len(self._by_uid)

    def reserve(self, pod: pods.Pod, node: str, claims: Sequence[str], now: float, monotonic: float) -> None:
        """Count a pod on a node."""
        if len(self._by_uid) >= _MOST:
            self.end(self._oldest_of_the_greediest())
        self._by_uid[pod.metadata.uid] = Reservation(pod, node, claims, monotonic)
        self.begun += 1
        self._cluster.assume_pod(pod, node, now, ttl_seconds=RESERVED_SECONDS)

    def _oldest_of_the_greediest(self) -> str:
        """Return the oldest reservation of the namespace with the most: others keep theirs."""
        namespaces = [reservation.pod.metadata.namespace for reservation in self._by_uid.values()]
        ((greediest, _count),) = collections.Counter(namespaces).most_common(1)
        return next(uid for uid, reservation in self._by_uid.items() if reservation.pod.metadata.namespace == greediest)

    def end(self, uid: str) -> None:
        """Stop counting a pod, unless the bind call or the watch has confirmed it."""
        reservation = self._by_uid.pop(uid, None)
        if reservation is not None:
            self._cluster.forget_assumed(reservation.pod)

    def confirmed(self, uid: str) -> None:
        """Leave a pod to the bind call, which counts it for longer."""
        self._by_uid.pop(uid, None)

    def pod_changed(self, pod: WaitingPod, now: float, monotonic: float, *, has_new_outcome: bool = True) -> None:
        """Follow the conditions and the nomination of a pod without a node.

        Without a new outcome the conditions belong to an attempt before the reservation.
        """
        reservation = self._by_uid.get(pod.metadata.uid)
        if has_new_outcome and has_failed(pod):
            self._by_uid.pop(pod.metadata.uid, None)
            self._cluster.forget_assumed(pod)  # also one that the bind call has confirmed
            return
        if reservation is None:
            return
        reservation.nominated = bool(pod.status.nominated_node_name)
        if reservation.nominated:
            self._extend(reservation, pod.status.nominated_node_name, now, monotonic)
        elif has_new_outcome and is_unscheduled(pod) and monotonic - reservation.began_at > _SETTLING_SECONDS:
            self.end(pod.metadata.uid)

    def due(self, monotonic: float) -> list[Reservation]:
        """Return the reservations whose claims are to be read now; others end by their time."""
        due = []
        for uid, reservation in list(self._by_uid.items()):
            if reservation.check_at > monotonic:
                continue
            may_last = bool(reservation.claims or reservation.nominated)
            if monotonic - reservation.began_at >= (_LONGEST_SECONDS if may_last else RESERVED_SECONDS):
                self.end(uid)
            elif may_last:
                reservation.check_at = monotonic + _CHECK_SECONDS  # at the latest
                due.append(reservation)
        return due

    def checked(self, reservation: Reservation, selected_node: str | None, now: float, monotonic: float) -> None:
        """Go on with a reservation whose claims were read; `selected_node` is None where no claim has one."""
        uid = reservation.pod.metadata.uid
        if self._by_uid.get(uid) is not reservation:
            return
        if selected_node:
            self.moved += selected_node != reservation.node
            reservation.unread = len(reservation.claims)
            self._extend(reservation, selected_node, now, monotonic)
        elif reservation.nominated or reservation.unread > 0:
            self._extend(reservation, reservation.node, now, monotonic)
        elif monotonic - reservation.began_at >= RESERVED_SECONDS:
            self.end(uid)
        else:
            reservation.unread = len(reservation.claims)
            reservation.check_at = monotonic + _FIRST_CHECK_SECONDS

    def unread(self, reservation: Reservation, now: float, monotonic: float) -> None:
        """Go on with a reservation whose claims cannot be read now: a volume may be provisioned for the node."""
        reservation.unread = len(reservation.claims)
        self.still_read(reservation, now, monotonic)

    def still_read(self, reservation: Reservation, now: float, monotonic: float) -> None:
        """Go on with a reservation whose claims are not read yet."""
        if self._by_uid.get(reservation.pod.metadata.uid) is reservation:
            self._extend(reservation, reservation.node, now, monotonic)

    def _extend(self, reservation: Reservation, node: str, now: float, monotonic: float) -> None:
        is_late = monotonic - reservation.began_at > _LATE_AFTER_SECONDS
        pause = _LATE_CHECK_SECONDS if is_late else _CHECK_SECONDS
        reservation.node, reservation.check_at = node, monotonic + pause
        self._cluster.assume_pod(reservation.pod, node, now, ttl_seconds=pause + RESERVED_SECONDS)
