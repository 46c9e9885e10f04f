"""LoadAware for one node and one pod, one resource after the other, as koordinator-loadaware 8 to 11 read.

Shares nothing with the product: plain dictionaries in, exact rounding by Decimal.
"""

from __future__ import annotations

import dataclasses
import decimal
from typing import Any


@dataclasses.dataclass
class Running:
    """A pod assigned to the node."""

    name: str
    estimate: dict[str, int]
    is_prod: bool
    timestamp: float


@dataclasses.dataclass
class Report:
    """The node's newest report; `usage` None: none in it."""

    update_time: float | None
    interval: float
    usage: dict[str, int] | None
    system: dict[str, int]
    aggregated: dict[tuple[str, int], dict[str, int]]
    pods: dict[str, tuple[dict[str, int], bool]]


@dataclasses.dataclass
class Host:
    allocatable: dict[str, int]
    report: Report | None
    running: list[Running]
    custom: dict[str, Any]


@dataclasses.dataclass
class Incoming:
    estimate: dict[str, int]
    is_prod: bool
    is_daemon: bool


def existing_usage(args: dict[str, Any], host: Host, kind: Any) -> dict[str, int]:
    """Section 9; `kind` is "plain", "prod" or (statistic, minutes)."""
    report = host.report
    assert report is not None
    resources = args["resources"]
    node_delta, prod_delta = dict.fromkeys(resources, 0), dict.fromkeys(resources, 0)
    estimated = dict.fromkeys(resources, 0)
    prod_usage = {r: report.system.get(r, 0) if args["prodUsageIncludeSys"] else 0 for r in resources}
    for pod in host.running:
        usage, listed_as_prod = report.pods.get(pod.name, (None, False))
        active = pod.is_prod and listed_as_prod
        for r in resources:
            if active:
                prod_usage[r] += usage[r]
        if not any(pod.estimate.values()):
            continue
        young = report.update_time is None or report.update_time - report.interval < pod.timestamp
        should = usage is None or young
        for r in resources:
            e = pod.estimate.get(r, 0)
            if should:
                node_delta[r] += max(0, e - (usage[r] if usage else 0))
            estimated[r] += e
            if pod.is_prod:
                if usage is not None and not active:
                    prod_delta[r] += max(0, e)
                elif should:
                    prod_delta[r] += max(0, e - (usage[r] if usage else 0))
    if kind == "prod":
        return {r: prod_usage[r] + prod_delta[r] for r in resources}
    if kind != "plain":
        statistic, minutes = kind
        if minutes == 0:
            windows = [window for known, window in report.aggregated if known == statistic]
            minutes = max(windows, default=0)
        if (statistic, minutes) in report.aggregated:
            vector = report.aggregated[statistic, minutes]
            return {r: vector.get(r, 0) + node_delta[r] for r in resources}
        if kind[1] > 0:
            return estimated
    if report.usage is None:
        return estimated
    return {r: report.usage.get(r, 0) + node_delta[r] for r in resources}


def is_expired(args: dict[str, Any], report: Report, now: float) -> bool:
    return report.update_time is None or now - report.update_time >= args["nodeMetricExpirationSeconds"]


def rejection(args: dict[str, Any], host: Host, pod: Incoming, now: float) -> str | None:
    """Section 10: the reason, or None."""
    if pod.is_daemon:
        return None
    custom = host.custom
    aggregated = custom.get("aggregated") or args["aggregated"]
    plain = custom.get("plain") or args["usageThresholds"]
    prod = custom.get("prod") or args["prodUsageThresholds"]
    if pod.is_prod and any(prod.get(r) for r in args["resources"]):
        limits, kind, word = prod, "prod", ""
    elif aggregated:
        limits, kind, word = aggregated["limits"], (aggregated["type"], aggregated["minutes"]), "aggregated "
    else:
        limits, kind, word = plain, "plain", ""
    if not any(limits.get(r) for r in args["resources"]) or host.report is None:
        return None
    if args["filterExpiredNodeMetrics"] and is_expired(args, host.report, now):
        return None if args["enableScheduleWhenNodeMetricsExpired"] else "node(s) nodeMetric expired"
    if host.report.usage is None:
        return None
    used = existing_usage(args, host, kind)
    for r in sorted(args["resources"]):
        total = host.allocatable.get(r, 0)
        if not limits.get(r) or not total:
            continue
        percent = float(used[r] + pod.estimate.get(r, 0)) / float(total) * 100
        if decimal.Decimal(percent).quantize(decimal.Decimal(1), decimal.ROUND_HALF_UP) > limits[r]:
            return f"node(s) {r} {word}usage exceed threshold"
    return None


def score(args: dict[str, Any], host: Host, pod: Incoming, now: float) -> int:
    """Section 11."""
    weights, dominant_weight = args["resourceWeights"], args["dominantResourceWeight"]
    if host.report is None or is_expired(args, host.report, now) or host.report.usage is None:
        return 0
    kind: Any = "plain"
    if args["scoreAccordingProdUsage"] and pod.is_prod:
        kind = "prod"
    elif args["scoreAggregation"]:
        kind = args["scoreAggregation"]
    used = existing_usage(args, host, kind)
    total, total_weight, dominant = 0, 0, 100
    for r in args["resources"]:
        capacity, taken = host.allocatable.get(r, 0), used[r] + pod.estimate.get(r, 0)
        free = 0 if capacity == 0 or taken > capacity else (capacity - taken) * 100 // capacity
        total += weights.get(r, 0) * free
        total_weight += weights.get(r, 0)
        dominant = min(dominant, free)
    if total_weight + dominant_weight <= 0:
        return 0
    return (total + dominant_weight * dominant) // (total_weight + dominant_weight)
