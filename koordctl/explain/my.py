"""Command `koordctl my`: the Mid resources of one namespace, for its owner.

The ClusterRole `koord-tenant` and the role `view` of the namespace suffice.
"""

from __future__ import annotations

import datetime as dt
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Final

from click import Option

from api_types import names
from api_types.kubernetes import pods, times
from api_types.mid_pods import cpu_limits, quota
from apiserver_client import errors, objects, resources
from fleet import pod_state, wire
from fleet.findings import Unread
from fleet.node_state import UNKNOWN, Amounts, NodeState
from fleet.reading import Reader
from koordctl.cli import command, flags
from koordctl.cli.answer import Answer, Cell, Column, age, core_count, cores, gib, number, table
from koordctl.cli.document import AnswerDocument, Part, ResourceAmounts, amounts
from koordctl.explain import pod as explained
from manager.mid_resource.eviction import planning

_ROLES: Final = "; the ClusterRole koord-tenant and the role view of the namespace have them"
_ENDED: Final = (planning.EVICTED, "Evicted", "Preempted")
"""Reasons of Events on pods that the manager, the kubelet or the scheduler has ended."""
_MOST_ENDED: Final = 10


class OwnPod(Part):
    """A Mid pod of the namespace, or one that was ended lately."""

    name: str
    state: str
    """waits, runs or ended."""
    node: str | None
    requests: ResourceAmounts
    since_seconds: float | None
    why: str
    """Why it waits or was ended, or what limits it now; empty for a pod with all that it requests."""


class Tenant(AnswerDocument):
    """Document of `koordctl my`."""

    namespace: str
    free: ResourceAmounts
    """Mid resources of all nodes that no pod requests, by the newest reports."""
    largest_hole: ResourceAmounts
    """Those of the one node with most CPU free: a pod can request no more."""
    largest_hole_node: str | None
    held: ResourceAmounts
    quota: ResourceAmounts
    """By the annotation of the namespace; null where it sets none, or could not be read."""
    pods: list[OwnPod]


class _ConditionText(pods.ObjectCondition, frozen=True):
    message: str | None = ""


class _StatusText(pods.PodStatus, rename="camel", frozen=True):
    conditions: list[_ConditionText] | None = None  # type: ignore[assignment]


class _TenantPod(cpu_limits.WrittenPod, frozen=True):
    status: _StatusText = _StatusText()


PARAMETERS: Final = (
    Option(
        ["-n", "--namespace"],
        type=flags.namespace,
        shell_complete=flags.names_of_cluster("namespaces"),
        help="namespace of yours (default: that of the context)",
    ),
    *flags.READING,
    *flags.WATCH,
)


@command.reads()
async def run(reader: Reader, options: Namespace) -> Answer:
    """Read, and return the answer."""
    namespace = options.namespace or reader.api.namespace
    nodes, of_namespace, listed = await reader.nodes(), None, None
    try:
        of_namespace = await objects.get(reader.api, resources.NAMESPACES, namespace, decode=pods.AnyObject)
    except errors.Forbidden as error:
        reader.unread.append(Unread("namespaces", str(error), is_right=True))
    with reader.attempt("pods"):
        read = await objects.list_all(reader.api, resources.PODS, namespace=namespace, decode=_TenantPod)
        listed = [pod for pod in read.items if not pods.is_terminal(pod)]
    own = list(_own_pods(listed or (), nodes or (), reader.now))
    with reader.attempt("events"):
        events = await objects.list_all(reader.api, resources.EVENTS, namespace=namespace, decode=wire.WireEvent)
        own += _ended(events.items, reader.now)
    if nodes is None and listed is None:
        raise command.nothing_read(reader, _ROLES)
    free = [(_free(node), node.name) for node in nodes or () if node.has_node and not node.closed]
    total = pod_state.total(amount for amount, _ in free)
    largest, on = max(free, default=(UNKNOWN, None))
    held = UNKNOWN if listed is None else pod_state.total(pod_state.combine(pod, UNKNOWN).mid_held for pod in listed)
    limit, problem = _quota(of_namespace)
    data = Tenant(namespace, amounts(total), amounts(largest), on, amounts(held), amounts(limit), own)
    none = "no node was read" if nodes is None else "no node takes new Mid pods"
    hole = f"{_text(total)}, at most {_text(largest)} on one node ({on})" if on else none
    left = problem or f"its quota leaves {_text(limit.minus(held))} of {_text(limit)}"
    head = [f"free Mid: {hole}", f"{namespace} holds {_text(held)}; {left}"]
    cells: list[Cell[OwnPod]] = [
        (Column("POD"), lambda pod: pod.name),
        (Column("STATE"), lambda pod: f"{pod.state} {age(pod.since_seconds)}"),
        number("CPU", lambda pod: cores(pod.requests.cpu_millis)),
        number("MEMORY", lambda pod: gib(pod.requests.memory_bytes)),
        (Column("WHY"), lambda pod: pod.why),
    ]
    tables = [table(own, cells)] if own else []
    return Answer(
        data, tables, [f"pod/{pod.name}" for pod in own], head, notes=command.notes(reader.unread, roles=_ROLES)
    )


