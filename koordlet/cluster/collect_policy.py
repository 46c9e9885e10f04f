"""`spec.metricCollectPolicy` of the NodeMetric -> intervals and windows in force, with upstream defaults and floors."""

from __future__ import annotations

from typing import Final

from api_types.colocation import controller_config
from api_types.kubernetes import times
from api_types.node_metric import types as node_metric

_DEFAULTS: Final = controller_config.DEFAULTS
_LEAST_REPORT_INTERVAL_SECONDS: Final = 30
_LEAST_USAGE_WINDOW_SECONDS: Final = 60
_LOAD_WATCHER_WINDOW_SECONDS: Final = 900
"""Reported beside the windows of the spec: Trimaran's load watcher speaks in 15 minutes."""


def report_interval_seconds(policy: node_metric.MetricCollectPolicy | None) -> int:
    """Time between two reports."""
    given = policy.report_interval_seconds if policy else None
    wanted = _DEFAULTS.metric_report_interval_seconds if given is None else given
    return max(wanted or 0, _LEAST_REPORT_INTERVAL_SECONDS)


def usage_window_seconds(policy: node_metric.MetricCollectPolicy | None) -> int:
    """Window of the plain usages."""
    given = policy.aggregate_duration_seconds if policy else None
    wanted = _DEFAULTS.metric_aggregate_duration_seconds if given is None else given
    return max(wanted or 0, _LEAST_USAGE_WINDOW_SECONDS)


def aggregate_windows_seconds(policy: node_metric.MetricCollectPolicy | None) -> list[int]:
    """Windows of the aggregated usages, shortest first. A list in the spec replaces the default one."""
    given = policy.node_aggregate_policy if policy else None
    durations = given.durations if given else None
    if durations is None:
        default = _DEFAULTS.metric_aggregate_policy
        durations = (default.durations if default else None) or []
    wanted = {round(_window_seconds(text)) for text in durations}
    return sorted(wanted | {_LOAD_WATCHER_WINDOW_SECONDS})


def _window_seconds(duration: str) -> float:
    seconds = times.duration_seconds(duration)
    if seconds < 1:
        raise ValueError(f"{duration!r} is too short, want at least 1s")
    return seconds
