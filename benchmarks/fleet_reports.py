"""Reports of the nodes of a fleet, made beforehand by the agent's own code from traces of usage, and what follows.

    made = fleet_reports.make(traces, archetypes=24, steps=20)
    made.status(node=7, report=3)             # the status to send, and the Mid resources of the formula for it

An archetype is a node with pods of its own, whose usage is that of series of the traces; a value of a trace lasts a
minute. Many nodes share an archetype: they begin at other reports of it. A node's agent has one of three versions. One
report in a hundred is broken: its Mid resources are those of the report before.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from api_types.node_metric import types as node_metric
from benchmarks import synthetic_cluster
from e2e.support import mid_formula
from e2e.support.cluster_client import cpu_millis, units
from koordctl.backtest import node_history
from koordctl.backtest.sources import Traces
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

PODS: Final = 10
FREE_CORES: Final = 4
"""Cores of each node that its pods do not request: there is room for others."""
STEP_SECONDS: Final = 30
REPORT_SECONDS: Final = 60
WARM_UP_SECONDS: Final = 1800
BROKEN_SHARE: Final = 0.01
NAMESPACE: Final = "fleet"
SPEC: Final = {"predictPolicy": {"coldStartPeriodSeconds": 0}}
ALLOCATABLE: Final = {"cpu": str(synthetic_cluster.CPU_MILLIS // 1000), "memory": str(synthetic_cluster.MEMORY_BYTES)}
NODE: Final = {"status": {"capacity": ALLOCATABLE, "allocatable": ALLOCATABLE}}
TIME, POD = b"@time@", b"@pod@"
_MEMORY_LOW, _MEMORY_RISE = 0.3, 0.5
_SYSTEM = UsageSample(0.4, 2.0 * GIB)
_FUTURE = dt.timedelta(hours=1)


class Version(enum.Enum):
    """Version of an agent."""

    CURRENT = "of this commit"
    FORMER = "of this suite, without usage by class"
    UPSTREAM = "of Koordinator"


VERSIONS: Final = (*[Version.CURRENT] * 7, *[Version.FORMER] * 2, Version.UPSTREAM)
"""Versions of ten nodes in a row."""
_UPSTREAM_KEYS = ("nodeMetric", "podsMetric", "prodReclaimableMetric")
_LACKED_BY_FORMER = ("usage", "conditions")


class Mid(NamedTuple):
    """Mid resources of a node."""

    cpu_millis: int
    memory_bytes: int


class Made(NamedTuple):
    """A report: JSON of its status with placeholders, and the Mid resources that the formula gives for it."""

    text: bytes
    mid: Mid


def formula(status: Mapping[str, Any]) -> Mid:
    """Return Mid by the reference model, with every default of the configuration."""
    if "allocated" not in status:
        return _formula_of_upstream(status)
    cpu, memory = mid_formula.of(NODE, {"spec": {"midColocationPolicy": {}}, "status": status})
    return Mid(int(cpu), int(memory))


def _formula_of_upstream(status: Mapping[str, Any]) -> Mid:
    """Return the least of what is reclaimable, and of what the node does not use: there is nothing else to go by."""
    reclaimable = status["prodReclaimableMetric"]["resource"]["resources"]
    used = status["nodeMetric"]["nodeUsage"]["resources"]
    found = [
        min(max(read(reclaimable[name]), 0), max(read(ALLOCATABLE[name]) - read(used[name]), 0))
        for name, read in (("cpu", cpu_millis), ("memory", units))
    ]
    return Mid(*found)


def of_version(status: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """Return a status as an agent of this version writes it."""
    if version is Version.UPSTREAM:
        return {key: status[key] for key in ("updateTime", *_UPSTREAM_KEYS)}
    if version is Version.FORMER:
        return {key: value for key, value in status.items() if key not in _LACKED_BY_FORMER}
    return dict(status)


def broken(status: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a status that is impossible, in one of three ways."""
    found: dict[str, Any] = json.loads(json.dumps(status))
    match chance.randrange(3):
        case 0:
            found["updateTime"] = "@future@"
        case 1:
            key = "prodPeakMetric" if "prodPeakMetric" in found else "prodReclaimableMetric"
            found[key]["resource"]["resources"]["cpu"] = "-1"
        case _:
            found["allocated"] = {"prod": {"cpu": "1", "memory": "-5Gi"}, "mid": {}}
    return found


def moments(now: float) -> tuple[bytes, bytes]:
    """Return the texts of now, and of a time that no sample may have."""
    return synthetic_cluster.moment(now).encode(), synthetic_cluster.moment(now + _FUTURE.total_seconds()).encode()


