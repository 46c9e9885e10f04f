"""`koordctl top`: usage, requests, predicted peak and Mid resources of nodes, pods and namespaces. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from fleet.node_state import NodeState, percent
from fleet.pod_state import NamespaceState, PodState
from koordctl.cli import node_bar
from koordctl.cli.answer import NOTHING, Answer, Column, Table, age, cores, gib, share
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts

T = TypeVar("T")
_PERCENT: Final = 1.0
_SECONDS: Final = 1.0
_COUNT: Final = 1.0
_CORES: Final = 1e3
_GIB: Final = 2.0**30


class NodeRow(Part):
    """One node; `prodUsed` and `midUsed` are parts of `used`."""

    name: str
    allocatable: ResourceAmounts
    used: ResourceAmounts
    prod_used: ResourceAmounts
    mid_used: ResourceAmounts
    prod_requests: ResourceAmounts
    prod_peak: ResourceAmounts
    """Predicted peak of the Prod pods."""
    mid: ResourceAmounts
    """Mid resources of the node."""
    mid_requests: ResourceAmounts
    sample_age_seconds: float | None
    predictor: str
    reason: str
    """Reason code of the Mid resources, as on the page of the findings."""
    text: str
    detail: str


class NodeList(AnswerDocument):
    """Document of `koordctl top nodes`."""

    nodes: list[NodeRow]


class PodRow(Part):
    """One pod; the requests are in the resources of its band: those of a Mid pod are Mid resources."""

    namespace: str
    name: str
    node: str
    """Empty where it has none yet."""
    band: str
    """Priority band: prod, mid, batch or free."""
    requests: ResourceAmounts
    used: ResourceAmounts


class PodList(AnswerDocument):
    """Document of `koordctl top pods`."""

    pods: list[PodRow]


class NamespaceUsage(Part):
    """Sums over the pods of one namespace."""

    name: str
    pods: int
    unmeasured_pods: int
    mid_quota_malformed: bool
    mid_quota_is_default: bool
    """Whether the quota is the default of the plugin MidGuard."""
    prod_requests: ResourceAmounts
    prod_used: ResourceAmounts
    mid_requests: ResourceAmounts
    """Those of Mid pods, also of pods that wait for a node."""
    mid_held: ResourceAmounts
    """What counts for the quota: requests of Mid resources of all pods that have a node, whatever their class."""
    mid_quota: ResourceAmounts
    mid_used: ResourceAmounts
    other_used: ResourceAmounts


class NamespaceList(AnswerDocument):
    """Document of `koordctl top namespaces`."""

    namespaces: list[NamespaceUsage]


class SortKey(NamedTuple, Generic[T]):
    """A key of the order and of the limits of rows."""

    value: Callable[[T], Any]
    """None where it is not known."""
    unit: float = 0.0
    """Amount that the table shows as 1; 0 for a text, which has no limits."""

    def amount(self, row: T) -> float | None:
        """Return the value in the unit of the table; None where it is not known."""
        value = self.value(row)
        return None if value is None else value / self.unit


NODE_KEYS: Final[dict[str, SortKey[NodeState]]] = {
    "name": SortKey(lambda node: node.name),
    "used": SortKey(lambda node: node.used_percent("cpu"), _PERCENT),
    "memory": SortKey(lambda node: node.used_percent("memory"), _PERCENT),
    "peak": SortKey(lambda node: percent(node.prod_peak.cpu, node.allocatable.cpu), _PERCENT),
    "requests": SortKey(lambda node: percent(node.prod_requests.cpu, node.allocatable.cpu), _PERCENT),
    "mid": SortKey(lambda node: node.mid.cpu, _CORES),
    "age": SortKey(lambda node: node.sample_age_seconds, _SECONDS),
}
"""Keys of nodes."""
POD_KEYS: Final[dict[str, SortKey[PodState]]] = {
    "name": SortKey(lambda pod: (pod.namespace, pod.name)),
    "used": SortKey(lambda pod: pod.used.cpu, _CORES),
    "memory": SortKey(lambda pod: pod.used.memory, _GIB),
    "requests": SortKey(lambda pod: pod.requests.cpu, _CORES),
    "slack": SortKey(lambda pod: pod.slack.cpu, _CORES),
}
"""Keys of pods."""
NAMESPACE_KEYS: Final[dict[str, SortKey[NamespaceState]]] = {
    "name": SortKey(lambda namespace: namespace.name),
    "pods": SortKey(lambda namespace: namespace.pods, _COUNT),
    "used": SortKey(lambda namespace: namespace.prod_used.cpu, _CORES),
    "requests": SortKey(lambda namespace: namespace.prod_requests.cpu, _CORES),
    "mid": SortKey(lambda namespace: namespace.mid_requests.cpu, _CORES),
    "held": SortKey(lambda namespace: namespace.mid_held.cpu, _CORES),
    "quota": SortKey(lambda namespace: namespace.mid_quota.cpu, _CORES),
}
"""Keys of namespaces."""


def ordered(rows: Iterable[T], key: SortKey[T], *, descending: bool) -> list[T]:
    """Sort; what is not known comes last in either direction."""
    with_value, without = list[T](), list[T]()
    for row in rows:
        (without if key.value(row) is None else with_value).append(row)
    return [*sorted(with_value, key=key.value, reverse=descending), *without]


def nodes(states: Sequence[NodeState], notes: Sequence[str] = (), limit_percent: float | None = None) -> Answer:
    """Return the answer of `top nodes`, with the usage threshold of the scheduler in its bars where it is given."""
    columns = (
        Column("NODE"),
        Column("OF CPU", is_drawing=True, optional=True),
        Column("CPU", right=True),
        Column("USED", right=True),
        Column("PROD REQ", right=True),
        Column("PROD PEAK", right=True),
        Column("MID", right=True),
        Column("MID REQ", right=True),
        Column("MEMORY USED", right=True),
        Column("MID MEMORY", right=True, wide=True),
        Column("PREDICTOR", wide=True),
        Column("AGE", right=True),
        Column("REASON"),
    )
    rows = [
        (
            node.name,
            node_bar.bar(node, limit_percent),
            cores(node.allocatable.cpu),
            share(node.used_percent("cpu")),
            share(percent(node.prod_requests.cpu, node.allocatable.cpu)),
            share(percent(node.prod_peak.cpu, node.allocatable.cpu)),
            cores(node.mid.cpu),
            cores(node.mid_requests.cpu),
            share(node.used_percent("memory")),
            gib(node.mid.memory),
            node.predictor,
            age(node.sample_age_seconds),
            node.reason,
        )
        for node in states
    ]
    data = NodeList([_node_document(node) for node in states])
    names = [f"node/{node.name}" for node in states]
    legend = node_bar.legend(limit_percent) if states else ""
    return Answer(data, [Table(columns, rows)], names, legend=legend, exit_code=_code(states), notes=notes)


def _code(rows: Sequence[object]) -> int:
    return 0 if rows else NOTHING


def _node_document(node: NodeState) -> NodeRow:
    return NodeRow(
        name=node.name,
        allocatable=amounts(node.allocatable),
        used=amounts(node.used),
        prod_used=amounts(node.prod_used),
        mid_used=amounts(node.mid_used),
        prod_requests=amounts(node.prod_requests),
        prod_peak=amounts(node.prod_peak),
        mid=amounts(node.mid),
        mid_requests=amounts(node.mid_requests),
        sample_age_seconds=node.sample_age_seconds,
        predictor=node.predictor,
        reason=node.reason,
        text=node.text,
        detail=node.detail,
    )


def pods(states: Sequence[PodState], notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `top pods`."""
    columns = (
        Column("NAMESPACE"),
        Column("POD"),
        Column("NODE"),
        Column("BAND"),
        Column("CPU REQ", right=True),
        Column("CPU USED", right=True),
        Column("MEMORY REQ", right=True),
        Column("MEMORY USED", right=True),
        Column("PHASE", wide=True),
    )
    rows = [
        (
            pod.namespace,
            pod.name,
            pod.node or "-",
            pod.band,
            cores(pod.requests.cpu),
            cores(pod.used.cpu),
            gib(pod.requests.memory),
            gib(pod.used.memory),
            pod.phase,
        )
        for pod in states
    ]
    data = PodList(
        [
            PodRow(pod.namespace, pod.name, pod.node, pod.band, amounts(pod.requests), amounts(pod.used))
            for pod in states
        ]
    )
    names = [f"pod/{pod.name}" for pod in states]
    return Answer(data, [Table(columns, rows)], names, exit_code=_code(states), notes=notes)


