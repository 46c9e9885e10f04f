"""What nodes learn from one another: their statements, merged by the code of the manager, and handed back. No I/O.

Nodes are replayed for their statements first, which depend on no history, and where nodes are young once more for their
scores, which depend on the history and on no prior. Then they are replayed with what was known at each full hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from api_types.node_metric.workloads import AddedWorkload
from koordctl.backtest.node_history import NodeHistory
from koordlet.prediction.allocation import Owner, WholeAmounts
from manager.node_metric.workload_history import history, prior
from manager.node_metric.workload_history.history import Entry, Statement
from manager.node_metric.workload_history.prior import NodeScores, Prior

START_SECONDS: Final = 1_700_000_000
"""Time of the first step."""
HOUR_SECONDS: Final = 3600


@dataclass(frozen=True)
class Stated:
    """What one node states, and of which workloads it has cold pods, by the hour since the first step."""

    added: Mapping[int, Sequence[AddedWorkload]] = field(default_factory=dict)
    scores: Mapping[int, tuple[int, NodeScores]] = field(default_factory=dict)
    """With the number of nodes that were at its place before."""
    cold: Mapping[int, frozenset[Owner]] = field(default_factory=dict)
    pool: WholeAmounts | None = None
    """Capacity: nodes of the same are taken for like nodes."""
    is_young: bool = False
    """Whether it is a new node at any time but the first hour."""


@dataclass(frozen=True)
class Handed:
    """What the manager hands to one node, by the hour since the first step."""

    entries: Mapping[int, Mapping[Owner, Entry]] = field(default_factory=dict)
    """Of the workloads of its cold pods."""
    priors: Mapping[int, Prior] = field(default_factory=dict)


def owners_of_cold_pods(node: NodeHistory, cold_start_period_seconds: float) -> dict[int, frozenset[Owner]]:
    """Return the owners of the pods that are cold in each hour since the first step."""
    cold: dict[int, set[Owner]] = {}
    for pod, stay in zip(node.bound, node.stays, strict=True):
        first, last = (step * node.step_seconds for step in (stay.start, stay.end - 1))
        last = min(last, first + round(cold_start_period_seconds))
        for hour in range(first // HOUR_SECONDS, last // HOUR_SECONDS + 1):
            if pod.owner is not None:
                cold.setdefault(hour, set()).add(pod.owner)
    return {hour: frozenset(owners) for hour, owners in cold.items()}


def merge(stated: Sequence[Stated]) -> list[Handed]:
    """Return what each node is handed of its workloads: the entries as of the begin of each hour."""
    handed: list[dict[int, Mapping[Owner, Entry]]] = [{} for _ in stated]
    namespaces: dict[str, dict[str, Entry]] = {}

    def entry(owner: Owner) -> Entry | None:
        return namespaces.get(owner.namespace, {}).get(history.key(owner.uid, owner.ordinal))

    for hour in range(_hours(stated)):
        for of_node, one in zip(handed, stated, strict=True):
            of_node[hour] = {owner: known for owner in one.cold.get(hour, ()) if (known := entry(owner)) is not None}
        at_seconds = START_SECONDS + hour * HOUR_SECONDS
        for added in (added for one in stated for added in one.added.get(hour, ())):
            entries, name = namespaces.setdefault(added.namespace, {}), history.key(added.uid, added.ordinal)
            statement = msgspec.convert(added.model_dump(mode="json", by_alias=True), Statement)
            entries[name] = history.merge(entries.get(name), statement, at_seconds)
        namespaces = {
            namespace: history.keep_heaviest(entries, at_seconds) for namespace, entries in namespaces.items()
        }
    return [Handed(of_node) for of_node in handed]


def with_priors(handed: Sequence[Handed], stated: Sequence[Stated]) -> list[Handed]:
    """Return the same with the scores of like nodes for each node that is young at times."""
    by_pool: dict[WholeAmounts | None, dict[tuple[int, int], NodeScores]] = {one.pool: {} for one in stated}
    by_hour: dict[WholeAmounts | None, dict[int, Prior]] = {pool: {} for pool in by_pool}
    for hour in range(_hours(stated)):
        at_seconds = START_SECONDS + hour * HOUR_SECONDS
        for pool, scores in by_pool.items():
            newest = sorted(scores, key=lambda node, scores=scores: scores[node].time)[-prior.MOST_NODES :]  # type: ignore[misc]
            by_pool[pool] = {node: scores[node] for node in newest}
            if (known := prior.prior(by_pool[pool].values(), at_seconds)) is not None:
                by_hour[pool][hour] = known
        for number, one in enumerate(stated):
            if hour in one.scores:
                before, scored = one.scores[hour]
                by_pool[one.pool][number, before] = msgspec.structs.replace(scored, time=at_seconds)
    return [
        replace(of_node, priors=by_hour[one.pool]) if one.is_young else of_node
        for of_node, one in zip(handed, stated, strict=True)
    ]


def _hours(stated: Sequence[Stated]) -> int:
    return max((hour for one in stated for hour in (*one.added, *one.cold)), default=-1) + 1
