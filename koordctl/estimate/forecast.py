"""Forecasts for a sample of nodes from the history in a Prometheus: the arithmetic of the back-test."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import random
import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from koordctl.backtest import command as backtest
from koordctl.backtest import prometheus, results, workers
from koordctl.backtest.cluster_history import NoSeries
from koordctl.backtest.node_history import NodeHistory
from koordctl.backtest.prometheus import Prometheus, TimeRange
from koordctl.backtest.results import BacktestCandidate, LastAmounts, Row, Span
from koordctl.backtest.sources import PrometheusSource
from koordctl.backtest.workload_history import Handed
from koordctl.cli.command import ProgressLine
from koordctl.estimate import estimates
from koordctl.estimate.estimates import ClusterNodes, EstimateDocument
from koordctl.gain import gains
from koordctl.gain.gains import PeakExceeded
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.samples import RESOURCES, Resource

SAMPLE: Final = 40
"""Nodes of a pool that are read, unless all are."""
_HOUR: Final = 3_600
LONGEST_STEP, _SHORTEST_STEP, _FEWEST_STEPS, _MOST_STEPS = 900, 60, 60, 4_000
_RATE_SECONDS: Final = 300
"""Usage is a mean of 5 minutes also where steps are longer."""
DEFAULT, EVICTING = "n-sigma-v2", "calibrated, 1 %"
_MOST_PROBLEMS: Final = 5
_PARTLY: Final = (
    "what nodes learn from one another of the workloads of new pods, with which more is on offer: a sample lacks it; "
    "--all reads every node"
)


class _Replayed(NamedTuple):
    rows: Sequence[tuple[Row, LastAmounts]]
    problems: Sequence[str]
    prod_pods: int = 0
    without_requests: int = 0


def read(options: Namespace, cluster: ClusterNodes, progress: ProgressLine) -> EstimateDocument:
    """Replay a sample of the nodes of each pool. Raises what a back-test raises."""
    given = {**vars(options), "traces": None, "cache": None, "step": _SHORTEST_STEP}
    (source,), _ = backtest.sources_of(Namespace(**given))
    assert isinstance(source, PrometheusSource)
    pools = {name: cluster.pools[name] for name in source.nodes if name in cluster.pools}
    if not pools:
        raise NoSeries(
            f"{source.server.shown} has none of the {len(cluster.pools)} nodes of {cluster.server}; want the "
            "Prometheus of this cluster, or another --nodes or --selector"
        )
    nodes = sample(pools, every=options.every_node)
    names = dataclasses.replace(source.names, rate_seconds=_RATE_SECONDS)
    source = dataclasses.replace(source, nodes=nodes, names=names, time_range=_steps(source, nodes), in_days=False)
    seconds = source.time_range.end - source.time_range.start
    horizon = _HOUR if seconds >= 4 * _HOUR else max(seconds // 4, source.time_range.step_seconds)
    interval = horizon * (2 if seconds >= estimates.WEEK_SECONDS else 1)
    warm_up = results.warm_up_seconds(seconds)
    warm_up += (seconds - horizon - warm_up) % interval  # so that the last forecast is the newest
    span = Span(horizon, interval, warm_up)
    has_history = source.has_owners and len(nodes) == len(pools)
    replayed = _replay(source, span, options.workers, progress, has_history=has_history)
    rows = [row for node in replayed.values() for row, _ in node.rows]
    gaps = _gaps(replayed, len(cluster.pools) - len(pools))
    if not rows:
        raise NoSeries("\n".join([*gaps, backtest.NO_FORECAST]))
    amounts = {name: _amounts(node.rows) for name, node in replayed.items() if node.rows}
    with_rows = {pools[name] for name in amounts}
    gaps += [f"the pool {pool}: no node that was read has a forecast" for pool in {*pools.values()} - with_rows]
    pools = {name: pool for name, pool in pools.items() if pool in with_rows}
    total, by_pool = estimates.pool_estimates(dataclasses.replace(cluster, pools=pools), amounts)
    return EstimateDocument(
        source=source.server.shown,
        history_seconds=float(seconds),
        horizon_seconds=float(horizon),
        total=total,
        pools=by_pool,
        forecasts=[
            gains.predictor_gain(
                of.candidate.partition(",")[0], of.resource, of.violations_percent / 100, of.savings_percent / 100
            )
            for of in results.summarize([row for row in rows if row.candidate != results.ORACLE])
        ],
        prod_above_peak=[_exceeded(str(resource), rows) for resource in RESOURCES],
        hot_nodes=cluster.hot,
        cpu_price=options.cpu_price,
        memory_price=options.memory_price,
        missing=[
            *([] if has_history else [_PARTLY if source.has_owners else backtest.NO_OWNERS]), *gaps, *cluster.missing,
        ],
        next_steps=[
            f"koordctl backtest --prometheus {source.server.shown} compares all predictors and presets",
            estimates.AFTERWARDS,
        ],
    )  # fmt: skip


def sample(pools: Mapping[str, str], *, every: bool = False) -> tuple[str, ...]:
    """Return the nodes to read, by pool, the same ones at each call; `pools` is the pool by node."""
    chosen: list[str] = []
    for pool in sorted(set(pools.values())):
        members = sorted(name for name in pools if pools[name] == pool)
        is_whole = every or len(members) <= SAMPLE
        chosen += members if is_whole else random.Random(0).sample(members, SAMPLE)  # noqa: S311  # not a secret
    return tuple(chosen)


def _steps(source: PrometheusSource, nodes: Sequence[str]) -> TimeRange:
    """Return the steps since the first usage of some of the nodes. Raises NoSeries without one."""
    some, asked = nodes[:: max(len(nodes) // 8, 1)], source.time_range
    series = source.names.select("cpu", f"{source.names.node_label}=~{json.dumps('|'.join(map(re.escape, some)))}")
    coarse = max(_SHORTEST_STEP, -(-source.seconds // _MOST_STEPS // 60) * 60)
    with contextlib.closing(Prometheus(source.server)) as client:
        counts = client.range(f"count({series})", prometheus.steps_between(asked.start, asked.end, coarse))
    if not counts:
        raise NoSeries(f"no series {series}; is cAdvisor of the kubelets scraped? else give --node-label")
    begin = asked.start + coarse * int(np.flatnonzero(np.isfinite(counts[0].values))[0])
    step = min(LONGEST_STEP, max(_SHORTEST_STEP, (asked.end - begin) // _FEWEST_STEPS // 60 * 60))
    return prometheus.steps_between(begin, asked.end, step)


def _replay(
    source: PrometheusSource, span: Span, count: int, progress: ProgressLine, *, has_history: bool
) -> dict[str, _Replayed]:
    """Replay every node of the source, with the history of the workloads of its cold pods or without."""
    # With an hour of history, pods that ran before it are no colder than the others.
    candidates = [
        dataclasses.replace(of, parameters=dataclasses.replace(
            of.parameters,
            cold_start_period_seconds=min(of.parameters.cold_start_period_seconds, span.warm_up_seconds),
        ))
        for of in results.all_candidates(span.horizon_seconds)
        if of.name in (DEFAULT, EVICTING)
    ]  # fmt: skip
    handed: Sequence[Handed | None] = [None] * len(source.nodes)
    if has_history:
        options = Namespace(horizon=span.horizon_seconds, workers=count)
        handed = backtest.workload_histories(source, source.nodes, options, progress)
    work = functools.partial(_replay_node, candidates, span)
    nodes = list(zip(source.nodes, handed, strict=True))
    each_of_worker = functools.partial(_of_worker, source, work)
    ended = _each_node(source, work, nodes) if count == 1 else workers.each_node(each_of_worker, nodes, count)
    replayed: dict[str, _Replayed] = {}
    for name, node in zip(source.nodes, ended, strict=True):
        replayed[name] = node
        progress.show(f"forecasts of {len(replayed)} of {len(source.nodes)} nodes")
    return replayed


_Work = Callable[[Handed | None, NodeHistory | NoSeries], _Replayed]


def _of_worker(source: PrometheusSource, work: _Work, of_node: tuple[str, Handed | None]) -> _Replayed:
    return work(of_node[1], _load(source, of_node[0]))


def _each_node(
    source: PrometheusSource, work: _Work, nodes: Sequence[tuple[str, Handed | None]]
) -> Iterator[_Replayed]:
    """Yield the result of each node in this process, while the series of the next one are read."""
    with ThreadPoolExecutor(1) as reader:
        following = [reader.submit(_load, source, nodes[0][0])]
        for number, (_, handed) in enumerate(nodes, 1):
            history = following.pop().result()
            following += [reader.submit(_load, source, name) for name, _ in nodes[number : number + 1]]
            yield work(handed, history)


def _load(source: PrometheusSource, name: str) -> NodeHistory | NoSeries:
    try:
        return source.load(name)
    except NoSeries as error:
        return error


def _replay_node(
    candidates: Sequence[BacktestCandidate], span: Span, handed: Handed | None, history: NodeHistory | NoSeries
) -> _Replayed:
    if isinstance(history, NoSeries):
        return _Replayed([], [f"left out: {history}"])
    rows = results.replay_with_last(history, candidates, span, handed)
    problems = [f"partial data: node {history.name}: {warning}" for warning in history.warnings]
    if not rows:
        problems.append(f"left out: node {history.name}: no forecast with a complete history and horizon")
    prod = [pod for pod, is_prod in zip(history.bound, history.prod(), strict=True) if is_prod]
    return _Replayed(rows, problems, len(prod), sum(not pod.cpu_request_millis for pod in prod))


def _amounts(rows: Sequence[tuple[Row, LastAmounts]]) -> FloatArray:
    """Return the array of a node. A resource without a row is one that no Prod pod requests."""
    amounts: FloatArray = np.zeros((len(estimates.KINDS), len(RESOURCES)))
    for row, last in rows:
        column = RESOURCES.index(Resource(row.resource))
        if row.candidate == DEFAULT:
            amounts[:4, column] = *last, row.mid_p10
        elif row.candidate == EVICTING:
            amounts[4, column] = row.mid_p10
    return amounts


def _exceeded(resource: str, rows: Sequence[Row]) -> PeakExceeded:
    of_default = [row for row in rows if (row.resource, row.candidate) == (resource, DEFAULT)]
    ratios = {row.node: row.violations_percent / 100 for row in of_default}
    worst = max(ratios, key=lambda node: ratios[node], default="")
    mean = sum(ratios.values()) / max(len(ratios), 1)
    return PeakExceeded(resource, mean, worst if mean else "", ratios.get(worst, 0.0))


def _gaps(replayed: Mapping[str, _Replayed], without_series: int) -> list[str]:
    """Return what is missing of the nodes, a sentence each."""
    problems = list(dict.fromkeys(problem for node in replayed.values() for problem in node.problems))
    gaps, more = problems[:_MOST_PROBLEMS], len(problems) - _MOST_PROBLEMS
    gaps += [f"{more} more like these"] if more > 0 else []
    if without_series:
        gaps.append(f"{without_series} nodes of the cluster: not in Prometheus, or not of --nodes")
    if without := sum(node.without_requests for node in replayed.values()):
        pods = sum(node.prod_pods for node in replayed.values())
        gaps.append(f"{without} of {pods} Prod pods request no CPU, and Mid is what is requested and not used")
    return gaps
