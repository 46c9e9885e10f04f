"""Candidates and results of a back-test: rows of one node, and their summary over the nodes. No I/O."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from api_types.colocation import controller_config, presets
from api_types.colocation.controller_config import ColocationStrategy
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from koordctl.backtest import scores
from koordctl.backtest.node_history import GIB, NodeHistory
from koordctl.backtest.replay import ReplayedForecasts, replay
from koordctl.backtest.workload_history import Handed
from koordlet.cluster import spec_in_force
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.samples import Resource

LONGEST_CALIBRATED_SECONDS: Final = 10_800
_LONGEST_WARM_UP_SECONDS: Final = 2 * 86_400
_SHARE_OF_WARM_UP: Final = 0.36
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True)
class BacktestCandidate:
    """A policy to replay."""

    name: str
    parameters: PredictParameters
    threshold_percent: dict[Resource, int]
    reclaim_ratio_percent: int
    unallocated_percent: int
    snippet: str
    """JSON of the keys of `clusterStrategy`; empty for a candidate that is compared and not recommended."""
    keeps_with: str = ""
    """Another candidate that has to keep the target too, empty for none."""


def all_candidates(horizon_seconds: int) -> list[BacktestCandidate]:
    """Return every predictor, calibrated with targets of 1 and 2 %, and the presets as they are in force."""
    candidates = [
        _candidate(name, PredictParameters(predictor=name), document={"nodePredictPolicy": {"predictor": name}})
        for name in registry.PREDICTORS
        if name not in ("calibrated", "max", "percentile")
    ]
    # The cold-start period of Koordinator's agent. It charges young pods their requests, which hides how often the
    # percentile itself is too low: where pods live longer than in the history, less is charged.
    percentile = PredictParameters(predictor="percentile")
    cold = dataclasses.replace(percentile, cold_start_period_seconds=DAY_SECONDS)
    policy = {"predictor": "percentile", "coldStartPeriodSeconds": DAY_SECONDS}
    candidates += [
        _candidate("percentile", percentile),
        _candidate("percentile, cold 24 h", cold, document={"nodePredictPolicy": policy}, keeps_with="percentile"),
    ]
    candidates += [
        _candidate(
            f"calibrated, {percent} %",
            PredictParameters(predictor="calibrated", violation_target_percent=float(percent)),
        )
        for percent in (1, 2)
    ]
    for preset, strategy in presets.PRESETS.items():
        in_force = presets.behind_gate(spec_in_force.predict_policy(strategy.node_predict_policy))
        parameters = spec_in_force.predict_parameters(in_force)
        candidates.append(_candidate(f"preset {preset}", parameters, strategy, {"preset": preset}))
    watched = calibrated_horizon(horizon_seconds)
    return [
        dataclasses.replace(candidate, parameters=dataclasses.replace(candidate.parameters, horizon_seconds=watched))
        for candidate in candidates
        if horizon_seconds <= LONGEST_CALIBRATED_SECONDS
        or "calibrated" not in (candidate.parameters.predictor, *candidate.parameters.members)
    ]


def calibrated_horizon(horizon_seconds: int) -> int:
    """Return the horizon of the calibration of a back-test."""
    return min(max(horizon_seconds, 900), LONGEST_CALIBRATED_SECONDS)


def _candidate(
    name: str,
    parameters: PredictParameters,
    strategy: ColocationStrategy | None = None,
    document: Mapping[str, Any] | None = None,
    keeps_with: str = "",
) -> BacktestCandidate:
    """Return a candidate with the Mid policy of a strategy; `document` has the keys that switch it on."""

    def value(key: str) -> int:
        chosen = getattr(strategy, key) if strategy else None
        return int(getattr(controller_config.DEFAULTS, key) if chosen is None else chosen)

    return BacktestCandidate(
        name=name,
        parameters=parameters,
        threshold_percent={
            Resource.CPU: value("mid_cpu_threshold_percent"),
            Resource.MEMORY: value("mid_memory_threshold_percent"),
        },
        reclaim_ratio_percent=value("mid_reclaim_ratio_percent"),
        unallocated_percent=value("mid_unallocated_percent"),
        snippet="" if document is None else json.dumps({"enable": True, **document}),
        keeps_with=keeps_with,
    )


ORACLE: Final = "oracle"


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """Result of one candidate for one resource of one node; amounts in cores or GiB, violations in percent."""

    node: str
    resource: str
    candidate: str
    forecasts: int
    violations_percent: float
    severity_percent: float
    episodes_a_week: float
    requests: float
    peak: float
    """Mean over the forecasts, as `requests`; at most the requests."""
    mid: float
    mid_p10: float
    """Over the forecasts."""


class CandidateSummary(msgspec.Struct, frozen=True, rename="camel"):
    """Result of one candidate over all nodes."""

    resource: str
    candidate: str
    nodes: int
    forecasts: int
    violations_percent: float
    violations_percent_p90: float
    violations_percent_p99: float
    severity_percent: float
    episodes_a_week: float
    savings_percent: float
    mid: float
    """Of a node, mean over the nodes, as the next one."""
    mid_p10: float


class Span(msgspec.Struct, frozen=True):
    """Times of the forecasts."""

    horizon_seconds: int
    interval_seconds: int
    warm_up_seconds: int


def warm_up_seconds(seconds: int) -> int:
    """Return the begin of a history without forecasts."""
    return min(_LONGEST_WARM_UP_SECONDS, round(seconds * _SHARE_OF_WARM_UP))


def forecast_steps(node: NodeHistory, span: Span) -> range:
    """Return the steps of the forecasts; the last one is a horizon before the end."""
    step = node.step_seconds
    horizon, interval = max(1, span.horizon_seconds // step), max(1, span.interval_seconds // step)
    return range(span.warm_up_seconds // step, node.steps - horizon, interval)


def replay_rows(
    node: NodeHistory, candidates: Sequence[BacktestCandidate], span: Span, handed: Handed | None = None
) -> list[Row]:
    """Replay a node and return a row for each resource and candidate, and the oracle's. Empty without a forecast.

    Where the history of workloads is handed, there is a second row of each without it.
    """
    if handed is None:
        return _rows(node, candidates, span, None)
    without = [
        dataclasses.replace(
            candidate,
            name=f"{candidate.name}, no history",
            parameters=dataclasses.replace(candidate.parameters, cold_start="strict"),
        )
        for candidate in candidates
    ]
    rows = [row for row in _rows(node, candidates, span, handed) if row.candidate != ORACLE]
    return rows + _rows(node, without, span, None)


class LastAmounts(NamedTuple):
    """Requests of Prod pods, usage of all but Mid pods, and Mid at the last forecast, in cores or GiB."""

    requests: float
    used: float
    mid: float


def replay_with_last(
    node: NodeHistory, candidates: Sequence[BacktestCandidate], span: Span, handed: Handed | None
) -> list[tuple[Row, LastAmounts]]:
    """Replay a node once; return its rows, each with the amounts of its last forecast."""
    step = node.step_seconds
    horizon, interval = max(1, span.horizon_seconds // step), max(1, span.interval_seconds // step)
    policies = [candidate.parameters for candidate in candidates]
    forecasts = replay(node, policies, forecast_steps(node, span), horizon, handed=handed)
    return [
        row
        for resource in node.resources
        for row in _resource_rows(node, resource, forecasts[resource], candidates, interval * step / 3600)
    ]


def _rows(node: NodeHistory, candidates: Sequence[BacktestCandidate], span: Span, handed: Handed | None) -> list[Row]:
    return [row for row, _ in replay_with_last(node, candidates, span, handed)]


def _resource_rows(
    node: NodeHistory,
    resource: Resource,
    forecasts: ReplayedForecasts,
    candidates: Sequence[BacktestCandidate],
    interval_hours: float,
) -> list[tuple[Row, LastAmounts]]:
    is_finite = np.isfinite([forecasts.oracle, forecasts.usage, forecasts.other_usage, *forecasts.peaks]).all(axis=0)
    usable = is_finite & (forecasts.requests > 0)
    if not usable.any():
        return []
    forecasts = ReplayedForecasts(
        forecasts.peaks[:, usable],
        *(getattr(forecasts, name)[usable] for name in ("oracle", "requests", "usage", "other_usage", "mid_requests")),
    )
    named = [(candidate.name, candidate) for candidate in candidates]
    unit = 1.0 if resource is Resource.CPU else float(GIB)
    rows = []
    used = forecasts.usage[-1] + forecasts.other_usage[-1]
    for (name, candidate), peaks in zip(
        [*named, (ORACLE, candidates[0])], [*forecasts.peaks, forecasts.oracle], strict=True
    ):
        score = scores.score(peaks[np.newaxis], forecasts.oracle[np.newaxis], interval_hours)
        mid = _mid(node, resource, forecasts, peaks, None if name == ORACLE else candidate) / unit
        row = Row(
            node=node.name,
            resource=str(resource),
            candidate=name,
            forecasts=len(peaks),
            violations_percent=100 * score.violation_rate,
            severity_percent=100 * score.severity,
            episodes_a_week=score.episodes_a_machine_week,
            requests=float(forecasts.requests.mean()) / unit,
            peak=float(np.minimum(peaks, forecasts.requests).mean()) / unit,
            mid=float(mid.mean()),
            mid_p10=float(np.percentile(mid, 10)),
        )
        last = LastAmounts(float(forecasts.requests[-1]) / unit, float(used) / unit, float(mid[-1]))
        rows.append((row, last))
    return rows


def _mid(
    node: NodeHistory,
    resource: Resource,
    forecasts: ReplayedForecasts,
    peaks: np.ndarray,
    candidate: BacktestCandidate | None,
) -> np.ndarray:
    """Return the Mid resources of the product's formula; for the oracle (None) without threshold or share."""
    scale = 1000.0 if resource is Resource.CPU else 1.0
    values = []
    for column, peak in enumerate(peaks):
        requested = round(forecasts.requests[column] * scale)
        amounts = node.allocatable, node.capacity
        allocatable, capacity = (
            requested if amount is None else round(amount.in_cores_or_bytes(resource) * scale) for amount in amounts
        )
        inputs = Terms(
            allocatable=allocatable,
            capacity=capacity,
            allocated_prod=requested,
            allocated_mid=round(forecasts.mid_requests[column] * scale),
            peak_prod=int(np.ceil(peak * scale)),
            unused=round(allocatable - (forecasts.usage[column] + forecasts.other_usage[column]) * scale),
            reclaim_ratio_percent=candidate.reclaim_ratio_percent if candidate else 100,
            threshold_percent=candidate.threshold_percent[resource] if candidate else 100,
            unallocated_percent=candidate.unallocated_percent if candidate else 0,
        )
        values.append(mid_resource.calculate(inputs, has_floor=False).value / scale)
    return np.array(values)


