"""A fleet whose Prod usage doubles within five minutes, on a virtual clock: the manager takes Mid back.

Simulated: the reports of the agents, each minute at a phase of each node; PodDisruptionBudgets that permit a number of
disruptions, which no replacement gives back because closed nodes have no room for it; grace periods. Everything else is
the product: the formula, the writes to the nodes, turns, rates and evictions, over an API server in memory.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry

from api_types import names
from api_types.kubernetes import quantities
from apiserver_client import errors, session
from manager.cache.store import ClusterStore
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.controller import MidController
from manager.mid_resource.eviction import policy
from manager.mid_resource.eviction.controller import Evictor
from manager.mid_resource.eviction.records import Rights
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config import strategy
from manager.slo_config.evaluation import State
from tests.fakes import apiserver, cluster

START: Final = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
RISE_SECONDS: Final = 300
CAPACITY_MILLIS, PROD_REQUEST_MILLIS = 32_000, 20_000
USAGE_MILLIS: Final = 4_000
"""Usage of Prod before the rise; it doubles."""
PEAK_PERCENT: Final = 120
"""Predicted peak of Prod, of its usage."""
GIB: Final = 2**30
NAMESPACES: Final = 20
BUDGET_PERCENT, SMALL_BUDGET = 40, 2
"""Disruptions that a namespace permits; one in ten permits a number."""
GRACE_SECONDS: Final = (5, 30, 300)
POD_MILLIS: Final = (500, 1000, 2000, 3000, 4000)


class Shares(NamedTuple):
    """Shares of the nodes at a time, in percent."""

    second: int
    fits: float
    """Nodes whose Mid pods that stay request no more than is calculated."""
    gone: float
    """Nodes of which that is true with the pods that still terminate."""
    evicted: int


def calculated_millis(second: int) -> int:
    """Return the Mid CPU of a node by the formula: the requests of Prod less its peak."""
    usage = USAGE_MILLIS * (1 + min(second / RISE_SECONDS, 1.0))
    return PROD_REQUEST_MILLIS - int(usage * PEAK_PERCENT / 100)


class _Server(cluster.Cluster):
    """The API server; knows the pods of a node without a search, and keeps no history."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, dict[str, dict[str, Any]]] = {}
        """Node -> UID -> pod."""

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> dict[str, Any]:
        selector = query.get("fieldSelector", "")
        if plural != "pods" or not selector.startswith("spec.nodeName="):
            return super()._list(plural, namespace, query)
        items = list(self.pods.get(selector.partition("=")[2], {}).values())
        return {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(self._version)},
            "items": items,
        }

    def _store_change(self, change: str, plural: str, item: dict[str, Any]) -> None:
        if plural == "pods":
            of_node = self.pods.setdefault(item["spec"]["nodeName"], {})
            if change == "DELETED":
                of_node.pop(item["metadata"]["uid"], None)
            else:
                of_node[item["metadata"]["uid"]] = item


class _Api(session.Session):
    """A session whose calls reach the server of this process without a connection."""

    def __init__(self, server: _Server) -> None:
        self.connection = server.connection()
        self._to = server

    async def send(
        self,
        call: errors.Call,
        *,
        parameters: session.Parameters | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        most_bytes: float = math.inf,
    ) -> bytes:
        del content_type, accept, most_bytes
        query = {name: str(value) for name, value in (parameters or {}).items()}
        answer = self._to._answer(apiserver.Received(call.method, call.path, query, {}, body or b""))
        content = msgspec.json.encode(answer.document)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise errors.refusal(call, answer.status, content, "")
        return content


