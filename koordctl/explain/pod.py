"""`koordctl explain pod`: why a pod is on its node, why not on others, and what would make it fit. Pure.

Reasons are those of kube-scheduler, in the condition PodScheduled of the pod, and those of the scheduler plugin, in its
record of the newest decision. A reason of both is counted once, with the numbers of the record.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods, times
from fleet import pod_state
from fleet.node_state import UNKNOWN, Amounts, NodeState
from fleet.pod_state import PodState
from fleet.wire import WireCondition
from koordctl.cli.answer import Answer, Cell, Column, Table, age, core_count, gib, number, table
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts, part
from koordctl.explain.room import Room, shown

KUBE_SCHEDULER: Final = "kube-scheduler"
_LONGEST_MESSAGE: Final = 8_000
_MOST_ROOMS: Final = 2
_GROUP: Final = re.compile(r"(\d{1,6}) (.+?)(?=, \d{1,6} |\. |\.?$)")
INSUFFICIENT: Final = "Insufficient "

Nodes = Sequence[Mapping[str, Any]]
"""Nodes of a decision, as the debug page of the scheduler plugin has them."""


class Miss(NamedTuple):
    """The node that is nearest to taking the pod."""

    node: str = ""
    text: str = ""
    fits_if: str = ""
    """What would make the pod fit there; empty where it is not known."""


@dataclass(frozen=True)
class Group:
    """Nodes that do not take the pod for one reason."""

    nodes: int
    reason: str
    source: str
    nearest: Miss


def groups(
    message: str, rejected: Nodes, estimate: Mapping[str, int], mid: Amounts, nodes: Sequence[NodeState]
) -> list[Group]:
    """Return the reasons, that of most nodes first.

    `message` is of kube-scheduler, `rejected` and `estimate` of the decision, `mid` is what the pod requests of Mid.
    """
    reasons = list(_recorded_groups(rejected, estimate, mid))
    codes = {group.reason for group in reasons}
    # Such as "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable. preemption: ...".
    named = message[:_LONGEST_MESSAGE].partition("nodes are available: ")[2].partition(" preemption: ")[0]
    for match in _GROUP.finditer(named):
        count, reason = int(match[1]), match[2]
        if reason not in codes:
            reasons.append(Group(count, reason, KUBE_SCHEDULER, _nearest_mid(reason, count, mid, nodes)))
    return sorted(reasons, key=lambda group: -group.nodes)


def _nearest_mid(reason: str, count: int, mid: Amounts, nodes: Sequence[NodeState]) -> Miss:
    """Return the node with most of a Mid resource left; none for another reason.

    A node with enough left does not take the pod for another reason, unless fewer nodes than `count` are short by now.
    """
    resource = reason.removeprefix(INSUFFICIENT)
    if not reason.startswith(INSUFFICIENT) or resource not in names.MID_RESOURCES:
        return Miss()
    remaining = ((_amount(node.mid.minus(node.mid_requests), resource), node.name) for node in nodes)
    amounts = [(max(amount, 0), name) for amount, name in remaining if amount is not None]
    if not amounts:
        return Miss()
    request = _amount(mid, resource) or 0
    too_little = [amount for amount in amounts if amount[0] < request]
    most, name = max(too_little if len(too_little) >= count else amounts)
    short = request - most
    if short <= 0:
        return Miss(name, f"{name} has {shown(resource, most)} left now: enough")
    text = f"{name} has {shown(resource, most)} left, short by {shown(resource, short)}"
    return Miss(name, text)


def _amount(amounts: Amounts, resource: str) -> int | None:
    return amounts.cpu if resource == names.MID_CPU else amounts.memory


def _recorded_groups(rejected: Nodes, estimate: Mapping[str, int], mid: Amounts) -> Iterator[Group]:
    by_reason: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for node in rejected:
        if node.get("result") == "rejected":
            by_reason[str(node.get("reason")), str(node.get("plugin") or "scheduler plugin")].append(node)
    for (reason, plugin), nodes in by_reason.items():
        misses = [_miss(node, estimate, mid) for node in nodes]
        nearest = min(misses, key=lambda pair: pair[0])[1]
        yield Group(len(nodes), reason, f"{plugin} (decision record)", nearest)


def _miss(node: Mapping[str, Any], estimate: Mapping[str, int], mid: Amounts) -> tuple[float, Miss]:
    """Return how far a node is from taking the pod, 0 is the nearest, and the sentence."""
    name = str(node.get("node"))
    every = [columns or {} for columns in (node.get("inputs") or {}).values()]
    misses = [
        miss
        for columns in every
        for miss in (*_over_limit(name, columns, estimate), *_short_of_mid(name, columns, mid))
    ]
    if misses:  # a pod fits where nothing is short of all of it
        distance, miss = max(misses, key=lambda pair: pair[0])
        parts = [other.fits_if for _, other in misses]
        return distance, miss._replace(fits_if=" and ".join(parts) if all(parts) else "")
    seconds = node.get("reportAgeSeconds")
    if isinstance(seconds, int | float):
        return float(seconds), Miss(name, f"{name}: report {age(seconds)} old")
    return float("inf"), Miss(name, name)


def _over_limit(name: str, inputs: Mapping[str, Any], estimate: Mapping[str, int]) -> Iterator[tuple[float, Miss]]:
    """Yield each resource that is above its limit with the pod, for the plugin that has these inputs."""
    usage, whole, limits = (inputs.get(key) or {} for key in ("usage", "allocatable", "limitPercent"))
    for resource, limit in limits.items():
        total = whole.get(resource) or 0
        percent = 100 * ((usage.get(resource) or 0) + estimate.get(resource, 0)) / total if total else 0.0
        excess = percent - limit
        if limit and excess > 0:
            text = f"{name}: {resource} {percent:.0f} % with the pod, limit {limit:.0f} %"
            yield excess, Miss(name, text, f"{name} used {math.ceil(excess)} % less of its {resource}")


def _short_of_mid(name: str, inputs: Mapping[str, Any], mid: Amounts) -> Iterator[tuple[float, Miss]]:
    """Yield each Mid resource that is short on a node by its newest report."""
    remaining = inputs.get("midLeft") or {}
    for resource in names.MID_RESOURCES:
        left, request = remaining.get(resource), _amount(mid, resource)
        if left is not None and request and left < request:
            amount = max(int(left), 0)
            missing = shown(resource, int(request) - amount)
            text = f"{name} has {shown(resource, amount)} left by its newest report, short by {missing}"
            is_nothing = shown(resource, amount) in ("0 cores", "0 MiB")
            fits = "" if inputs.get("midClosed") or is_nothing else str(Room(name, {resource: amount}))
            yield 100 * (request - amount) / request, Miss(name, text, fits)


_SCHEDULED: Final = "PodScheduled"


class PodRejection(Part):
    """Nodes that do not take the pod for one reason."""

    nodes: int
    reason: str
    source: str
    """kube-scheduler, or the plugin whose decision record has it."""
    nearest_node: str | None
    """Node that is nearest to taking the pod; null where it is not known."""
    nearest: str
    """What is short there, as a sentence."""


class PodExplanation(AnswerDocument):
    """Document of `koordctl explain pod`."""

    namespace: str
    name: str
    phase: str
    node: str | None
    band: str
    """Priority band: prod, mid, batch or free."""
    scheduler: str
    requests: ResourceAmounts
    mid_requests: ResourceAmounts
    rejections: list[PodRejection]
    fits_if: list[str]
    """What would make the pod fit, as parts of a sentence."""
    eviction: list[str]
    """What was evicted from its node, and what would be next, as sentences."""
    decisions: list[dict[str, Any]]
    """Decision records of the scheduler plugin, as its debug page has them, the newest first."""


@dataclass(frozen=True)
class ExplainedPod:
    """Everything that explains one pod."""

    pod: pods.Pod
    now: dt.datetime
    conditions: Sequence[WireCondition] = ()
    decisions: Sequence[Mapping[str, Any]] = ()
    """Decisions of the scheduler plugin, newest first; none without a record."""
    nodes: Sequence[NodeState] = ()
    eviction: Sequence[str] = ()
    rooms: Sequence[Room] = ()
    """What would fit by its requests, on the nearest nodes."""
    mid_of_namespace: str = ""
    """What its namespace holds of Mid resources, as a sentence; empty for a pod without them, or a record."""
    state: PodState = field(init=False)

    def __post_init__(self) -> None:
        """Derive the state."""
        object.__setattr__(self, "state", pod_state.combine(self.pod, UNKNOWN))

    @property
    def newest(self) -> Mapping[str, Any]:
        """Return the newest decision on this pod, not on an earlier one of this name; empty without one."""
        uid = self.pod.metadata.uid
        return next((decision for decision in self.decisions if not uid or decision.get("uid") in (uid, "", None)), {})

    @property
    def mid_requests(self) -> Amounts:
        """Return what the pod requests of Mid resources."""
        return pod_state.read_requests(self.pod)[1]


def answer(explained: ExplainedPod, most_nodes: int, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `explain pod`, with at most `most_nodes` nodes of the newest decision; 0: all."""
    scheduled = next((condition for condition in explained.conditions if condition.type == _SCHEDULED), WireCondition())
    message = (scheduled.message or "") if scheduled.status == "False" else ""
    nodes = explained.newest.get("nodes") or []
    estimate = explained.newest.get("estimate") or {}
    rejections = groups(message, nodes, estimate, explained.mid_requests, explained.nodes)
    columns = (Column("NODES", right=True), Column("WHY NOT"), Column("NEAREST MISS"), Column("SOURCE"))
    rows = [(str(group.nodes), group.reason, group.nearest.text, group.source) for group in rejections]
    tables = [Table(columns, rows)] if rows else []
    first = nodes[: most_nodes or None]
    if first:
        tables.append(_node_table(first))
    fits = [group.nearest.fits_if for group in rejections if group.nearest.fits_if]
    fits += map(str, explained.rooms[:_MOST_ROOMS])
    tail = []
    if len(first) < len(nodes):
        tail.append(f"and {len(nodes) - len(first)} more nodes (--nodes 0 shows all)")
    if fits and not explained.state.node:
        tail.append(f"it would fit if {'; or if '.join(fits)}")
    tail += [f"eviction: {sentence}" for sentence in explained.eviction]
    state = explained.state
    data = part(
        PodExplanation,
        state,
        node=state.node or None,
        scheduler=explained.pod.spec.scheduler_name,
        mid_requests=amounts(explained.mid_requests),
        rejections=[
            PodRejection(group.nodes, group.reason, group.source, group.nearest.node or None, group.nearest.text)
            for group in rejections
        ],
        fits_if=fits,
        eviction=list(explained.eviction),
        decisions=[dict(decision) for decision in explained.decisions],
    )
    return Answer(
        data,
        tables,
        [f"pod/{state.name}"],
        list(_head(explained)),
        ["", *tail] if tail else [],
        notes=notes,
    )


