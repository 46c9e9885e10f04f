"""Verbs of the extender: from the bytes of a request to the bytes of its response. No sockets, no clock.

- filter, or prioritize where kube-scheduler calls no filter, forgets the assumed pod of an earlier try, and keeps the
  pod for its bind call;
- after the response of filter, `prepare` encodes the response of prioritize: kube-scheduler sends the same pod and the
  names of the filter response, so that the call costs one comparison. A request that differs is decoded as usual;
- preempt forgets it as well, and removes the nodes that filter would reject after the evictions;
- bind assumes the pod on its node, and responds with an error: kube-scheduler (with `ignorable: true`) then binds the
  pod itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.extender import response_rows, wire_types
from scheduler_plugin.extender.pending_cycle import Passed, PendingCycle, Placement
from scheduler_plugin.extender.wire_types import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    MetaVictims,
)
from scheduler_plugin.framework.interface import Pending, ReasonCodes, SchedulingCycle, combined
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from scheduler_plugin.queueing.load_waits import LoadWaits
from scheduler_plugin.queueing.refused_pods import RefusedPods
from scheduler_plugin.queueing.reservations import Reservations
from scheduler_plugin.state import mid_quotas, pod_info
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.node_columns import Ints, Rows
from scheduler_plugin.state.pod_info import PodInfo
from scheduler_plugin.state.vectors import LARGEST_SUM

T = TypeVar("T")

_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_NO_PLACEMENT: Final = Placement("", -1)
_SET_CACHE_CAPABLE: Final = "set nodeCacheCapable: true for this extender in the KubeSchedulerConfiguration"
_POD_KEY: Final = b'{"Pod":{'
_NAMES_KEY: Final = b'"NodeNames":['
_ARGS: Final = msgspec.json.Decoder(ExtenderArgs)
_PREEMPTION: Final = msgspec.json.Decoder(ExtenderPreemptionArgs)
_BINDING: Final = msgspec.json.Decoder(ExtenderBindingArgs)

BINDING_RECORDED: Final = msgspec.json.encode(
    {"Error": "binding recorded; kube-scheduler binds the pod (this extender is ignorable)"}
)


class BadExtenderCall(Exception):
    """A malformed request; the message states the problem."""


class Extender:
    """The verbs over one cluster state."""

    def __init__(
        self,
        cluster: Cluster,
        cycle: SchedulingCycle,
        responses: response_rows.ResponseRows,
        estimator_args: EstimatorArgs,
        records: DecisionRecords,
        *,
        refused: RefusedPods,
        reservations: Reservations,
        waits: LoadWaits,
        short_list: int = 0,
    ) -> None:
        """Build the verbs. With `short_list`, filter passes at most so many nodes, those with the best scores."""
        self._cluster = cluster
        self._vectors = cluster.vectors
        self._cycle = cycle
        self._responses = responses
        self._estimator_args = estimator_args
        self._records = records
        self._refused = refused
        self._reservations = reservations
        self._waits = waits
        load_codes = [code for code, name in enumerate(cycle.rejecting_plugins, start=1) if name == LoadAware.name]
        self._load_codes: ReasonCodes = np.array(load_codes, dtype=np.int16)
        self._short_list = short_list
        self._first_of_equals = 0
        self._pending = PendingCycle()
        self._placement = _NO_PLACEMENT
        """Node of the pod of the last call, to be reserved after its response."""
        self.rejections: list[int] = [0] * (1 + len(cycle.reasons))
        """Number of rejected nodes by reason code, since the start."""
        self.outcomes: dict[str, int] = dict.fromkeys(("all_passed", "some_rejected", "none_passed"), 0)
        """Number of filter calls by outcome, since the start."""
        self.preemption_candidates: dict[str, int] = dict.fromkeys(("kept", "removed"), 0)
        """Number of nodes in preempt calls by outcome, since the start."""

    def filter(self, body: bytes, now: float) -> bytes:
        """Return the names of the nodes on which the pod may run. Raises BadExtenderCall."""
        args = _decode(_ARGS, body)
        names = _names(args)
        self._cluster.serve_scheduler(args.pod.spec.scheduler_name)
        pod_end = self._begin(args, body)
        rows = self._vectors.find(names)
        pod = self._read(args.pod)
        codes = self._cycle.filter(pod, rows, now)
        texts = self._cycle.reasons if codes is None else self._cycle.reason_texts(pod)
        self._records.began(pod, rows, names, codes, now, reasons=texts)
        self._count(codes)
        passing = rows if codes is None else rows[codes == 0]
        if 0 < self._short_list < len(passing) and passing.min() >= 0:
            passing = self._best(pod, passing, now)
        if not len(passing):
            self.drop_pod(pod.uid)
            if len(rows):
                self._refused.refuse(pod, rows)
                self._follow_wait(pod, codes)
            return self._none_passed(_reasons(names, codes, texts), args.pod.status.nominated_node_name)
        self._refused.forget(pod.uid)
        self._cluster.expect_pod(pod)
        self._waits.passed(pod, self._cluster.monotonic())
        if len(passing) == 1:
            self._placement = Placement(pod.uid, int(passing[0]))
        if passing.min() < 0:  # a node that kube-scheduler knows and the watch does not show yet
            passed = names if codes is None else [name for name, code in zip(names, codes, strict=True) if code == 0]
            return msgspec.json.encode(ExtenderFilterResult(node_names=passed))
        encoded = self._responses.node_names(passing)
        if len(passing) > 1 and pod_end >= 0:
            self._pending.pass_on(Passed(body[: pod_end + len(_NAMES_KEY)], pod, passing, now))
        return b'{"NodeNames":[%b]}' % encoded

    def _read(self, pod: pods.Pod) -> PodInfo:
        """Return the facts of a pod, with its wait where that is over."""
        info = pod_info.read(pod, self._estimator_args)
        return self._waits.softened(info, self._cluster.monotonic())

    def _follow_wait(self, pod: PodInfo, codes: ReasonCodes | None) -> None:
        if pod.is_prod and codes is not None and np.isin(codes, self._load_codes).all():
            self._waits.refused(pod, self._cluster.monotonic())
        else:
            self._waits.end(pod.uid)

    def _none_passed(self, reasons: dict[str, str], nominated: str) -> bytes:
        """Return the response with the reasons. Rejections are unresolvable, except that of the nominated node.

        kube-scheduler lets a pod evict others again at once if its nominated node is unresolvable. Otherwise it waits
        until the evicted pods have left that node.
        """
        resolvable = {nominated: reasons.pop(nominated)} if nominated in reasons else None
        return msgspec.json.encode(
            ExtenderFilterResult(node_names=[], failed_nodes=resolvable, failed_and_unresolvable_nodes=reasons)
        )

    def _begin(self, args: ExtenderArgs, body: bytes) -> int:
        """Begin the cycle of a pod; return the end of its JSON in the body, -1 in an encoding that is not expected."""
        self._pending.begin(args.pod.metadata.uid)
        self._placement = _NO_PLACEMENT
        self._end_earlier_attempt(args.pod)
        # No string in the pod can contain these keys: quotes inside a string are escaped.
        pod_end = body.find(_NAMES_KEY) if body.startswith(_POD_KEY) else -1
        self._pending.keep_pod(wire_types.slim(args.pod), pod_end)
        return pod_end

    def _end_earlier_attempt(self, pod: pods.Pod) -> None:
        self._reservations.end(pod.metadata.uid)
        self._cluster.forget_assumed(pod)
        self._vectors.mid_quotas.end(pod.metadata.uid)

    def reserve(self, now: float, monotonic: float) -> None:
        """Count the pod of the last call on the node that it is expected to run on. Called after the response."""
        (uid, row), self._placement = self._placement, _NO_PLACEMENT
        pod = self._pending.find_pod(uid) if row >= 0 else None
        if pod is not None:
            claims = wire_types.claim_names(pod)
            self._reservations.reserve(pod, self._responses.node_name(row), claims, now, monotonic)

    def drop_pod(self, uid: str) -> None:
        """Drop a pod that was kept for its bind call."""
        self._pending.take_pod(uid)

    def prepare(self) -> None:
        """Encode the prioritize response for the nodes that filter has just passed."""
        passed = self._pending.take_passed()
        if passed is None:
            return
        names = self._responses.node_names(passed.rows)
        response, placement = self._prioritized(passed.pod, passed.rows, passed.at)
        self._pending.expect(passed, b"%b%b]}" % (passed.head, names), response, placement, self._vectors.version)

    def seal_record(self) -> None:
        """Copy the inputs of the last decision into its record. Called after the prioritize response was written."""
        self._records.seal()

    def prioritize(self, body: bytes, now: float) -> bytes:
        """Return the score of each node; an unknown node is left out, which counts as 0. Raises BadExtenderCall."""
        self.prepare()
        prepared = self._pending.response_to(body, self._vectors, now)
        if prepared is not None:
            response, self._placement = prepared
            return response
        args = _decode(_ARGS, body)
        names = _names(args)
        rows = self._vectors.find(names)
        pod = self._read(args.pod)
        if not self._pending.concerns(pod.uid):  # the cycle begins here where kube-scheduler does not call filter
            self._begin(args, body)
            self._cluster.expect_pod(pod)  # which that has ended, where another scheduler called in between
            self._records.began(pod, rows, names, None, now)
        self._pending.end()
        rows = rows[rows >= 0]
        response, self._placement = self._prioritized(pod, rows, now)
        return response

    def _prioritized(self, pod: PodInfo, rows: Rows, now: float) -> tuple[bytes, Placement]:
        by_plugin = self._cycle.scores_by_plugin(pod, rows, now)
        scores = combined(by_plugin, len(rows))
        self._records.scored(pod, rows, by_plugin, scores)
        best = np.flatnonzero(scores == scores.max(initial=-1))
        if len(best) > 1 and len(rows) > 1 and self._waits_for_volumes(pod.uid):
            best = best[[hash(pod.uid) % len(best)]]
            scores = _preferred(scores, int(best[0]))
        placement = Placement(pod.uid, int(rows[best[0]]) if len(best) == 1 else -1)
        return self._responses.priorities(rows, scores), placement

    def _waits_for_volumes(self, uid: str) -> bool:
        pod = self._pending.find_pod(uid)
        return pod is not None and bool(wire_types.claim_names(pod))

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
        self._end_earlier_attempt(args.pod)  # or the pod counts against itself
        pod = self._read(args.pod)
        names = list(candidates)
        rows = self._vectors.find(names)
        pending = self._without_victims(pod, names, candidates)
        codes = self._cycle.filter(pod, rows, now, pending)
        passing = names if codes is None else [name for name, code in zip(names, codes, strict=True) if code == 0]
        self.preemption_candidates["kept"] += len(passing)
        self.preemption_candidates["removed"] += len(names) - len(passing)
        if passing:
            self._cluster.expect_pod(pod)
        return msgspec.json.encode(ExtenderPreemptionResult({name: candidates[name] for name in passing}))

    def _without_victims(self, pod: PodInfo, names: Sequence[str], candidates: Mapping[str, MetaVictims]) -> Pending:
        """Credit the Mid requests of the victims; nothing else of them is known to be free once they are gone."""
        freed = np.zeros((2, len(names)), dtype=np.int64)
        of_namespace = freed.copy()
        if pod.mid_cpu_millis or pod.mid_memory_bytes:
            namespace = mid_quotas.pod_namespace(pod.key)
            for column, name in enumerate(names):
                victims = {victim.uid for victim in candidates[name].pods or ()}
                for array, only in ((freed, ""), (of_namespace, namespace)):
                    sums = self._cluster.mid_requests(name, victims, only)
                    array[:, column] = [min(amount, LARGEST_SUM) for amount in sums]
        return Pending(mid=-freed, mid_of_namespace=-of_namespace)

    def bind(self, body: bytes, now: float) -> bytes:
        """Assume the pod on its node, and respond with an error: kube-scheduler binds it. Raises BadExtenderCall."""
        binding = _decode(_BINDING, body)
        key = pod_info.pod_key(binding.pod_namespace, binding.pod_name)
        self._records.bound(key, binding.pod_uid, binding.node, self._vectors.rows.get(binding.node))
        self._refused.forget(binding.pod_uid)
        self._reservations.confirmed(binding.pod_uid)
        pod = self._pending.take_pod(binding.pod_uid)
        if pod is not None:
            self._cluster.assume_pod(pod, binding.node, now)
        return BINDING_RECORDED

    def _best(self, pod: PodInfo, rows: Rows, now: float) -> Rows:
        """Return the rows of the short list, in their order. Equal nodes take turns, so that none stays unused."""
        self._first_of_equals = (self._first_of_equals + self._short_list) % len(rows)
        turned = np.roll(rows, -self._first_of_equals)
        by_plugin = self._cycle.scores_by_plugin(pod, turned, now)
        scores = combined(by_plugin, len(turned))
        best = np.argsort(-scores, kind="stable")[: self._short_list]
        return rows[np.sort((best + self._first_of_equals) % len(rows))]

    def _count(self, codes: ReasonCodes | None) -> None:
        if codes is None:
            self.outcomes["all_passed"] += 1
            return
        self.outcomes["none_passed" if codes.all() else "some_rejected"] += 1
        for code, count in enumerate(np.bincount(codes)):
            self.rejections[code] += int(count)


def _reasons(names: Sequence[str], codes: ReasonCodes | None, texts: Sequence[str]) -> dict[str, str]:
    if codes is None:
        return {}
    return {name: texts[code - 1] for name, code in zip(names, codes.tolist(), strict=True) if code > 0}


def _preferred(scores: Ints, index: int) -> Ints:
    """Return the scores with one of several best nodes ahead of the others.

    A pod with claims is bound when its volumes are there. Without one best node it would not count until then.
    """
    result = scores.astype(np.int64)
    result[index] += 1
    return result


def _names(args: ExtenderArgs) -> list[str]:
    if args.node_names is None and bytes(args.nodes) != b"null":
        raise BadExtenderCall(f"got Nodes, want NodeNames: {_SET_CACHE_CAPABLE}")
    return args.node_names or []


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except _UNREADABLE as error:
        raise BadExtenderCall(f"cannot decode the request body: {error}; want what kube-scheduler sends") from error
