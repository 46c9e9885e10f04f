"""The NodeMetric spec in force: intervals, windows and predict policy, with defaults and lower bounds applied."""

from __future__ import annotations

import dataclasses
from typing import Final

from api_types.colocation import controller_config
from api_types.kubernetes import times
from api_types.node_metric import types as node_metric
from koordlet.prediction import parameters
from koordlet.prediction.parameters import PredictParameters

_DEFAULTS: Final = controller_config.DEFAULTS
_POLICY: Final = controller_config.with_defaults(controller_config.PredictPolicy)
_LEAST_REPORT_INTERVAL_SECONDS: Final = 30
_LEAST_USAGE_WINDOW_SECONDS: Final = 60
_LONGEST_USAGE_WINDOW_SECONDS: Final = controller_config.LONGEST_WINDOW_SECONDS
_LOAD_WATCHER_WINDOW_SECONDS: Final = 900
"""Reported beside the windows of the spec: Trimaran's load watcher publishes windows of 15 minutes."""


def report_interval_seconds(policy: node_metric.MetricCollectPolicy | None) -> int:
    """Return the time between two reports, at least 30 s."""
    in_spec = policy.report_interval_seconds if policy else None
    seconds = _DEFAULTS.metric_report_interval_seconds if in_spec is None else in_spec
    return max(seconds or 0, _LEAST_REPORT_INTERVAL_SECONDS)


def usage_window_seconds(policy: node_metric.MetricCollectPolicy | None) -> int:
    """Return the window of the plain usages, at least 60 s. Raises ValueError for more than 12 h."""
    in_spec = policy.aggregate_duration_seconds if policy else None
    seconds = _DEFAULTS.metric_aggregate_duration_seconds if in_spec is None else in_spec
    if (seconds or 0) > _LONGEST_USAGE_WINDOW_SECONDS:
        raise ValueError(
            f"aggregateDurationSeconds: {seconds} is too long, want at most {_LONGEST_USAGE_WINDOW_SECONDS}"
        )
    return max(seconds or 0, _LEAST_USAGE_WINDOW_SECONDS)


def aggregate_windows_seconds(policy: node_metric.MetricCollectPolicy | None) -> list[int]:
    """Return the windows of the aggregated usages, shortest first. A list in the spec replaces the default list.

    Raises ValueError for a text that is no duration, and for one that is shorter than 1 s or longer than 12 h.
    """
    aggregate_policy = policy.node_aggregate_policy if policy else None
    durations = aggregate_policy.durations if aggregate_policy else None
    if durations is None:
        default = _DEFAULTS.metric_aggregate_policy
        durations = (default.durations if default else None) or []
    windows = {round(_window_seconds(text)) for text in durations}
    return sorted(windows | {_LOAD_WATCHER_WINDOW_SECONDS})


def _window_seconds(duration: str) -> float:
    try:
        seconds = times.duration_seconds(duration)
    except ValueError as problem:
        raise ValueError(f"nodeAggregatePolicy.durations: {problem}") from problem
    if not 1 <= seconds <= _LONGEST_USAGE_WINDOW_SECONDS:
        kind = "short" if seconds < 1 else "long"
        longest = times.format_duration(_LONGEST_USAGE_WINDOW_SECONDS)
        raise ValueError(f"nodeAggregatePolicy.durations: {duration!r} is too {kind}, want 1s to {longest}")
    return seconds


def counts_page_cache(policy: node_metric.MetricCollectPolicy | None) -> bool:
    """Return whether page cache counts as used memory. usageWithHotPageCache has the effect of the default."""
    memory_policy = policy.node_memory_collect_policy if policy else None
    return memory_policy == node_metric.NodeMemoryCollectPolicy.WITH_PAGE_CACHE


def unsupported(policy: node_metric.MetricCollectPolicy | None) -> str | None:
    """Return what the policy requests and this agent does not measure; None without such a request."""
    memory_policy = policy.node_memory_collect_policy if policy else None
    if memory_policy != node_metric.NodeMemoryCollectPolicy.WITH_HOT_PAGE_CACHE:
        return None
    return (
        f"spec.metricCollectPolicy.nodeMemoryCollectPolicy is {memory_policy}, and hot pages are not measured: "
        f"{node_metric.NodeMemoryCollectPolicy.WITHOUT_PAGE_CACHE} is in force"
    )


def predict_policy(
    policy: controller_config.PredictPolicy | None, below: controller_config.PredictPolicy | None = None
) -> controller_config.PredictPolicy:
    """Return the policy with the default of every key that the spec leaves out: that of `below`, or the general one."""
    keys = {
        key: value for layer in (below, policy) if layer for key, value in layer.model_dump(exclude_none=True).items()
    }
    return _POLICY.model_copy(update=keys) if keys else _POLICY


def predict_parameters(policy: controller_config.PredictPolicy) -> PredictParameters:
    """Return the parameters of the predictors for a policy in force, in which every key is set."""
    values = policy.model_dump(
        include={field.name for field in dataclasses.fields(PredictParameters)}, exclude_none=True
    )
    if "members" in values:
        values["members"] = tuple(values["members"])
    return PredictParameters(**values)


def suppress_threshold_percent(policy: controller_config.MidColocationPolicy | None) -> int:
    """Return the usage of the node above which limits of Mid pods are lowered, 0 where they are not."""
    if policy is None or not policy.enable:
        return 0
    return policy.mid_suppress_threshold_percent or 0


def published_policy(
    policy: controller_config.PredictPolicy, used: PredictParameters
) -> controller_config.PredictPolicy:
    """Return the policy for `status.prediction.parameters`: the parameters used, with the safety margin in force."""
    shown = {field.name: getattr(used, field.name) for field in dataclasses.fields(used)}
    shown["safety_margin_percent"] = used.margin_percent
    for name, value in shown.items():
        if isinstance(value, tuple):
            shown[name] = list(value)
        elif parameters.constraints(name).get("type") == "integer":
            shown[name] = round(value)
    return policy.model_copy(update=shown)