def forecast_days(rows: Sequence[Row], interval_seconds: float) -> float:
    """Return the days that the forecasts of a node cover, median over the nodes; 0 without one."""
    by_node: dict[str, int] = {}
    for row in rows:
        by_node[row.node] = max(by_node.get(row.node, 0), row.forecasts)
    return float(np.median(list(by_node.values()))) * interval_seconds / 86_400 if by_node else 0.0


def summarize(rows: Sequence[Row]) -> list[CandidateSummary]:
    """Return one summary for each resource and candidate, in the order of their first rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.resource):
        groups.setdefault((row.resource, row.candidate), []).append(row)
    return [_summary(resource, candidate, group) for (resource, candidate), group in groups.items()]


def _summary(resource: str, candidate: str, rows: Sequence[Row]) -> CandidateSummary:
    def mean(name: str) -> float:
        return float(np.mean([getattr(row, name) for row in rows]))

    rates = [row.violations_percent for row in rows]
    return CandidateSummary(
        resource=resource,
        candidate=candidate,
        nodes=len(rows),
        forecasts=sum(row.forecasts for row in rows),
        violations_percent=mean("violations_percent"),
        violations_percent_p90=float(np.percentile(rates, 90)),
        violations_percent_p99=float(np.percentile(rates, 99)),
        severity_percent=mean("severity_percent"),
        episodes_a_week=mean("episodes_a_week"),
        savings_percent=100 * (1 - mean("peak") / mean("requests")),
        mid=mean("mid"),
        mid_p10=mean("mid_p10"),
    )
