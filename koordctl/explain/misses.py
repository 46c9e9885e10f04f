"""Why nodes do not take a pod: reasons with the number of nodes, the nearest miss of each, and what would fit. Pure.

Reasons are those of kube-scheduler, in the condition PodScheduled of the pod, and those of the scheduler plugin, in its
record of the newest decision. A reason of both is counted once, with the numbers of the record.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api_types import names
from fleet.node_state import Amounts, NodeState
from koordctl.cli.answer import age, cores, gib

KUBE_SCHEDULER: Final = "kube-scheduler"
_LONGEST_MESSAGE: Final = 8_000
_GROUP: Final = re.compile(r"(\d{1,6}) (.+?)(?=, \d{1,6} |\. |\.?$)")
_INSUFFICIENT: Final = "Insufficient "
_SHOWN_UNITS: Final = {names.MID_CPU: 1_000, names.MID_MEMORY: 2**30}
"""A core and a GiB."""

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
    for count, reason in _message_groups(message):
        if reason not in codes:
            reasons.append(Group(count, reason, KUBE_SCHEDULER, _nearest_mid(reason, count, mid, nodes)))
    return sorted(reasons, key=lambda group: -group.nodes)


def _message_groups(message: str) -> Iterator[tuple[int, str]]:
    """Yield the groups of a message: `0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable.`."""
    reasons = message[:_LONGEST_MESSAGE].partition("nodes are available: ")[2].partition(" preemption: ")[0]
    for match in _GROUP.finditer(reasons):
        yield int(match[1]), match[2]


def _nearest_mid(reason: str, count: int, mid: Amounts, nodes: Sequence[NodeState]) -> Miss:
    """Return the node with most of a Mid resource left; none for another reason.

    A node with enough left does not take the pod for another reason, unless fewer nodes than `count` are short by now.
    """
    resource = reason.removeprefix(_INSUFFICIENT)
    if not reason.startswith(_INSUFFICIENT) or resource not in names.MID_RESOURCES:
        return Miss()
    left = ((_amount(node.mid.minus(node.mid_requests), resource), node.name) for node in nodes)
    amounts = [(max(amount, 0), name) for amount, name in left if amount is not None]
    if not amounts:
        return Miss()
    request = _amount(mid, resource) or 0
    too_little = [amount for amount in amounts if amount[0] < request]
    most, name = max(too_little if len(too_little) >= count else amounts)
    short = request - most
    if short <= 0:
        return Miss(name, f"{name} has {_shown(resource, most)} left now: enough")
    text = f"{name} has {_shown(resource, most)} left, short by {_shown(resource, short)}"
    return Miss(name, text, _fits_if(name, resource, most))


def _fits_if(name: str, resource: str, amount: int) -> str:
    """Return the request that fits, rounded down to what is shown; empty where less than a tenth is left."""
    tenths = 10 * amount // _SHOWN_UNITS[resource]
    fits = _shown(resource, tenths * _SHOWN_UNITS[resource] / 10)
    return f"the pod requested at most {fits} of {resource} ({name} now)" if tenths > 0 else ""


def _amount(amounts: Amounts, resource: str) -> int | None:
    return amounts.cpu if resource == names.MID_CPU else amounts.memory


def _shown(resource: str, amount: float) -> str:
    format_, unit = (cores, "cores") if resource in (names.MID_CPU, names.CPU) else (gib, "GiB")
    shown = format_(amount)
    return f"less than 0.1 {unit}" if amount > 0 and shown == format_(0) else f"{shown} {unit}"


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
    inputs = (node.get("inputs") or {}).get(node.get("plugin")) or {}
    for distance, miss in (*_over_limit(name, inputs, estimate), *_short_of_mid(name, inputs, mid)):
        return distance, miss
    seconds = node.get("reportAgeSeconds")
    if isinstance(seconds, int | float):
        return float(seconds), Miss(name, f"{name}: report {age(seconds)} old")
    return float("inf"), Miss(name, name)


def _over_limit(name: str, inputs: Mapping[str, Any], estimate: Mapping[str, int]) -> Iterator[tuple[float, Miss]]:
    """Yield the resource that is most above its limit with the pod, for the plugin that has these inputs."""
    usage, whole, limits = (inputs.get(key) or {} for key in ("usage", "allocatable", "limitPercent"))
    over = []
    for resource, limit in limits.items():
        total = whole.get(resource) or 0
        if limit and total:
            percent = 100 * ((usage.get(resource) or 0) + estimate.get(resource, 0)) / total
            over.append((percent - limit, resource, percent, limit))
    if over and max(over)[0] > 0:
        excess, resource, percent, limit = max(over)
        text = f"{name}: {resource} {percent:.0f} % with the pod, limit {limit:.0f} %"
        yield excess, Miss(name, text, f"{name} used {excess:.0f} % less of its {resource}")


def _short_of_mid(name: str, inputs: Mapping[str, Any], mid: Amounts) -> Iterator[tuple[float, Miss]]:
    """Yield the Mid resource that is short on a node by its newest report."""
    remaining = inputs.get("midLeft") or {}
    short = []
    for resource in names.MID_RESOURCES:
        amount, request = remaining.get(resource), _amount(mid, resource)
        if amount is not None and request and amount < request:
            short.append(((request - amount) / request, resource, max(int(amount), 0), request))
    if short:
        share, resource, amount, request = max(short)
        missing = _shown(resource, int(request) - amount)
        text = f"{name} has {_shown(resource, amount)} left by its newest report, short by {missing}"
        yield 100 * share, Miss(name, text, _fits_if(name, resource, amount))