class Fleet:
    """The nodes with their Mid pods, and the manager's controllers."""

    def __init__(
        self,
        server: _Server,
        api: session.Session,
        nodes: int,
        fill: tuple[float, float],
        seed: int,
    ) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self.now = START
        self._document = strategy.configuration(
            strategy.slo.ColocationConfig.model_validate(
                {"enable": True, "midEviction": {"mode": "evict", "shortageTolerancePercent": 0}}
            )
        )
        self._strategy = strategy.node_strategy(self._document, {}, {})
        self._phases: dict[int, list[str]] = {}
        self._ends: dict[str, tuple[dt.datetime, str]] = {}
        """Name of a pod that terminates -> its end, and its namespace."""
        self._changed: list[str] = []
        self._gone: list[tuple[str, int]] = []
        self.evictions: list[dt.datetime] = []
        self._make_controllers(api)
        for number in range(nodes):
            self._add_node(f"n{number}", fill)
        counts = Counter(pod["metadata"]["namespace"] for pods in server.pods.values() for pod in pods.values())
        self.permitted = {
            name: SMALL_BUDGET if name.endswith("0") else count * BUDGET_PERCENT // 100
            for name, count in counts.items()
        }
        server.budgets = dict(self.permitted)
        server.may_evict = {""}

    def _clock(self) -> dt.datetime:
        return self.now

    def _make_controllers(self, api: session.Session) -> None:
        telemetry = Telemetry(CollectorRegistry(), reasons=[*Reason], states=[*State])
        self._cache = ClusterStore()
        recorder = EventRecorder(api, telemetry, self._clock)
        self._evictor = Evictor(
            api,
            cache=self._cache,
            configuration=lambda: self._document,
            rights=Rights(api, names.NAMESPACE, self._clock),
            recorder=recorder,
            telemetry=telemetry,
            clock=self._clock,
            relist=lambda name: self._mid.relist(name),  # noqa: PLW0108  # it is made later
            on_pods_changed=self._changed.append,
        )
        self._mid = MidController(
            api,
            cache=self._cache,
            settings=ManagerSettings(),
            recorder=recorder,
            telemetry=telemetry,
            clock=self._clock,
            observe=self._evictor.observe,
        )

    def _add_node(self, name: str, fill: tuple[float, float]) -> None:
        amounts = {"cpu": f"{CAPACITY_MILLIS}m", "memory": str(128 * GIB)}
        status = {"capacity": amounts, "allocatable": amounts}
        node = self._server.add("nodes", {"metadata": {"name": name}, "status": status})
        self._server.add("nodemetrics", {"metadata": {"name": name}, "spec": {}})
        self._cache.nodes.update(self._cache.nodes.decode(node))
        self._phases.setdefault(self._chance.randrange(60), []).append(name)
        room = int(calculated_millis(0) * self._chance.uniform(*fill))
        number = 0
        while (millis := self._chance.choice(POD_MILLIS)) <= room:
            room -= millis
            self._server.add("pods", self._pod(f"{name}-{number}", name, millis), self._namespace())
            number += 1

    def _namespace(self) -> str:
        return f"tenant-{self._chance.randrange(NAMESPACES)}"

    def _pod(self, name: str, node: str, millis: int) -> dict[str, Any]:
        bound = "2026-11-21T11:00:00Z"
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
        requests = {names.MID_CPU: str(millis), names.MID_MEMORY: str(GIB)}
        return {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "priority": 7000 + self._chance.randrange(3),
                "terminationGracePeriodSeconds": self._chance.choice(GRACE_SECONDS),
                "containers": [{"resources": {"requests": requests}}],
            },
            "status": {"phase": "Running", "startTime": bound, "conditions": [condition]},
        }

    async def run(self, seconds: int) -> AsyncIterator[Shares]:
        """Let time pass from the first second of the rise; yield the shares of each minute."""
        for second in range(seconds + 1):
            self.now = self._server.now = START + dt.timedelta(seconds=second)
            if second % 60 == 0:
                self._server.writes.clear()
                self._server.requests.clear()
                yield self._shares(second)
            self._end_pods()
            for name in self._phases.get(second % 60, ()):
                self._report(name, second)
                await self._mid.reconcile(name, self._strategy)
            known = len(self._server.evicted)
            await self._evictor.round()
            self._note_evictions(known)
            while self._changed:
                await self._mid.reconcile(self._changed.pop(), self._strategy)

    def most_within_a_minute(self) -> int:
        """Return the largest number of evictions within any minute."""
        most, first = 0, 0
        for last, at in enumerate(self.evictions):
            while at - self.evictions[first] >= dt.timedelta(minutes=1):
                first += 1
            most = max(most, last - first + 1)
        return most

    def permitted_within_a_minute(self) -> int:
        """Return the evictions within a minute that the defaults permit."""
        return policy.cluster_per_minute(None, len(self._cache.nodes), drains=False)

    def beyond_budget(self) -> int:
        """Return the evictions beyond what the budgets permit."""
        counts = Counter(namespace for namespace, _ in self._server.evicted)
        return sum(max(count - self.permitted[namespace], 0) for namespace, count in counts.items())

    def requested_millis(self) -> dict[str, int]:
        """Return what the Mid pods of each node request that stay."""
        return {
            name: sum(_requests(pod)[names.MID_CPU] for pod in self._staying(name))
            for name in self._cache.nodes.names()
        }

    def evicted_millis(self) -> Sequence[tuple[str, int]]:
        """Return node and request of each pod that was evicted."""
        return self._gone

    def _staying(self, node: str) -> list[dict[str, Any]]:
        pods = self._server.pods.get(node, {}).values()
        return [pod for pod in pods if pod["metadata"]["name"] not in self._ends]

    def _report(self, name: str, second: int) -> None:
        mid = dict.fromkeys(names.MID_RESOURCES, 0)
        for pod in self._server.pods.get(name, {}).values():
            for resource, amount in _requests(pod).items():
                mid[resource] += amount
        usage = PROD_REQUEST_MILLIS - calculated_millis(second)
        nothing = {"cpu": "0", "memory": "0"}
        status = {
            "updateTime": (self.now - dt.timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "allocated": {
                "prod": {"cpu": f"{PROD_REQUEST_MILLIS}m", "memory": str(96 * GIB)},
                "mid": {resource: str(amount) for resource, amount in mid.items()},
            },
            "usage": dict.fromkeys(("prod", "mid", "batchAndFree", "system"), nothing),
            "prodPeakMetric": {"resource": {"resources": {"cpu": f"{usage}m", "memory": str(8 * GIB)}}},
        }
        metric = self._server.patch("nodemetrics", name, {"status": status})
        self._cache.node_metrics.update(self._cache.node_metrics.decode(metric))

    def _note_evictions(self, known: int) -> None:
        for namespace, name in self._server.evicted[known:]:
            pod = self._server.get("pods", name, namespace)
            grace = pod["metadata"]["deletionGracePeriodSeconds"]
            self._ends[name] = self.now + dt.timedelta(seconds=grace), namespace
            self._gone.append((pod["spec"]["nodeName"], _requests(pod)[names.MID_CPU]))
            self.evictions.append(self.now)

    def _end_pods(self) -> None:
        for name, (end, namespace) in list(self._ends.items()):
            if end <= self.now:
                self._server.remove("pods", name, namespace)
                del self._ends[name]

    def _shares(self, second: int) -> Shares:
        limit, fits, gone = calculated_millis(second), 0, 0
        count = len(self._cache.nodes)
        for name in self._cache.nodes.names():
            pods = self._server.pods.get(name, {}).values()
            fits += sum(_requests(pod)[names.MID_CPU] for pod in self._staying(name)) <= limit
            gone += sum(_requests(pod)[names.MID_CPU] for pod in pods) <= limit
        return Shares(second, 100 * fits / count, 100 * gone / count, len(self.evictions))


def _requests(pod: dict[str, Any]) -> dict[str, int]:
    (container,) = pod["spec"]["containers"]
    return {
        resource: quantities.resource_units(resource, amount)
        for resource, amount in container["resources"]["requests"].items()
    }


def fleet(nodes: int, fill: tuple[float, float], seed: int = 1) -> Fleet:
    """Return a fleet of nodes whose Mid pods request a share of what is calculated before the rise."""
    server = _Server()
    return Fleet(server, _Api(server), nodes, fill, seed)