def namespaces(states: Sequence[NamespaceState], notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `top namespaces`."""
    columns = (Column("NAMESPACE"), *(Column(title, right=True) for title in _NAMESPACE_TITLES))
    rows = [
        (
            namespace.name,
            str(namespace.pods),
            cores(namespace.prod_requests.cpu),
            cores(namespace.prod_used.cpu),
            cores(namespace.mid_requests.cpu),
            cores(namespace.mid_held.cpu),
            _quota(namespace),
            cores(namespace.mid_used.cpu),
            cores(namespace.other_used.cpu),
            str(namespace.unmeasured),
        )
        for namespace in states
    ]
    data = NamespaceList(
        [
            NamespaceUsage(
                name=namespace.name,
                pods=namespace.pods,
                unmeasured_pods=namespace.unmeasured,
                mid_quota_malformed=namespace.is_quota_malformed,
                mid_quota_is_default=namespace.is_quota_default,
                prod_requests=amounts(namespace.prod_requests),
                prod_used=amounts(namespace.prod_used),
                mid_requests=amounts(namespace.mid_requests),
                mid_held=amounts(namespace.mid_held),
                mid_quota=amounts(namespace.mid_quota),
                mid_used=amounts(namespace.mid_used),
                other_used=amounts(namespace.other_used),
            )
            for namespace in states
        ]
    )
    names = [f"namespace/{namespace.name}" for namespace in states]
    tail = ["", DEFAULT_QUOTA] if any(namespace.is_quota_default for namespace in states) else ()
    table = Table(columns, rows)
    return Answer(data, [table], names, tail=tail, exit_code=_code(states), notes=notes)


DEFAULT_QUOTA: Final = "* the default quota of MidGuard: the namespace has no annotation koordinator.sh/mid-quota"


def _quota(of: NamespaceState) -> str:
    if of.is_quota_malformed:
        return "malformed"
    return cores(of.mid_quota.cpu) + ("*" if of.is_quota_default else "")


_NAMESPACE_TITLES: Final = (
    "PODS",
    "PROD REQ",
    "PROD USED",
    "MID REQ",
    "MID HELD",
    "MID QUOTA",
    "MID USED",
    "OTHER USED",
    "NOT MEASURED",
)
