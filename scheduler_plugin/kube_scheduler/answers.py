"""Answer the questions of the plugin inside kube-scheduler, and follow its notices. No sockets, no clock.

The plugin asks about one pod at a time, and every notice of the pods before it has arrived by then: a pod counts on its
node from Reserve on, so that no answer has to guess where the last pod went.

    pending    a pod without a node, as POD showed it last: a few numbers, whatever its size
    counted    a pending pod that is reserved on a node, or else nominated to one, counts there until it is bound
               (POD with a node), deleted (GONE), given up (UNRESERVE, the end of its nomination)

A nominated pod counts for all others, also for those of a higher priority: it is about to be bound. Its own question
does not count it. AddPod of a dry run adds nothing here, as the pods that it adds are counted already.

Scores are whole numbers of 0 to 100, as kube-scheduler wants them of one plugin: of several score plugins the weighted
mean, whose fraction is lost. Peaks scales over all nodes that pass here, not over those that pass kube-scheduler's own
filters as well. Everything is answered for all nodes, also where kube-scheduler samples them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin.decisions.deciding import Decider
from scheduler_plugin.framework.interface import ReasonCodes, without_victims
from scheduler_plugin.kube_scheduler.frames import Answer, Bytes
from scheduler_plugin.kube_scheduler.refused_pods import RefusedPods
from scheduler_plugin.state import pod_info
from scheduler_plugin.state.node_columns import Rows
from scheduler_plugin.state.pod_info import AssignedPod, PodInfo

MOST_REASONS: Final = 255


class UnknownPod(ValueError):
    """A question about a pod that was not shown before."""


class _PendingPod:
    """A pod without a node."""

    __slots__ = ("counted_on", "info", "nominated", "record", "reserved")

    def __init__(self, info: PodInfo, record: AssignedPod | None, nominated: str) -> None:
        self.info = info
        self.record = record
        """What counts of it on its node; None if it uses nothing."""
        self.nominated = nominated
        self.reserved = ""
        self.counted_on = ""


@dataclass(eq=False)
class Answers(Decider):
    """Answers by one cluster state."""

    refused: RefusedPods

    def __post_init__(self) -> None:
        """Raise ValueError for more reasons than a code has values."""
        if len(self.cycle.reasons) > MOST_REASONS:
            raise ValueError(f"{len(self.cycle.reasons)} reasons to reject a node, want at most {MOST_REASONS}")
        self.nodes = self.cluster.vectors
        self._weight = max(self.cycle.total_weight, 1)
        self._pending: dict[str, _PendingPod] = {}
        self._shown: set[int] | None = None
        """Digests of the pods that were repeated since the connection began; None after SYNCED."""
        self._last: tuple[str, Bytes | None] = ("", None)
        """Pod of the last question, and its codes by row."""

    def reasons(self) -> list[tuple[str, bool]]:
        """Return the text of each reason code from 1 on, and whether victims can end it."""
        return list(zip(self.cycle.reasons, self.cycle.resolvable, strict=True))

    # what kube-scheduler shows

    def begin(self) -> None:
        """Begin with a new connection: it repeats every pod, and every reservation."""
        self._shown = set()
        self.nodes.defer()
        for uid, pending in list(self._pending.items()):
            self._stop_counting(pending)
            del self._pending[uid]

    def synced(self) -> None:
        """Drop the pods that were not repeated."""
        if self._shown is not None:
            for _slice in self.cluster.keep_pods(self._shown):
                pass
        self.end()

    def end(self) -> None:
        """End the beginning of a connection, also of one that is lost."""
        self._shown = None
        self.nodes.rewrite()

    def show(self, body: bytes, now: float) -> str:
        """Store a pod; return its UID if it was refused and has to be tried again. Raises msgspec.DecodeError."""
        pod = _POD.decode(body)
        uid = pod.metadata.uid
        if self._shown is not None:
            self._shown.add(pod_info.pod_digest(pod.metadata.namespace, pod.metadata.name))
        if pod.spec.node_name:
            if pending := self._settle(uid):
                self.records.bound(pending.info.key, uid, pod.spec.node_name)
            self.cluster.pod_changed(pod, now)
            return ""
        info = pod_info.read(pod, self.estimator_args)
        pending = self._pending.get(uid)
        record = pod_info.expected(info, pod, self.estimator_args)
        if pending is None:
            pending = self._pending[uid] = _PendingPod(info, record, pod.status.nominated_node_name)
        else:
            if record != pending.record:  # its requests may be changed where it counts already
                self._stop_counting(pending)
            pending.info, pending.record, pending.nominated = info, record, pod.status.nominated_node_name
        self._count(pending, now)
        return uid if self.refused.update(info) else ""

    def gone(self, uid: str, key: str) -> None:
        """Drop a pod that was deleted or has ended."""
        pending = self._settle(uid)
        if pending is not None:
            self._stop_counting(pending)
        namespace, _slash, name = key.partition("/")
        self.cluster.pod_deleted(namespace, name, uid)

    def _settle(self, uid: str) -> _PendingPod | None:
        self.refused.forget(uid)
        self.waits.end(uid)
        return self._pending.pop(uid, None)

    # notices

    def reserve(self, uid: str, node: str, now: float) -> None:
        """Count a pod on the node that kube-scheduler has chosen."""
        pending = self._pending.get(uid)
        if pending is None:
            return  # it was deleted since
        pending.reserved = node
        self._count(pending, now)
        self.refused.forget(uid)
        self.waits.passed(self.softened(pending.info), self.cluster.monotonic())

    def unreserve(self, uid: str, now: float) -> None:
        """Give a reservation up. A pod that is bound or gone has none any more."""
        pending = self._pending.get(uid)
        if pending is not None:
            pending.reserved = ""
            self._count(pending, now)

    def refuse(self, uid: str, bits: bytes) -> None:
        """Remember a pod that found no node, and the rows that this plugin alone refused."""
        pending = self._pending.get(uid)
        rows: Rows = np.flatnonzero(np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little"))
        asked, codes = self._last
        if pending is None or not len(rows):
            return
        self.refused.refuse(self.softened(pending.info), rows)
        if asked == uid and codes is not None and rows[-1] < len(codes):
            self.follow_wait(pending.info, codes[rows])

    def _count(self, pending: _PendingPod, now: float) -> None:
        """Count a pending pod where it is reserved, else where it is nominated."""
        node = pending.reserved or pending.nominated
        if node == pending.counted_on:
            return
        self._stop_counting(pending)
        if node and pending.record is not None:
            self.cluster.assume(pod_info.placed(pending.record, now), node)
            pending.counted_on = node

    def _stop_counting(self, pending: _PendingPod) -> None:
        if pending.counted_on:
            self.cluster.stop_assuming(pending.info.key, pending.info.uid)
            pending.counted_on = ""

    @contextlib.contextmanager
    def _uncounted(self, uid: str, now: float) -> Iterator[_PendingPod]:
        """Yield a pod that counts on no node meanwhile: a question about a pod does not count the pod itself."""
        pending = self._pending.get(uid)
        if pending is None:
            raise UnknownPod(f"pod {uid[:100]!r} was not shown, want POD before any frame about it")
        self._stop_counting(pending)
        try:
            yield pending
        finally:
            self._count(pending, now)

    # questions

    def ask(self, uid: str, now: float) -> Answer:
        """Return code and score of every node for one pod. Raises UnknownPod."""
        with self._uncounted(uid, now) as pending:
            pending.reserved = ""
            return self._ask(pending, self.softened(pending.info), now)

    def _ask(self, pending: _PendingPod, pod: PodInfo, now: float) -> Answer:
        rows = self.nodes.used_rows()
        count = int(rows[-1]) + 1 if len(rows) else 0
        codes, texts = self.decide(pod, rows, now)
        passing = rows if codes is None else rows[codes == 0]
        scores = self.scores(pod, passing, now)
        by_row = None if codes is None else _by_row(rows, codes, count)
        self._last = (pod.uid, by_row)
        usual = enumerate(zip(texts, self.cycle.reasons, strict=True), start=1)
        return Answer(
            self.nodes.generation,
            count,
            by_row,
            _by_row(passing, scores // self._weight, count) if scores.any() else None,
            self.cycle.code_of_unknown(pod),
            # While its victims leave, it must not seem hopeless there: kube-scheduler would evict others elsewhere.
            self.nodes.rows.get(pending.nominated, -1),
            {code: text for code, (text, usual_text) in usual if text is not usual_text},
        )

    def check(self, uid: str, row: int, without: Sequence[str], now: float) -> int:
        """Return the code of one row once pods with these UIDs have left it. Raises UnknownPod."""
        with self._uncounted(uid, now) as pending:
            pod, name, victims = self.softened(pending.info), self.nodes.name(row), frozenset(without)
            if not name:
                return self.cycle.code_of_unknown(pod)
            freed = without_victims(self.cluster.mid_requests, pod, [(name, victims)])
            codes = self.cycle.filter(pod, np.array([row], dtype=np.intp), now, freed)
            return 0 if codes is None else int(codes[0])


_POD: Final = msgspec.json.Decoder(pods.Pod)


def _by_row(rows: Rows, values: np.ndarray[tuple[int], np.dtype[np.int64]] | ReasonCodes, count: int) -> Bytes:
    result: Bytes = np.zeros(count, dtype=np.uint8)
    result[rows] = values
    return result
