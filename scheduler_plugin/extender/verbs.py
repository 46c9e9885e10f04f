"""The verbs of the extender: a request's bytes in, the answer's bytes out. No sockets, no clock.

- filter forgets what an earlier try of the pod left behind, and remembers the pod for its bind notice;
- right after the answer of filter, `prepare` encodes what prioritize will be asked: kube-scheduler sends the same pod
  and the very names it was given, so that its call costs one comparison. A request that differs is simply decoded;
- bind is a notice: its refusal makes kube-scheduler (with `ignorable: true`) bind the pod itself.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin.decisions.recorder import DecisionRecords
from scheduler_plugin.extender import response_rows, wire_types
from scheduler_plugin.extender.wire_types import ExtenderArgs, ExtenderBindingArgs, ExtenderFilterResult
from scheduler_plugin.framework import cycle as scheduling_cycle
from scheduler_plugin.framework.cycle import SchedulingCycle
from scheduler_plugin.framework.interface import ReasonCodes
from scheduler_plugin.state import node_metric_decoder, pod_info
from scheduler_plugin.state.cluster import Cluster
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.node_columns import Ints, Rows
from scheduler_plugin.state.pod_info import PodInfo

T = TypeVar("T")

_REMEMBERED_PODS: Final = 4096  # between filter and bind: far more than one scheduler has under way at a time
_REMEMBERED_BYTES: Final = 32 * 1024**2  # of their JSON: 4096 pods of 8 kB, but some have a megabyte of annotations
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PREPARED_SECONDS: Final = 2.0  # between filter and prioritize lies the scheduler's own scoring, milliseconds
_POD_KEY: Final = b'{"Pod":{'
_NAMES_KEY: Final = b'"NodeNames":['
_NODES_KEY: Final = b'"Nodes":{'
_ARGS: Final = msgspec.json.Decoder(ExtenderArgs)
_BINDING: Final = msgspec.json.Decoder(ExtenderBindingArgs)

NOTICE_TAKEN: Final = msgspec.json.encode(
    {"Error": "no error: this extender only takes note of the node, kube-scheduler binds the pod itself"}
)


class BadRequest(Exception):
    """A request that cannot be answered; the message says what is wrong with it."""


class _Prepared(NamedTuple):
    """The answer to a prioritize call that is expected soon."""

    request: bytes
    answer: bytes
    until: float


class _Filtered(NamedTuple):
    """What the last filter call passed on."""

    head: bytes
    pod: PodInfo
    rows: Rows
    at: float


class Extender:
    """Answers the verbs from one cluster state."""

    def __init__(
        self,
        cluster: Cluster,
        cycle: SchedulingCycle,
        replies: response_rows.ReplyRows,
        policy: EstimatorArgs,
        records: DecisionRecords,
        *,
        short_list: int = 0,
    ) -> None:
        """`short_list`: filter passes at most so many nodes, those with the best scores; 0: all that fit."""
        self._cluster = cluster
        self._vectors = cluster.vectors
        self._cycle = cycle
        self._replies = replies
        self._policy = policy
        self._records = records
        self._short_list = short_list
        self._first_of_equals = 0
        self._pods: collections.OrderedDict[str, tuple[pods.Pod, int]] = collections.OrderedDict()
        self._remembered_bytes = 0
        self._filtered: _Filtered | None = None
        self._prepared: _Prepared | None = None
        self.rejections: list[int] = [0] * (1 + len(cycle.reasons))
        """How many nodes were rejected with each reason code since the start."""
        self.outcomes: dict[str, int] = dict.fromkeys(("all_passed", "some_rejected", "none_passed"), 0)
        """How many filter calls ended how."""

    def filter(self, body: bytes, now: float) -> bytes:
        """Names (or whole nodes, where those were sent) that the pod may run on. Raises BadRequest."""
        args = _decode(_ARGS, body)
        self._filtered = self._prepared = None
        self._cluster.notice_void(args.pod)
        # No text of the pod can hold these keys: quotes inside of one are escaped.
        is_pod_first = body.startswith(_POD_KEY)
        pod_end = body.find(_NAMES_KEY if args.nodes is None else _NODES_KEY) if is_pod_first else -1
        self._remember(args.pod, pod_end)
        names = _names(args)
        rows = self._vectors.find(names)
        pod = pod_info.read(args.pod, self._policy)
        codes = self._cycle.filter(pod, rows, now)
        self._records.filtered(pod, rows, names, codes, now)
        self._count(codes)
        if args.node_names is None and args.nodes is not None:
            return self._whole_nodes(args.nodes.items or [], names, codes)
        passing = rows if codes is None else rows[codes == 0]
        if 0 < self._short_list < len(passing):
            passing = self._best(pod, passing, now)
        if not len(passing):
            return msgspec.json.encode(
                ExtenderFilterResult(node_names=[], failed_and_unresolvable_nodes=self._reasons(names, codes))
            )
        encoded = self._replies.node_names(passing)
        if len(passing) > 1 and pod_end >= 0:
            self._filtered = _Filtered(body[: pod_end + len(_NAMES_KEY)], pod, passing, now)
        return b'{"NodeNames":[%b]}' % encoded

    def prepare(self) -> None:
        """Encode ahead what prioritize will answer for what filter has just passed."""
        filtered, self._filtered = self._filtered, None
        if filtered is None:
            return
        names = self._replies.node_names(filtered.rows).translate(None, b" ")  # kube-scheduler writes no blanks
        scores = self._scores(filtered.pod, filtered.rows, filtered.at)
        self._prepared = _Prepared(
            b"%b%b]}" % (filtered.head, names),
            self._replies.priorities(filtered.rows, scores),
            filtered.at + _PREPARED_SECONDS,
        )

    def settle(self) -> None:
        """Do what is left to do for a pod once kube-scheduler has its scores."""
        self._records.seal()

    def prioritize(self, body: bytes, now: float) -> bytes:
        """Score of each node, 0..100; a node that is not known is left out, which counts as 0. Raises BadRequest."""
        self.prepare()
        prepared = self._prepared
        if prepared is not None and now < prepared.until and body == prepared.request:
            return prepared.answer
        args = _decode(_ARGS, body)
        rows = self._vectors.find(_names(args))
        rows = rows[rows >= 0]
        pod = pod_info.read(args.pod, self._policy)
        return self._replies.priorities(rows, self._scores(pod, rows, now))

    def _scores(self, pod: PodInfo, rows: Rows, now: float) -> Ints:
        by_policy = self._cycle.scores_by_policy(pod, rows, now)
        scores = scheduling_cycle.combined(by_policy, len(rows))
        self._records.scored(pod, rows, by_policy, scores)
        return scores

    def bind(self, body: bytes, now: float) -> bytes:
        """Take note of where a pod goes, and refuse to bind it. Raises BadRequest."""
        binding = _decode(_BINDING, body)
        key = node_metric_decoder.pod_key(binding.pod_namespace, binding.pod_name)
        self._records.bound(key, binding.pod_uid, binding.node, self._vectors.rows.get(binding.node))
        pod = self._forget(binding.pod_uid)
        if pod is not None:
            self._cluster.pod_noticed(pod, binding.node, now)
        return NOTICE_TAKEN

    def _best(self, pod: PodInfo, rows: Rows, now: float) -> Rows:
        """Rows of the short list, in their order. Equal nodes take turns, lest some stay idle."""
        self._first_of_equals = (self._first_of_equals + self._short_list) % len(rows)
        turned = np.roll(rows, -self._first_of_equals)
        scores = self._cycle.prioritize(pod, turned, now).astype(np.int16)  # 16 bits sort in linear time
        best = np.argsort(-scores, kind="stable")[: self._short_list]
        return rows[np.sort((best + self._first_of_equals) % len(rows))]

    def _remember(self, pod: pods.Pod, pod_bytes: int) -> None:
        self._forget(pod.metadata.uid)
        if pod_bytes < 0:
            return  # not spelled as kube-scheduler spells it, which alone will bind
        self._pods[pod.metadata.uid] = (pod, pod_bytes)
        self._remembered_bytes += pod_bytes
        while len(self._pods) > _REMEMBERED_PODS or self._remembered_bytes > _REMEMBERED_BYTES:
            self._forget(next(iter(self._pods)))

    def _forget(self, uid: str) -> pods.Pod | None:
        pod, pod_bytes = self._pods.pop(uid, (None, 0))
        self._remembered_bytes -= pod_bytes
        return pod

    def _count(self, codes: ReasonCodes | None) -> None:
        if codes is None:
            self.outcomes["all_passed"] += 1
            return
        self.outcomes["none_passed" if codes.all() else "some_rejected"] += 1
        for code, count in enumerate(np.bincount(codes)):
            self.rejections[code] += int(count)

    def _reasons(self, names: Sequence[str], codes: ReasonCodes | None) -> dict[str, str]:
        if codes is None:
            return {}
        return {
            name: self._cycle.reasons[code - 1] for name, code in zip(names, codes.tolist(), strict=True) if code > 0
        }

    def _whole_nodes(self, nodes: Sequence[msgspec.Raw], names: Sequence[str], codes: ReasonCodes | None) -> bytes:
        passing = nodes if codes is None else [node for node, code in zip(nodes, codes, strict=True) if code == 0]
        failed = None if passing else self._reasons(names, codes)
        return msgspec.json.encode(ExtenderFilterResult(nodes={"items": passing}, failed_and_unresolvable_nodes=failed))


def _names(args: ExtenderArgs) -> list[str]:
    if args.node_names is not None:
        return args.node_names
    try:
        return [wire_types.name_of(node) for node in (args.nodes and args.nodes.items) or ()]
    except _UNREADABLE as error:
        raise BadRequest(f"a node in Nodes.items cannot be read: {error}") from error


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except _UNREADABLE as error:
        raise BadRequest(f"the body is not what kube-scheduler sends: {error}") from error
