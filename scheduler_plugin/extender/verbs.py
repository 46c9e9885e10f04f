"""Verbs of the extender: from the bytes of a request to the bytes of its response. No sockets, no clock.

An extender does not learn which node kube-scheduler has chosen. A pod counts on the best node of the response of
prioritize, or on the only one that filter passes, until the watch shows it on a node, kube-scheduler asks about it
again, or 30 s pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from api_types.kubernetes import pods
from scheduler_plugin.decisions.deciding import Decider
from scheduler_plugin.extender.wire_types import (
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)
from scheduler_plugin.framework.interface import ReasonCodes, without_victims
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.pod_info import PodInfo

T = TypeVar("T")

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SET_CACHE_CAPABLE: Final = "set nodeCacheCapable: true for this extender in the KubeSchedulerConfiguration"
_ARGS: Final = msgspec.json.Decoder(ExtenderArgs)
_PREEMPTION: Final = msgspec.json.Decoder(ExtenderPreemptionArgs)


class BadExtenderCall(Exception):
    """A malformed request; the message states the problem."""


@dataclass(eq=False)
class Extender(Decider):
    """The verbs over one cluster state."""

    assumed_seconds: float = 30.0
    """How long a pod counts on its expected node; 0: not at all."""
    _filtered: str = ""
    """UID of the last pod that was filtered, before its prioritize call."""

    def filter(self, body: bytes, now: float) -> bytes:
        """Return the names of the nodes on which the pod may run. Raises BadExtenderCall."""
        args = _decode(_ARGS, body)
        names = _names(args)
        pod = self._begin(args.pod)
        rows = self.cluster.vectors.find(names)
        codes, texts = self.decide(pod, rows, now)
        self._filtered = pod.uid
        passing = names if codes is None else [name for name, code in zip(names, codes, strict=True) if code == 0]
        if passing:
            self.waits.passed(pod, self.cluster.monotonic())
            if len(passing) == 1:
                self._assume(args.pod, passing[0], now)
            return msgspec.json.encode(ExtenderFilterResult(node_names=passing))
        if names:
            self.follow_wait(pod, codes)
        return _none_passed(_reasons(names, codes, texts), args.pod.status.nominated_node_name)

    def prioritize(self, body: bytes, now: float) -> bytes:
        """Return the score of each node; an unknown node is left out, which counts as 0. Raises BadExtenderCall."""
        args = _decode(_ARGS, body)
        names = _names(args)
        rows = self.cluster.vectors.find(names)
        pod = self._begin(args.pod)
        if self._filtered != pod.uid:  # kube-scheduler does not call filter
            self.records.began(pod, rows, None, now, ())
        self._filtered = ""
        names = [name for name, row in zip(names, rows, strict=True) if row >= 0]
        rows = rows[rows >= 0]
        scores = self.scores(pod, rows, now)
        if names:
            self._assume(args.pod, names[int(scores.argmax())], now)
        return msgspec.json.encode([HostPriority(*entry) for entry in zip(names, scores.tolist(), strict=True)])

    def preempt(self, body: bytes, now: float) -> bytes:
        """Return the candidates that filter would pass once their victims are gone. Raises BadExtenderCall.

        kube-scheduler does not call filter in the dry run of a preemption: without this verb it evicts pods from nodes
        that filter rejects afterwards.
        """
        args = _decode(_PREEMPTION, body)
        candidates = args.node_name_to_meta_victims
        if candidates is None:
            if bytes(args.node_name_to_victims) not in (b"null", b"{}"):
                raise BadExtenderCall(f"got NodeNameToVictims, want NodeNameToMetaVictims: {_SET_CACHE_CAPABLE}")
            candidates = {}
        pod = self._begin(args.pod)
        names = list(candidates)
        victims = [(name, {victim.uid for victim in candidates[name].pods or ()}) for name in names]
        pending = without_victims(self.cluster.mid_requests, pod, victims)
        codes = self.cycle.filter(pod, self.cluster.vectors.find(names), now, pending)
        passing = names if codes is None else [name for name, code in zip(names, codes, strict=True) if code == 0]
        return msgspec.json.encode(ExtenderPreemptionResult({name: candidates[name] for name in passing}))

    def shown(self, pod: pods.Pod, now: float) -> None:
        """Follow a pod that the watch shows on its node."""
        self.cluster.pod_changed(pod, now)
        self.waits.end(pod.metadata.uid)
        if pod.spec.node_name:
            self.records.bound(pod_info.key(pod), pod.metadata.uid, pod.spec.node_name)

    def _begin(self, pod: pods.Pod) -> PodInfo:
        """Return the facts of a pod, with its wait where that is over; it counts no more by an earlier attempt."""
        info = pod_info.read(pod, self.estimator_args)
        self.cluster.stop_assuming(info.key, info.uid)
        return self.softened(info)

    def _assume(self, pod: pods.Pod, node: str, now: float) -> None:
        if self.assumed_seconds:
            self.cluster.assume_pod(pod, node, now, self.assumed_seconds)


def _none_passed(reasons: dict[str, str], nominated: str) -> bytes:
    """Return the response with the reasons. Rejections are unresolvable, except that of the nominated node.

    kube-scheduler lets a pod evict others again at once if its nominated node is unresolvable. Otherwise it waits until
    the evicted pods have left that node.
    """
    resolvable = {nominated: reasons.pop(nominated)} if nominated in reasons else None
    return msgspec.json.encode(
        ExtenderFilterResult(node_names=[], failed_nodes=resolvable, failed_and_unresolvable_nodes=reasons)
    )


def _reasons(names: Sequence[str], codes: ReasonCodes | None, texts: Sequence[str]) -> dict[str, str]:
    if codes is None:
        return {}
    return {name: texts[code - 1] for name, code in zip(names, codes.tolist(), strict=True) if code > 0}


def _names(args: ExtenderArgs) -> list[str]:
    if args.node_names is None and bytes(args.nodes) != b"null":
        raise BadExtenderCall(f"got Nodes, want NodeNames: {_SET_CACHE_CAPABLE}")
    return args.node_names or []


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except _UNREADABLE as error:
        raise BadExtenderCall(f"cannot decode the request body: {error}; want what kube-scheduler sends") from error
