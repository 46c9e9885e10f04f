"""Totals of an estimate from the nodes that were read, and the answer that is printed. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koordctl.cli.answer import FINE, NOTHING, UNKNOWN, Answer, Cell, Column, Number, Table, number, table
from koordctl.cli.document import AnswerDocument, Part
from koordctl.gain import gains
from koordctl.gain.gains import GIB, UNKNOWN_AMOUNTS, GainAmounts, GainSums, PeakExceeded, PredictorGain

HOURS_A_MONTH: Final = 730
_SHORT_SECONDS: Final = 7 * 86_400
_SURE: Final = 1.96
"""Standard errors on each side of an interval of 95 %."""
_MOST_NAMED: Final = 10


@dataclass(frozen=True)
class NodeEstimate:
    """One node that was read, in cores and bytes."""

    name: str
    pool: str
    allocatable: GainSums
    requested: GainSums = UNKNOWN_AMOUNTS
    used: GainSums = UNKNOWN_AMOUNTS
    offered: GainSums = UNKNOWN_AMOUNTS
    offered_p10: GainSums = UNKNOWN_AMOUNTS
    evicting_p10: GainSums = UNKNOWN_AMOUNTS
    """The same of `calibrated`."""


@dataclass(frozen=True)
class Estimate:
    """The whole answer. `seconds` of history is 0 for one moment."""

    source: str
    pools: Mapping[str, Sequence[GainSums]]
    """Allocatable of every node."""
    read: Sequence[NodeEstimate]
    seconds: float = 0.0
    horizon_seconds: float = 0.0
    forecasts: Sequence[PredictorGain] = ()
    exceeded: Sequence[PeakExceeded] = ()
    hot: Sequence[str] = ()
    limits: str = ""
    """Usage above which a node is hot."""
    prices: tuple[float | None, float | None] = None, None
    """Of a core-hour and a GiB-hour, in any currency."""
    missing: Sequence[str] = ()
    following: Sequence[str] = ()
    """What to do next, a sentence each."""


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
    """By Prod pods and what runs outside of pods; without history by all of a node."""
    offered: GainAmounts
    """Mid resources now."""
    offered_p10: GainAmounts
    """Mid resources that 90 % of the forecasts of each node exceed, added up."""
    evicting_p10: GainAmounts
    """The same with `calibrated`, which is in force where the manager evicts Mid pods."""
    spread: GainAmounts
    """How far the whole pool may be from `offered`, with 95 % certainty, for the nodes that were not read."""


class EstimateDocument(AnswerDocument, tag="Estimate"):
    """Document of `koordctl estimate`."""

    source: str
    history_seconds: float
    """0 where only the present was read."""
    horizon_seconds: float
    """Time that a forecast has to hold for."""
    total: PoolEstimate
    pools: list[PoolEstimate]
    forecasts: list[PredictorGain]
    prod_above_peak: list[PeakExceeded]
    """Share of the hours, by the default predictor."""
    hot_nodes: list[str]
    worth_a_month: float | None
    """Of `offeredP10` (without history `offered`) in 730 hours, in the currency of the prices; null without them."""
    missing: list[str]
    """What the source does not have, a sentence each."""


_SCALES: Final = (1.0, float(GIB))
_FIELDS: Final = ("requested", "used", "offered", "offered_p10", "evicting_p10")


def _pool(name: str, nodes: Sequence[GainSums], read: Sequence[NodeEstimate]) -> PoolEstimate:
    """Scale what was read by the allocatable of all nodes of the pool."""
    whole = _added(nodes)
    factors = [
        _over(all_nodes, part) for all_nodes, part in zip(whole, _added([of.allocatable for of in read]), strict=True)
    ]
    sums = {key: _added([getattr(node, key) for node in read]) for key in _FIELDS}
    scaled: dict[str, Any] = {
        key: _wire([None if total is None else total * by for total, by in zip(of, factors, strict=True)])
        for key, of in sums.items()
    }
    spread = [_spread(resource, len(nodes), read, sums["offered"]) for resource in range(2)]
    return PoolEstimate(name, len(nodes), len(read), _wire(whole), spread=_wire(spread), **scaled)


def _added(amounts: Sequence[GainSums]) -> list[float | None]:
    """Sum amounts; None where one is not known, or there is none."""
    columns = list(zip(*amounts, strict=True)) or [(None,), (None,)]
    return [None if None in column else math.fsum(column) for column in columns]


def _over(whole: float | None, part: float | None) -> float:
    return (whole or 0.0) / part if part else 0.0


def _spread(resource: int, count: int, read: Sequence[NodeEstimate], offered: Sequence[float | None]) -> float | None:
    """Return the half interval of a ratio estimator with the correction for a finite number of nodes."""
    total = offered[resource]
    if total is None or count == len(read):
        return None if total is None else 0.0
    if len(read) < 2:
        return None
    ratio = _over(total, _added([node.allocatable for node in read])[resource])
    squares = [((node.offered[resource] or 0.0) - ratio * (node.allocatable[resource] or 0.0)) ** 2 for node in read]
    variance = math.fsum(squares) / (len(read) - 1)
    return _SURE * count * math.sqrt(variance / len(read) * (1 - len(read) / count))


def _wire(amounts: Sequence[float | None]) -> GainAmounts:
    return GainAmounts(
        *(None if one is None else round(one / scale, 6) for one, scale in zip(amounts, _SCALES, strict=True))
    )


def _total(pools: Sequence[PoolEstimate]) -> PoolEstimate:
    def added(key: str, power: int = 1) -> GainAmounts:
        columns = [
            GainSums(*(None if one is None else math.pow(one, power) for one in _of(pool, key))) for pool in pools
        ]
        sums = _added(columns)
        return GainAmounts(*(None if one is None else round(math.pow(one, 1 / power), 6) for one in sums))

    amounts: dict[str, Any] = {key: added(key) for key in ("allocatable", *_FIELDS)}
    counts = sum(pool.nodes for pool in pools), sum(pool.nodes_read for pool in pools)
    return PoolEstimate("all", *counts, spread=added("spread", 2), **amounts)


def _of(pool: PoolEstimate, key: str) -> tuple[float | None, float | None]:
    amounts = getattr(pool, key)
    return amounts.cpu, amounts.memory_gib


def document(estimate: Estimate) -> EstimateDocument:
    """Return the answer for JSON."""
    pools = [
        _pool(name, nodes, [node for node in estimate.read if node.pool == name])
        for name, nodes in sorted(estimate.pools.items())
    ]
    total, prices = _total(pools), estimate.prices
    offered = _of(total, "offered_p10" if estimate.seconds else "offered")
    pairs = zip(offered, prices, strict=True)
    priced = [amount * price for amount, price in pairs if amount is not None and price is not None]
    return EstimateDocument(
        estimate.source,
        estimate.seconds,
        estimate.horizon_seconds,
        total,
        pools,
        list(estimate.forecasts),
        list(estimate.exceeded),
        list(estimate.hot),
        round(HOURS_A_MONTH * sum(priced), 2) if priced else None,
        list(estimate.missing),
    )


def title(of: EstimateDocument) -> str:
    """Return what is shown, and from where."""
    if not of.history_seconds:
        return f"What Mid resources could give now, from {of.source}"
    return f"What Mid resources could give, from {gains.length(of.history_seconds)} of {of.source}"


def summary(of: EstimateDocument, estimate: Estimate) -> list[str]:
    """Return the lines before the tables."""
    total, hour = of.total, of.horizon_seconds == 3600
    whole = _sums(total, "allocatable")
    lines = [gains.amounts_line("on offer now", _sums(total, "offered"), whole)]
    if of.history_seconds:
        lines.append(gains.amounts_line("on offer, p10", _sums(total, "offered_p10"), whole))
        line = gains.amounts_line("p10, evicting", _sums(total, "evicting_p10"), whole)
        lines.append(f"{line}: calibrated, where Mid pods are evicted when Prod needs it")
        span = "hours" if hour else f"times of {of.horizon_seconds / 60:g} minutes"
        lines += [gains.exceeded_line(peak, span) for peak in of.prod_above_peak]
    else:
        lines.append("Usage now is no forecast: a predicted peak is higher, and less is on offer.")
    if 0 < of.history_seconds < _SHORT_SECONDS:
        lines.append(
            f"{gains.length(of.history_seconds)} of history, want 7 days: working days and a weekend are not among "
            "them, so the amounts are a rough guide, and the risk is not known."
        )
    if total.nodes_read < total.nodes:
        spread = [f"{amount:.1f}" if amount is not None else UNKNOWN for amount in _of(total, "spread")]
        lines.append(
            f"{total.nodes_read} of {total.nodes} nodes were read: all of them have the amounts on offer within "
            f"{spread[0]} cores and {spread[1]} GiB (95 % certain); --all reads every node"
        )
    if estimate.limits:
        named = ", ".join(of.hot_nodes[:_MOST_NAMED]) + (", ..." if len(of.hot_nodes) > _MOST_NAMED else "")
        lines.append(f"Hot now, above {estimate.limits}: {len(of.hot_nodes)} nodes{': ' if named else ''}{named}")
    if of.worth_a_month is not None:
        given = zip(estimate.prices, ("core-hour", "GiB-hour"), strict=True)
        prices = " and ".join(f"{price:g} a {unit}" for price, unit in given if price is not None)
        amounts = "the p10" if of.history_seconds else "it"
        lines.append(f"Worth {of.worth_a_month:,.2f} in {HOURS_A_MONTH} hours at {prices}, if all of {amounts} is used")
    return lines


def _sums(pool: PoolEstimate, key: str) -> GainSums:
    amounts = zip(_of(pool, key), _SCALES, strict=True)
    return GainSums(*(None if one is None else one * scale for one, scale in amounts))


def pool_table(of: EstimateDocument) -> Table:
    """Return two rows for each pool, and for all of several."""
    rows = [
        (pool, resource) for pool in ([*of.pools, of.total] if len(of.pools) > 1 else of.pools) for resource in range(2)
    ]

    def amount(title: str, key: str) -> Cell[tuple[PoolEstimate, int]]:
        return number(title, lambda row: _shown(_of(row[0], key)[row[1]]))

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
    return table(rows, cells)


def _shown(amount: float | None) -> str:
    return UNKNOWN if amount is None else Number(f"{amount:.1f}", amount)


def answer(estimate: Estimate) -> Answer:
    """Return the answer of the command."""
    made = document(estimate)
    tables = [pool_table(made), *([gains.forecast_table(made.forecasts)] if made.forecasts else [])]
    missing = [f"not shown: {sentence}" for sentence in made.missing]
    following = [f"next: {sentence}" for sentence in estimate.following]
    return Answer(
        made,
        tables,
        [f"pool/{pool.name}" for pool in made.pools],
        [title(made), "", *summary(made, estimate)],
        ["", *missing, *following],
        exit_code=FINE if any(_of(made.total, "offered")) else NOTHING,
    )
