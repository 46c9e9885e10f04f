"""Nodes of `benchmarks.fleet`: sends their reports in real time, replaces some of them, and checks what is published.

Every write of Mid resources is compared with the formula for the sample that the status annotation names.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from benchmarks import fleet_apiserver, fleet_reports, synthetic_cluster
from benchmarks.fleet_reports import Corpus, Made, Mid
from e2e.support.cluster_client import units
from tools.localcluster import apiserver_requests
from tools.localcluster.apiserver_requests import NODE_METRICS, NODES, Connection, RequestError

PODS: Final = f"/api/v1/namespaces/{fleet_reports.NAMESPACE}/pods"
THREADS: Final = 4
THRESHOLD: Final = 0.1
"""Default of resourceDiffThreshold: a value that moves by less is written later."""
NOT_FOUND, CONFLICT = 404, 409
_ATTEMPTS = 5
_HEAD = (
    b'{"apiVersion":"slo.koordinator.sh/v1alpha1","kind":"NodeMetric","metadata":{"name":"%b","resourceVersion":"%b"},'
)


class Server(NamedTuple):
    """A server of the Kubernetes API."""

    connect: Callable[[], Connection]
    collects_garbage: bool
    """Whether a deleted node takes its NodeMetric and its pods along."""


class _Metadata(msgspec.Struct):
    name: str
    annotations: dict[str, str] = {}


class _Status(msgspec.Struct):
    allocatable: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)

    def texts(self) -> tuple[str, str, str]:
        """Return the status annotation, Mid CPU and Mid memory; empty where there is none."""
        allocatable = self.status.allocatable
        annotation = self.metadata.annotations.get("koordinator.sh/mid-resource-status", "")
        return annotation, *(allocatable.get(f"kubernetes.io/mid-{kind}", "") for kind in ("cpu", "memory"))


class _ListMetadata(msgspec.Struct):
    following: str = msgspec.field(name="continue", default="")


class _Nodes(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Node]


_NONE = ("", "", "")


class _MidStatus(msgspec.Struct):
    sample: str = ""
    reason: str = ""


class Sent(NamedTuple):
    """A sound report that was sent."""

    at: float
    mid: Mid
    moves: bool
    """Whether its values have to be written at once; others wait for the next confirmation."""


class Published:
    """Mid resources of each node as they are written, compared with the formula."""

    def __init__(self, server: Server) -> None:
        self.sent: dict[tuple[str, str], Sent] = {}
        """(Node, text of its updateTime) -> report."""
        self.mid: dict[str, Mid] = {}
        self.latencies: list[tuple[float, float]] = []
        """(Time of sending, seconds until the value was on the node) of each report that moves a value."""
        self.compared = self.refused = 0
        self.wrong: list[str] = []
        self._seen: set[tuple[str, str]] = set()
        self._texts: dict[str, tuple[str, str, str]] = {}
        apiserver_requests.follow(server.connect, NODES, _Node, self.see)

    def moves(self, name: str, mid: Mid, threshold: float) -> bool:
        """Return whether values are further from the published ones than the threshold, a share of those."""
        seen = self.mid.get(name)
        return seen is None or any(
            abs(wanted - here) > threshold * here for here, wanted in zip(seen, mid, strict=True)
        )

    def unseen(self, api: Connection) -> list[str]:
        """Return the nodes whose present values the watch has not shown: a lost watch must not pass as no drift."""
        found: list[str] = []
        following = ""
        while True:
            page = msgspec.json.decode(api.raw("GET", f"{NODES}?limit=500&continue={following}"), type=_Nodes)
            found += [
                each.metadata.name for each in page.items if self._texts.get(each.metadata.name, _NONE) != each.texts()
            ]
            following = quote(page.metadata.following)
            if not following:
                return found

    def see(self, node: _Node) -> None:
        """Compare one write."""
        now, name = time.monotonic(), node.metadata.name
        text, *amounts = texts = node.texts()
        if not text or self._texts.get(name) == texts:
            return
        self._texts[name] = texts
        status = msgspec.json.decode(text, type=_MidStatus)
        self.refused += status.reason == "ReportRefused"
        if not all(amounts):
            return
        self.mid[name] = mid = Mid(*map(units, amounts))
        sent = self.sent.get((name, status.sample))
        if sent is None:
            self.wrong.append(f"{name}: {mid} of sample {status.sample}, which was not sent")
            return
        self.compared += 1
        if mid != sent.mid:
            self.wrong.append(f"{name}: {mid} of sample {status.sample}, want {sent.mid}")
        if sent.moves and (name, status.sample) not in self._seen:
            self._seen.add((name, status.sample))
            self.latencies.append((sent.at, now - sent.at))


class Generator:
    """Sends the reports of all nodes in turn."""

    def __init__(self, server: Server, corpus: Corpus, nodes: int, *, with_pods: bool, seed: int = 1) -> None:
        """Take whether pods are to be created: a server in place of a kube-apiserver has them already."""
        self._server = server
        self._corpus = corpus
        self._with_pods = with_pods
        self._chance = random.Random(f"generator {seed}")
        self._lock = threading.Lock()
        self._versions: dict[int, str] = {}
        self._numbers = list(range(nodes))
        """Numbers of the nodes that exist; a replaced node has a new one."""
        self._next = itertools.count(nodes)
        self._reported: dict[int, int] = {}
        self._newest: dict[int, Mid] = {}
        self.published = Published(server)
        self.reports = self.broken = self.rejected = self.late = self.replaced = 0

    @property
    def names(self) -> list[str]:
        """Return the names of the nodes."""
        return [synthetic_cluster.node_name(number) for number in self._numbers]

    def create(self) -> None:
        """Create every node, with its pods."""
        self._each(list(self._numbers), self._create)

    def report_all(self) -> None:
        """Send one sound report of every node, as fast as the server takes them."""
        self._each(list(self._numbers), lambda api, number: self.report(api, number, may_be_broken=False))

    def run(self, seconds: float, *, replaced_per_minute: float) -> None:
        """Report at the rate of the fleet, one node after the other, and replace nodes."""
        began = time.monotonic()
        rate = len(self._numbers) / fleet_reports.REPORT_SECONDS
        every = 60 / replaced_per_minute if replaced_per_minute else float("inf")
        replacing = threading.Thread(target=self._replace_for, args=(began + seconds, every))
        replacing.start()

        def send(api: Connection, turn: int) -> None:
            due = began + turn / rate
            time.sleep(max(due - time.monotonic(), 0))
            if time.monotonic() > began + seconds:
                return
            self.late += time.monotonic() - due > 1
            with self._lock:
                number = self._numbers[turn % len(self._numbers)]
            self.report(api, number)

        self._each(range(int(seconds * rate)), send)
        replacing.join()

    def report(self, api: Connection, number: int, *, may_be_broken: bool = True) -> None:
        """Send the next report of a node; one in a hundred is broken."""
        name, count = synthetic_cluster.node_name(number), self._reported.get(number, 0)
        made = self._corpus.report(number, count)
        is_broken = may_be_broken and self._chance.random() < fleet_reports.BROKEN_SHARE
        text = self._corpus.broken(number, count, self._chance) if is_broken else made.text
        try:
            if not self._put(api, name, number, text, None if is_broken else made):
                return
        except RequestError as refused:
            if not is_broken:
                raise RuntimeError(f"the report of {name} is refused: {refused}") from refused
            self.rejected += 1
        self.reports += 1
        self.broken += is_broken
        self._reported[number] = count + 1
        if not is_broken:
            self._newest[number] = made.mid

    def _put(self, api: Connection, name: str, number: int, text: bytes, made: Made | None) -> bool:
        """Replace the status; return False where the node has no NodeMetric yet, or none any more."""
        suffix = fleet_apiserver.suffix_of(name).encode()
        for _ in range(_ATTEMPTS):
            if number not in self._versions and not self._read(api, name, number):
                return False
            now, future = fleet_reports.moments(time.time())
            status = text.replace(fleet_reports.POD, suffix).replace(b"@future@", future)
            status = status.replace(fleet_reports.TIME, now)
            body = _HEAD % (name.encode(), self._versions[number].encode()) + b'"status":%b}' % status
            if made:
                moves = self.published.moves(name, made.mid, THRESHOLD)
                self.published.sent[name, now.decode()] = Sent(time.monotonic(), made.mid, moves)
            try:
                answer = api.raw("PUT", f"{NODE_METRICS}/{name}/status", body)
            except RequestError as refused:
                self._versions.pop(number, None)
                if refused.status == NOT_FOUND:
                    return False
                if refused.status != CONFLICT:
                    raise
            else:
                self._versions[number] = _version(answer)
                return True
        raise RuntimeError(f"the report of {name} conflicts {_ATTEMPTS} times: another client writes its NodeMetric")

    def _read(self, api: Connection, name: str, number: int) -> bool:
        try:
            self._versions[number] = _version(api.raw("GET", f"{NODE_METRICS}/{name}"))
        except RequestError as refused:
            if refused.status != NOT_FOUND:
                raise
            return False
        return True

    def behind(self, threshold: float) -> list[str]:
        """Return the nodes whose value is further from the formula for their newest report than `threshold` permits.

        The threshold is a share of the value, as in the manager.
        """
        found = []
        for number in list(self._numbers):
            newest, name = self._newest.get(number), synthetic_cluster.node_name(number)
            if newest is None:
                continue
            if self.published.moves(name, newest, threshold):
                found.append(f"{name}: {self.published.mid.get(name)}, want {newest}")
        return found

    def _create(self, api: Connection, number: int) -> None:
        name = synthetic_cluster.node_name(number)
        node = fleet_apiserver.node_object(name)
        for given_by_the_apiserver in ("uid", "resourceVersion"):
            del node["metadata"][given_by_the_apiserver]
        del node["spec"]["podCIDR"]
        api.send("POST", NODES, node)
        if self._with_pods:
            for pod in fleet_apiserver.pods_of(self._corpus, number, name):
                del pod["spec"]["priority"], pod["status"]
                for given_by_the_apiserver in ("uid", "resourceVersion"):
                    del pod["metadata"][given_by_the_apiserver]
                pod["spec"]["priorityClassName"] = "koord-prod"
                api.send("POST", PODS, pod)

    def _replace_for(self, until: float, every: float) -> None:
        api = self._server.connect()
        turn = 1
        began = time.monotonic()
        while (due := began + turn * every) < until:
            time.sleep(max(due - time.monotonic(), 0))
            self._replace(api)
            turn += 1
        api.close()

    def _replace(self, api: Connection) -> None:
        """Delete a node, and create another one in its place."""
        with self._lock:
            at = self._chance.randrange(len(self._numbers))
            gone, fresh = self._numbers[at], next(self._next)
            self._numbers[at] = fresh
        name = synthetic_cluster.node_name(gone)
        paths = [f"{NODES}/{name}"]
        if not self._server.collects_garbage:
            pods = fleet_apiserver.pods_of(self._corpus, gone, name) if self._with_pods else []
            paths += [f"{NODE_METRICS}/{name}", *(f"{PODS}/{pod['metadata']['name']}" for pod in pods)]
        for path in paths:
            try:
                api.send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
            except RequestError as refused:
                if refused.status != NOT_FOUND:
                    raise
        self._create(api, fresh)
        self.replaced += 1

    def _each(self, jobs: Sequence[Any], do: Callable[[Connection, Any], None]) -> None:
        apiserver_requests.in_parallel(self._server.connect, jobs, do, threads=THREADS)


def _version(answer: bytes) -> str:
    return apiserver_requests.version_of.decode(answer).metadata.resource_version
