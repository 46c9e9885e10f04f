"""Amounts of pools from the nodes that were read, and the answer that is printed. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet import scheduler_config
from koordctl.cli.answer import FINE, NOTHING, UNKNOWN, Answer, Cell, Column, Number, Table, number, table
from koordctl.cli.document import AnswerDocument, Part
from koordctl.gain import gains
from koordctl.gain.gains import GIB, GainAmounts, GainSums, PeakExceeded, PredictorGain
from koordlet.prediction.histogram_bank import FloatArray

HOURS_A_MONTH: Final = 730
WEEK_SECONDS: Final = 7 * 86_400
SURE: Final = 1.96
"""Standard errors on each side of an interval of 95 %."""
KINDS: Final = ("requested", "used", "offered", "offered_p10", "evicting_p10")
"""Rows of the array of a node; its columns are cores and GiB, NaN where not known."""
_OFFERED: Final = 2
_POOL_LABELS: Final = (
    "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool", "node.kubernetes.io/instance-type",
)  # fmt: skip
_LIMITS: Final = " or ".join(f"{limit} % of {resource}" for resource, limit in scheduler_config.DEFAULT_LIMITS.items())


AFTERWARDS: Final = "koordctl check --pre, before an installation; after it, koordctl gain has the same amounts"


@dataclass(frozen=True)
class ClusterNodes:
    """The nodes that there are."""

    server: str
    allocatable: Mapping[str, tuple[float, float]]
    """Cores and GiB by node."""
    pools: Mapping[str, str]
    """Pool by node."""
    hot: list[str] | None
    """Nodes with usage above the limits of LoadAwareScheduling; None where usage was not read."""
    missing: list[str]


def pool_of(allocatable: tuple[float, float], labels: Mapping[str, str], label: str | None) -> str:
    """Return the pool of a node: its label, else its size."""
    named = next((labels[key] for key in ((label,) if label else _POOL_LABELS) if key in labels), None)
    return named or f"{allocatable[0]:.0f} cores {allocatable[1]:.0f} GiB"


class PoolEstimate(Part):
    """Nodes of one pool; amounts are of the whole pool, in cores and GiB, null where not known."""

    name: str
    nodes: int
    nodes_read: int
    """Nodes of the sample, from which the amounts are."""
    allocatable: GainAmounts
    requested: GainAmounts
    """By Prod pods."""
    used: GainAmounts
    """By Prod pods and what runs outside of pods; without history by the whole nodes."""
    offered: GainAmounts
    """Mid resources now."""
    offered_p10: GainAmounts
    """Mid resources that 90 % of the forecasts of each node exceed, added up."""
    evicting_p10: GainAmounts
    """The same with `calibrated`, which is in force where the manager evicts Mid pods."""
    spread: GainAmounts
    """How far the whole pool may be from `offered`, with 95 % certainty, for the nodes that were not read."""


class EstimateDocument(AnswerDocument, tag="Estimate", kw_only=True):
    """Document of `koordctl estimate`."""

    source: str
    history_seconds: float = 0.0
    """0 where only the present was read."""
    horizon_seconds: float = 0.0
    """Time that a forecast has to hold for."""
    total: PoolEstimate
    pools: list[PoolEstimate]
    forecasts: list[PredictorGain]
    prod_above_peak: list[PeakExceeded]
    """Share of the horizons, by the default predictor."""
    hot_nodes: list[str] | None
    """Nodes on which the scheduler would place no pod for their usage now."""
    cpu_price: float | None
    """Of a core-hour, as given."""
    memory_price: float | None
    """Of a GiB-hour, as given."""
    worth_a_month: float | None = None
    """Of `offeredP10` (without history `offered`) in 730 hours; null without prices."""
    missing: list[str]
    """What the source does not have, a sentence each."""
    next_steps: list[str]


def pool_estimates(cluster: ClusterNodes, read: Mapping[str, FloatArray]) -> tuple[PoolEstimate, list[PoolEstimate]]:
    """Return the total and the pools: what was read, scaled by the allocatable of all nodes of each pool."""
    pools, sums, squares = [], [], []
    for pool in sorted(set(cluster.pools.values())):
        members = [name for name in cluster.pools if cluster.pools[name] == pool]
        names = [name for name in members if name in read]
        whole, part = (np.array([cluster.allocatable[name] for name in of]).reshape(-1, 2) for of in (members, names))
        amounts = np.array([read[name] for name in names]).reshape(-1, len(KINDS), 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            totals = amounts.sum(axis=0) * whole.sum(axis=0) / part.sum(axis=0)
            # a ratio estimator, with the correction for a finite number of nodes
            offered, count = amounts[:, _OFFERED], len(names)
            apart = offered - part * offered.sum(axis=0) / part.sum(axis=0)
            variance = (apart**2).sum(axis=0) / (count - 1) / count * (1 - count / len(members))
        square = (SURE * len(members)) ** 2 * variance if count < len(members) else 0 * totals[_OFFERED]
        sums.append(np.vstack([whole.sum(axis=0), totals]))
        squares.append(square)
        pools.append(_pool(pool, len(members), count, sums[-1], square))
    counts = sum(pool.nodes for pool in pools), sum(pool.nodes_read for pool in pools)
    return _pool("all", *counts, np.sum(sums, axis=0), np.sum(squares, axis=0)), pools


def _pool(name: str, nodes: int, count: int, amounts: FloatArray, square: FloatArray) -> PoolEstimate:
    rows = np.vstack([amounts, np.sqrt(square)]).round(6).tolist()
    return PoolEstimate(
        name, nodes, count, *(GainAmounts(*(None if math.isnan(one) else one for one in row)) for row in rows)
    )


def worth(of: EstimateDocument) -> float | None:
    """Return what is on offer in a month at the prices; None without one."""
    amounts = _pair(of.total.offered_p10 if of.history_seconds else of.total.offered)
    pairs = zip(amounts, (of.cpu_price, of.memory_price), strict=True)
    priced = [amount * price for amount, price in pairs if amount is not None and price is not None]
    return round(HOURS_A_MONTH * sum(priced), 2) if priced else None


def _pair(amounts: GainAmounts) -> tuple[float | None, float | None]:
    return amounts.cpu, amounts.memory_gib


def title(of: EstimateDocument) -> str:
    """Return what is shown, and from where."""
    if not of.history_seconds:
        return f"What Mid resources could give now, from {of.source}"
    return f"What Mid resources could give, from {gains.length(of.history_seconds)} of {of.source}"


def summary(of: EstimateDocument) -> list[str]:
    """Return the lines before the tables."""
    total = of.total
    lines = [_amounts_line("on offer now", total.offered, total)]
    if of.history_seconds:
        lines.append(_amounts_line("on offer, p10", total.offered_p10, total))
        evicting = _amounts_line("p10, evicting", total.evicting_p10, total)
        lines.append(f"{evicting}: calibrated, where Mid pods are evicted when Prod needs it")
        span = "hours" if of.horizon_seconds == 3600 else f"times of {of.horizon_seconds / 60:g} minutes"
        lines += [gains.exceeded_line(peak, span) for peak in of.prod_above_peak]
    else:
        lines.append("Usage now is no forecast: a predicted peak is higher, and less is on offer.")
    if 0 < of.history_seconds < WEEK_SECONDS:
        lines.append(
            f"{gains.length(of.history_seconds)} of history, want 7 days: working days and a weekend are not among "
            "them, so the amounts are a rough guide, and the risk is not known."
        )
    if total.nodes_read < total.nodes:
        cores, gib = (_shown(amount) for amount in _pair(total.spread))
        lines.append(
            f"{total.nodes_read} of {total.nodes} nodes were read: all of them offer this within {cores} cores "
            f"and {gib} GiB (95 % certain); --all reads every node"
        )
    if of.hot_nodes is not None:
        named = f": {', '.join(of.hot_nodes[:10])}{', ...' if len(of.hot_nodes) > 10 else ''}" if of.hot_nodes else ""
        lines.append(f"Hot now, above {_LIMITS}: {len(of.hot_nodes)} of {total.nodes} nodes{named}")
    if of.worth_a_month is not None:
        given = (of.cpu_price, "core-hour"), (of.memory_price, "GiB-hour")
        prices = " and ".join(f"{price:g} a {unit}" for price, unit in given if price is not None)
        amounts = "the p10" if of.history_seconds else "it"
        lines.append(f"Worth {of.worth_a_month:,.2f} in {HOURS_A_MONTH} hours at {prices}, if all of {amounts} is used")
    return lines


def _amounts_line(what: str, amounts: GainAmounts, total: PoolEstimate) -> str:
    part, whole = (
        GainSums(of.cpu, None if of.memory_gib is None else of.memory_gib * GIB) for of in (amounts, total.allocatable)
    )
    return gains.amounts_line(what, part, whole)


def _shown(amount: float | None) -> str:
    return UNKNOWN if amount is None else Number(f"{amount:.1f}", amount)


def pool_table(of: EstimateDocument) -> Table:
    """Return two rows for each pool, and for all of several."""
    pools = [*of.pools, of.total] if len(of.pools) > 1 else of.pools

    def amount(title: str, key: str) -> Cell[tuple[PoolEstimate, int]]:
        return number(title, lambda row: _shown(_pair(getattr(row[0], key))[row[1]]))

    cells: list[Cell[tuple[PoolEstimate, int]]] = [
        (Column("POOL"), lambda row: row[0].name),
        (Column("RESOURCE"), lambda row: ("CPU cores", "memory GiB")[row[1]]),
        number("NODES", lambda row: str(row[0].nodes)),
        number("READ", lambda row: str(row[0].nodes_read)),
        amount("ALLOCATABLE", "allocatable"),
        amount("REQUESTED", "requested"),
        amount("USED", "used"),
        amount("ON OFFER", "offered"),
        *([amount("P10", "offered_p10"), amount("P10, EVICTING", "evicting_p10")] if of.history_seconds else []),
        *([amount("+-", "spread")] if of.total.nodes_read < of.total.nodes else []),
    ]
    return table([(pool, resource) for pool in pools for resource in range(2)], cells)


def answer(of: EstimateDocument) -> Answer:
    """Return the answer of the command."""
    return Answer(
        of,
        [pool_table(of), *([gains.forecast_table(of.forecasts)] if of.forecasts else [])],
        [f"pool/{pool.name}" for pool in of.pools],
        [title(of), "", *summary(of)],
        ["", *(f"not shown: {text}" for text in of.missing), *(f"next: {text}" for text in of.next_steps)],
        exit_code=FINE if any(_pair(of.total.offered)) else NOTHING,
    )