def _head(explained: ExplainedPod) -> Iterator[str]:
    pod, state = explained.pod, explained.state
    created = times.parse_rfc3339_or_none(pod.metadata.creation_timestamp)
    waited = age((explained.now - created).total_seconds() if created else None)
    where = f"on {state.node}" if state.node else f"for {waited}"
    band = f"{state.band.title()} pod of {pod.spec.scheduler_name or 'the default scheduler'}"
    requests = _requests(explained)
    yield f"{state.namespace}/{state.name} is {state.phase or 'Pending'} {where}: {band}, requests {requests}"
    newest = explained.newest
    if newest:
        at = explained.now.timestamp() - float(newest.get("at") or 0)
        passed = f"{newest.get('nodesPassed')} of {newest.get('nodesAsked')} nodes passed the scheduler plugin"
        passed += f" (mode {mode})" if (mode := newest.get("mode")) else ""
        yield f"last decision {age(at)} ago: {passed}; {newest.get('outcome')}"
        yield f"the pod counts as {_counted(newest)}"
    if explained.mid_of_namespace:
        yield explained.mid_of_namespace
    for condition in explained.conditions:
        if condition.type == _SCHEDULED and condition.status == "False" and condition.message:
            yield f"kube-scheduler: {condition.message}"


def _counted(decision: Mapping[str, Any]) -> str:
    """Return the usage that the scheduler plugin assumes for a pod, and which limits apply to it."""
    estimate = decision.get("estimate")
    if estimate is None:
        amounts_text = "0, its quantities cannot be parsed"
    else:
        amounts_text = (
            f"{core_count(estimate.get('cpu', 0))} cores and {gib(estimate.get('memory', 0))} GiB until it is measured"
        )
    kind = "Prod" if decision.get("isProd") else "not Prod"
    waited = decision.get("waitedForLoadSeconds")
    soft = f", refused for load alone for {waited:.0f} s: limits are soft" if waited else ""
    bound = ", bound to one node: limits do not apply"
    return f"{amounts_text}, {kind}{bound if decision.get('isPinned') else soft}"


def _requests(explained: ExplainedPod) -> str:
    mid = explained.mid_requests
    if mid.cpu or mid.memory:
        return f"{core_count(mid.cpu)} cores and {gib(mid.memory)} GiB of Mid"
    requests = explained.state.requests
    return f"{core_count(requests.cpu)} cores and {gib(requests.memory)} GiB"


def _node_table(nodes: Sequence[Mapping[str, Any]]) -> Table:
    cells: list[Cell[Mapping[str, Any]]] = [
        (Column("NODE"), lambda node: str(node.get("node"))),
        (Column("RESULT"), lambda node: str(node.get("result"))),
        number("SCORE", lambda node: "-" if node.get("score") is None else str(node.get("score"))),
        (Column("WHY"), lambda node: str(node.get("sentence"))),
    ]
    return table(nodes, cells)
