"""Cases of koordinator-loadaware.json that differ on purpose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from api_types import names
from api_types.kubernetes import times
from scheduler_plugin.state import pod_info


def _nanos(duration: str | None) -> int:
    return times.duration_nanos(duration or "0s")


def _annotation(of: Any, name: str) -> Any:
    try:
        return json.loads(((of or {}).get("metadata") or {}).get("annotations", {})[name])
    except (KeyError, ValueError, TypeError):
        return None


def _has_negative_factor(case: Mapping[str, Any]) -> bool:
    own = _annotation(case["input"].get("pod"), names.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS)
    return isinstance(own, dict) and any(isinstance(factor, int) and factor < 0 for factor in own.values())


def _has_no_node(case: Mapping[str, Any]) -> bool:
    return not case["input"].get("node")


def _is_system_critical(case: Mapping[str, Any]) -> bool:
    priority = ((case["input"].get("pod") or {}).get("spec") or {}).get("priority") or 0
    return bool(priority >= pod_info.SYSTEM_CRITICAL_PRIORITY)


def _lacks_window(metric: Any, statistic: Any, duration: Any) -> bool:
    """Return whether a report lacks a statistic over a window of its own length."""
    windows = (((metric or {}).get("status") or {}).get("nodeMetric") or {}).get("aggregatedNodeUsages") or ()
    reported = {
        (name, _nanos(window.get("duration")))
        for window in windows
        for name, usage in (window.get("usage") or {}).items()
        if (usage or {}).get("resources")
    }
    return bool(statistic) and _nanos(duration) > 0 and (statistic, _nanos(duration)) not in reported


def _filters_missing_window(case: Mapping[str, Any]) -> bool:
    inputs = case["input"]
    args = inputs.get("args") or inputs.get("rawArgs") or {}
    own = _annotation(inputs.get("node"), names.ANNOTATION_USAGE_THRESHOLDS)
    blocks = [args.get("aggregated"), own.get("aggregatedUsage") if isinstance(own, dict) else None]
    return any(
        block.get("usageThresholds")
        and _lacks_window(
            inputs.get("nodeMetric"), block.get("usageAggregationType"), block.get("usageAggregatedDuration")
        )
        for block in blocks
        if block
    )


def _scores_missing_window(case: Mapping[str, Any]) -> bool:
    inputs = case["input"]
    block = (inputs.get("args") or inputs.get("rawArgs") or {}).get("aggregated") or {}
    return _lacks_window(
        inputs.get("nodeMetric"), block.get("scoreAggregationType"), block.get("scoreAggregatedDuration")
    )


def _reads_missing_window(case: Mapping[str, Any]) -> bool:
    inputs = case["input"]
    return _lacks_window(inputs.get("nodeMetric"), inputs.get("aggregationType"), inputs.get("aggregatedDuration"))


def _looks_up_missing_window(case: Mapping[str, Any]) -> bool:
    reports: dict[str, Any] = {}
    for event in case["input"]["events"]:
        if event.get("nodeMetric"):
            reports[event["nodeMetric"]["metadata"]["name"]] = event["nodeMetric"]
        elif event["op"] == "lookup" and event["node"] in reports and not event.get("prod"):
            wanted = event.get("aggregationType"), event.get("aggregatedDuration")
            if _lacks_window(reports[event["node"]], *wanted):
                return True
    return False


def _has_namesakes(case: Mapping[str, Any]) -> bool:
    """Return whether a pod is added while another one of its name counts."""
    uid_of: dict[tuple[str, str], str] = {}
    for event in case["input"]["events"]:
        metadata = (event.get("pod") or {}).get("metadata") or {}
        name, uid = (metadata.get("namespace", ""), metadata.get("name", "")), metadata.get("uid", "")
        if event["op"] in ("pod_add", "pod_update", "reserve"):
            if uid_of.setdefault(name, uid) != uid:
                return True
        elif uid_of.get(name) == uid:
            del uid_of[name]
    return False


def _has_class_label(case: Mapping[str, Any]) -> bool:
    pod = case["input"].get("pod") or {}
    pods = [pod, *((event.get("pod") or {}) for event in case["input"].get("events") or ())]
    labels = (item["metadata"].get("labels") or {} for item in pods if item)
    return any(label in of_pod for of_pod in labels for label in (names.LABEL_PRIORITY_CLASS, names.LABEL_QOS))


_CLASS_BY_PRIORITY = "a pod is of the class of its priority and requests: labels may change while it runs"
_ONE_OF_A_NAME = "decision 21: a name belongs to one pod at a time, a new pod of that name replaces the old one"
_MISSING_WINDOW = "decision 21: a configured window that is missing falls back to the newest usage"
_UNKNOWN_NODE = "decision 21: a node that the watch does not show yet passes with score 0"
DIFFERENT_ON_PURPOSE = [
    (
        "score",
        _has_negative_factor,
        "scores are 0..100; a negative factor of a pod can raise Koordinator's above it, without effect",
    ),
    ("filter", _has_no_node, _UNKNOWN_NODE),
    ("score", _has_no_node, _UNKNOWN_NODE),
    ("filter", _is_system_critical, "decision 21: system-critical pods are exempt"),
    ("filter", _filters_missing_window, _MISSING_WINDOW),
    ("score", _scores_missing_window, _MISSING_WINDOW),
    ("aggregated_usage", _reads_missing_window, _MISSING_WINDOW),
    ("assign_cache", _looks_up_missing_window, _MISSING_WINDOW),
    ("assign_cache", _has_class_label, _CLASS_BY_PRIORITY),
    ("priority_class", _has_class_label, _CLASS_BY_PRIORITY),
    ("assign_cache", _has_namesakes, _ONE_OF_A_NAME),
    ("query_node", _has_namesakes, _ONE_OF_A_NAME),
]
