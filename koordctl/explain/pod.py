"""`koordctl explain pod`: why a pod is on its node, why not on others, and what would make it fit. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api_types import names
from api_types.kubernetes import pods, quantities, times
from fleet import pod_state
from fleet.node_state import UNKNOWN, Amounts, NodeState
from fleet.pod_state import PodState
from fleet.wire import WireCondition
from koordctl.cli.answer import Answer, Column, Table, age, cores, gib
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts, part
from koordctl.explain import misses
from koordctl.explain.misses import Group

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
        try:
            requests = pods.requests(self.pod.spec)
        except quantities.InvalidQuantity:
            return UNKNOWN
        return Amounts(requests.get(names.MID_CPU, 0), requests.get(names.MID_MEMORY, 0))


def answer(explained: ExplainedPod, most_nodes: int, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `explain pod`, with at most `most_nodes` nodes of the newest decision; 0: all."""
    rejections = _groups(explained)
    columns = (Column("NODES", right=True), Column("WHY NOT"), Column("NEAREST MISS"), Column("SOURCE"))
    rows = [(str(group.nodes), group.reason, group.nearest.text, group.source) for group in rejections]
    tables = [Table(columns, rows)] if rows else []
    nodes = explained.newest.get("nodes") or []
    shown = nodes[: most_nodes or None]
    if shown:
        tables.append(_node_table(shown))
    fits = [group.nearest.fits_if for group in rejections if group.nearest.fits_if]
    tail = []
    if len(shown) < len(nodes):
        tail.append(f"and {len(nodes) - len(shown)} more nodes (--nodes 0 shows all)")
    if fits and not explained.state.node:
        tail.append(f"it would fit if {'; or if '.join(fits)}")
    tail += [f"eviction: {sentence}" for sentence in explained.eviction]
    state = explained.state
    return Answer(
        _document(explained, rejections, fits),
        tables,
        [f"pod/{state.name}"],
        list(_head(explained)),
        ["", *tail] if tail else [],
        notes=notes,
    )


def _groups(explained: ExplainedPod) -> list[Group]:
    scheduled = next((condition for condition in explained.conditions if condition.type == _SCHEDULED), WireCondition())
    message = (scheduled.message or "") if scheduled.status == "False" else ""
    newest = explained.newest
    estimate = newest.get("estimate") or {}
    return misses.groups(message, newest.get("nodes") or [], estimate, explained.mid_requests, explained.nodes)


def _head(explained: ExplainedPod) -> Iterator[str]:
    pod, state = explained.pod, explained.state
    where = f"on {state.node}" if state.node else f"for {_age(pod.metadata.creation_timestamp, explained.now)}"
    band = f"{state.band.title()} pod of {pod.spec.scheduler_name or 'the default scheduler'}"
    requests = _requests(explained)
    yield f"{state.namespace}/{state.name} is {state.phase or 'Pending'} {where}: {band}, requests {requests}"
    newest = explained.newest
    if newest:
        at = explained.now.timestamp() - float(newest.get("at") or 0)
        passed = f"{newest.get('nodesPassed')} of {newest.get('nodesAsked')} nodes passed the scheduler plugin"
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
            f"{cores(estimate.get('cpu', 0))} cores and {gib(estimate.get('memory', 0))} GiB until it is measured"
        )
    kind = "Prod" if decision.get("isProd") else "not Prod"
    waited = decision.get("waitedForLoadSeconds")
    soft = f", refused for load alone for {waited:.0f} s: limits are soft" if waited else ""
    bound = ", bound to one node: limits do not apply"
    return f"{amounts_text}, {kind}{bound if decision.get('isPinned') else soft}"


def _age(created: str | None, now: dt.datetime) -> str:
    created_at = times.parse_rfc3339_or_none(created)
    return age((now - created_at).total_seconds() if created_at else None)


def _requests(explained: ExplainedPod) -> str:
    mid = explained.mid_requests
    if mid.cpu or mid.memory:
        return f"{cores(mid.cpu)} cores and {gib(mid.memory)} GiB of Mid"
    requests = explained.state.requests
    return f"{cores(requests.cpu)} cores and {gib(requests.memory)} GiB"


def _node_table(nodes: Sequence[Mapping[str, Any]]) -> Table:
    columns = (Column("NODE"), Column("RESULT"), Column("SCORE", right=True), Column("WHY"))
    fields = ("node", "result", "score", "sentence")
    rows = [
        ["-" if name == "score" and node.get(name) is None else str(node.get(name)) for name in fields]
        for node in nodes
    ]
    return Table(columns, rows)


def _document(explained: ExplainedPod, rejections: Sequence[Group], fits: Sequence[str]) -> PodExplanation:
    state = explained.state
    return part(
        PodExplanation,
        state,
        node=state.node or None,
        scheduler=explained.pod.spec.scheduler_name,
        mid_requests=amounts(explained.mid_requests),
        rejections=[
            PodRejection(group.nodes, group.reason, group.source, group.nearest.node or None, group.nearest.text)
            for group in rejections
        ],
        fits_if=list(fits),
        eviction=list(explained.eviction),
        decisions=[dict(decision) for decision in explained.decisions],
    )