class Corpus:
    """Reports of all archetypes and versions."""

    def __init__(self, statuses: Sequence[Sequence[Mapping[str, Any]]], requests: Sequence[Sequence[int]]) -> None:
        """Take the statuses of each archetype, and the cores that each of its pods requests."""
        self.requests = requests
        self._made = [
            {version: [self._make(of_version(each, version)) for each in steps] for version in Version}
            for steps in statuses
        ]
        self._statuses = statuses

    @staticmethod
    def _make(status: Mapping[str, Any]) -> Made:
        return Made(json.dumps(status, separators=(",", ":")).encode(), formula(status))

    def version_of(self, node: int) -> Version:
        """Return the version of a node's agent."""
        return VERSIONS[node % len(VERSIONS)]

    def archetype_of(self, node: int) -> int:
        """Return the archetype of a node."""
        return node % len(self._made)

    def report(self, node: int, number: int) -> Made:
        """Return the report of a node, counted from its first."""
        steps = self._made[self.archetype_of(node)][self.version_of(node)]
        return steps[(node // len(self._made) + number) % len(steps)]

    def broken(self, node: int, number: int, chance: random.Random) -> bytes:
        """Return JSON of a broken status in place of a report."""
        steps = self._statuses[self.archetype_of(node)]
        status = steps[(node // len(self._made) + number) % len(steps)]
        return json.dumps(broken(of_version(status, self.version_of(node)), chance), separators=(",", ":")).encode()

    def pods(self, node: int, suffix: str) -> list[dict[str, Any]]:
        """Return the pods of a node, as the API server has them."""
        found = []
        for index, cores in enumerate(self.requests[self.archetype_of(node)]):
            made = synthetic_cluster.pod(pod_name(index, suffix), namespace=NAMESPACE)
            requests = {"cpu": f"{500 * cores}m", "memory": f"{cores}Gi"}  # of each of two containers
            for container in made["spec"]["containers"]:
                container["resources"] = {"requests": requests, "limits": requests}
            found.append(made)
        return found


def pod_name(index: int, suffix: str) -> str:
    """Return the name of a pod of a node."""
    return f"app-{index:02d}-{suffix}"


def make(traces: Traces, *, archetypes: int, steps: int, seed: int = 1) -> Corpus:
    """Feed the agent's observer and report builder with usage of the traces; `steps` reports of each archetype."""
    chance = random.Random(f"fleet {seed}")
    drawn = node_history.draw_requests(len(traces.shares), seed)
    statuses, requests = [], []
    for _ in range(archetypes):
        series = [chance.randrange(len(drawn)) for _ in range(PODS)]
        while sum(drawn[each] for each in series) > synthetic_cluster.CPU_MILLIS // 1000 - FREE_CORES:
            series.pop()
        offset = chance.randrange(traces.shares.shape[1])
        statuses.append(_statuses(traces, [(each, drawn[each]) for each in series], offset, steps))
        requests.append([drawn[each] for each in series])
    return Corpus(statuses, requests)


def _statuses(traces: Traces, pods: Sequence[tuple[int, int]], offset: int, steps: int) -> list[dict[str, Any]]:
    """Return the statuses of one node, with placeholders for time and names."""
    names = [pod_name(index, POD.decode()) for index in range(len(pods))]
    cluster = StaticCluster(
        *(
            bound_pod(name, namespace=NAMESPACE, cpu_request_millis=1000 * cores, memory_request_bytes=2 * cores * GIB)
            for name, (_, cores) in zip(names, pods, strict=True)
        ),
        spec=SPEC,
    )
    cluster.capacity = cluster.allocatable = WholeAmounts(synthetic_cluster.CPU_MILLIS, synthetic_cluster.MEMORY_BYTES)
    cluster.spec = node_metric.NodeMetricSpec.model_validate(SPEC)
    node = FedNode(cluster, STEP_SECONDS)
    length = traces.shares.shape[1]

    def usage(step: int) -> tuple[dict[str, UsageSample], UsageSample]:
        at = offset + step * STEP_SECONDS // REPORT_SECONDS
        found = {}
        for name, (series, cores) in zip(names, pods, strict=True):
            share, other = (float(traces.shares[series, (at + ahead) % length]) for ahead in (0, length // 2))
            memory = (_MEMORY_LOW + _MEMORY_RISE * (other if other == other else 0.0)) * 2 * cores * GIB
            found[name] = UsageSample((share if share == share else 0.0) * cores, memory)
        return found, _SYSTEM

    made = []
    for step in node.run(WARM_UP_SECONDS + steps * REPORT_SECONDS, usage):
        at_seconds = (step + 1) * STEP_SECONDS
        if at_seconds > WARM_UP_SECONDS and at_seconds % REPORT_SECONDS == 0:
            made.append(_with_placeholders(node.report()))
    return made


def _with_placeholders(status: dict[str, Any]) -> dict[str, Any]:
    status["updateTime"] = TIME.decode()
    status["prediction"] |= {"time": TIME.decode(), "since": "2026-01-01T00:00:00Z"}
    for condition in status.get("conditions", ()):
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status.pop("observedGeneration", None)
    return status