def _text(measured: Amounts) -> str:
    return f"{core_count(measured.cpu)} cores and {gib(measured.memory)} GiB"


def _free(node: NodeState) -> Amounts:
    return Amounts(*(max(amount or 0, 0) for amount in node.mid.minus(node.mid_requests)))


def _quota(namespace: pods.AnyObject | None) -> tuple[Amounts, str]:
    """Return the quota of a namespace, or why there is none to show."""
    if namespace is None:
        return UNKNOWN, "its quota was not read"
    annotation = pods.annotation_map(namespace.metadata).get(names.ANNOTATION_MID_QUOTA)
    if annotation is None:
        return UNKNOWN, "it has no quota of its own; the scheduler may have one for all namespaces"
    try:
        return Amounts(*quota.read(annotation, quota.UNLIMITED)), ""
    except quota.MalformedQuota as error:
        return UNKNOWN, f"its quota is malformed, so it gets no new Mid pod: {error}"


def _own_pods(listed: Sequence[_TenantPod], nodes: Sequence[NodeState], now: dt.datetime) -> Iterator[OwnPod]:
    """Yield the Mid pods, those that wait first."""
    for pod in sorted(listed, key=lambda pod: (bool(pod.spec.node_name), pod.metadata.name)):
        state = pod_state.combine(pod, UNKNOWN)
        if state.band != "mid":
            continue
        is_placed = bool(pod.spec.node_name)
        since = times.parse_rfc3339_or_none(pod.status.start_time if is_placed else pod.metadata.creation_timestamp)
        yield OwnPod(
            name=state.name,
            state="runs" if is_placed else "waits",
            node=state.node or None,
            requests=amounts(state.requests),
            since_seconds=(now - since).total_seconds() if since else None,
            why=_limit(pod) if is_placed else _refusal(pod, state.requests, nodes),
        )


def _limit(pod: _TenantPod) -> str:
    limits = cpu_limits.resizable_pod(pod)
    if limits is None or not limits.is_lowered:
        return "" if limits is None or limits.has_limits else "a container has no limit: set cpu and memory of each"
    whole, now = (
        sum(getattr(container, name) for container in limits.containers) for name in ("original_millis", "limit_millis")
    )
    return f"limited to {core_count(now)} of {core_count(whole)} cores: its node is busy"


def _refusal(pod: _TenantPod, requests: Amounts, nodes: Sequence[NodeState]) -> str:
    """Return why the scheduler places a pod on no node."""
    conditions = (condition for condition in pod.status.conditions or () if condition.type == "PodScheduled")
    message = next((condition.message or condition.reason for condition in conditions), "")
    groups = explained.groups(message, (), {}, requests, nodes)
    reasons = [
        f"{group.nodes} node{'s' if group.nodes > 1 else ''}: {group.reason}"
        + (group.nearest.text and f" ({group.nearest.text})")
        for group in groups
    ]
    return "; ".join(reasons) or message or f"{pod.spec.scheduler_name or 'no scheduler'} has not answered yet"


def _ended(events: Sequence[wire.WireEvent], now: dt.datetime) -> list[OwnPod]:
    """Return the pods that were ended lately, the newest first."""
    about = [event for event in events if event.reason in _ENDED and event.involved_object.kind == "Pod" and event.time]
    about.sort(key=lambda event: event.time or now, reverse=True)
    return [
        OwnPod(
            name=event.involved_object.name,
            state="ended",
            node=None,
            requests=amounts(UNKNOWN),
            since_seconds=(now - event.time).total_seconds() if event.time else None,
            why=f"{event.reason}: {event.message}",
        )
        for event in about[:_MOST_ENDED]
    ]
