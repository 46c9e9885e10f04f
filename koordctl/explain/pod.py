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
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts
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
class Explained:
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
        return next((each for each in self.decisions if not uid or each.get("uid") in (uid, "", None)), {})

    @property
    def mid_requests(self) -> Amounts:
        """Return what the pod requests of Mid resources."""
        try:
            found = pods.requests(self.pod.spec)
        except quantities.InvalidQuantity:
            return UNKNOWN
        return Amounts(found.get(names.MID_CPU, 0), found.get(names.MID_MEMORY, 0))


def answer(given: Explained, most_nodes: int, notes: Sequence[str] = ()) -> Answer:
    """Return the answer of `explain pod`, with at most `most_nodes` nodes of the newest decision; 0: all."""
    found = _groups(given)
    tables = [_group_table(found)] if found else []
    nodes = given.newest.get("nodes") or []
    shown = nodes[: most_nodes or None]
    if shown:
        tables.append(_node_table(shown))
    fits = [group.nearest.fits_if for group in found if group.nearest.fits_if]
    tail = []
    if len(shown) < len(nodes):
        tail.append(f"and {len(nodes) - len(shown)} more nodes (--nodes 0 shows all)")
    if fits and not given.state.node:
        tail.append(f"it would fit if {'; or if '.join(fits)}")
    tail += [f"eviction: {sentence}" for sentence in given.eviction]
    state = given.state
    return Answer(
        _document(given, found, fits),
        tables,
        [f"pod/{state.name}"],
        list(_head(given)),
        ["", *tail] if tail else [],
        notes=notes,
    )


def _groups(given: Explained) -> list[Group]:
    scheduled = next((each for each in given.conditions if each.type == _SCHEDULED), WireCondition())
    message = (scheduled.message or "") if scheduled.status == "False" else ""
    newest = given.newest
    estimate = newest.get("estimate") or {}
    return misses.groups(message, newest.get("nodes") or [], estimate, given.mid_requests, given.nodes)


def _head(given: Explained) -> Iterator[str]:
    pod, state = given.pod, given.state
    where = f"on {state.node}" if state.node else f"for {_age(pod.metadata.creation_timestamp, given.now)}"
    band = f"{state.band.title()} pod of {pod.spec.scheduler_name or 'the default scheduler'}"
    yield f"{state.namespace}/{state.name} is {state.phase or 'Pending'} {where}: {band}, requests {_requests(given)}"
    newest = given.newest
    if newest:
        at = given.now.timestamp() - float(newest.get("at") or 0)
        passed = f"{newest.get('nodesPassed')} of {newest.get('nodesAsked')} nodes passed the scheduler plugin"
        yield f"last decision {age(at)} ago: {passed}; {newest.get('outcome')}"
        yield f"the pod counts as {_counted(newest)}"
    if given.mid_of_namespace:
        yield given.mid_of_namespace
    for each in given.conditions:
        if each.type == _SCHEDULED and each.status == "False" and each.message:
            yield f"kube-scheduler: {each.message}"


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
    seen = times.parse_rfc3339_or_none(created)
    return age((now - seen).total_seconds() if seen else None)


def _requests(given: Explained) -> str:
    mid = given.mid_requests
    if mid.cpu or mid.memory:
        return f"{cores(mid.cpu)} cores and {gib(mid.memory)} GiB of Mid"
    requests = given.state.requests
    return f"{cores(requests.cpu)} cores and {gib(requests.memory)} GiB"


def _group_table(found: Sequence[Group]) -> Table:
    columns = (Column("NODES", right=True), Column("WHY NOT"), Column("NEAREST MISS"), Column("SOURCE"))
    return Table(columns, [(str(each.nodes), each.reason, each.nearest.text, each.source) for each in found])


def _node_table(nodes: Sequence[Mapping[str, Any]]) -> Table:
    columns = (Column("NODE"), Column("RESULT"), Column("SCORE", right=True), Column("WHY"))
    rows = [
        (
            str(node.get("node")),
            str(node.get("result")),
            "-" if node.get("score") is None else str(node.get("score")),
            str(node.get("sentence")),
        )
        for node in nodes
    ]
    return Table(columns, rows)


def _document(given: Explained, found: Sequence[Group], fits: Sequence[str]) -> PodExplanation:
    state = given.state
    return PodExplanation(
        namespace=state.namespace,
        name=state.name,
        phase=state.phase,
        node=state.node or None,
        band=state.band,
        scheduler=given.pod.spec.scheduler_name,
        requests=amounts(state.requests),
        mid_requests=amounts(given.mid_requests),
        rejections=[
            PodRejection(each.nodes, each.reason, each.source, each.nearest.node or None, each.nearest.text)
            for each in found
        ],
        fits_if=list(fits),
        eviction=list(given.eviction),
        decisions=[dict(each) for each in given.decisions],
    )
