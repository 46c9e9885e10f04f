"""Documents of `colocation-config` that two managers read, well formed and not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_POOL_A: Final = {"matchLabels": {"pool": "a"}}


def _text(**keys: Any) -> str:
    return json.dumps({"enable": True, **keys})


def _every(seconds: float, **keys: Any) -> str:
    return _text(metricReportIntervalSeconds=seconds, **keys)


def _windows(*durations: str) -> str:
    return _text(metricAggregatePolicy={"durations": durations})


def _entry(seconds: int, pool_seconds: int | None, selector: Any = _POOL_A, **keys: Any) -> str:
    """Return a document with one nodeConfigs entry; without a selector where that is None."""
    entry = {"name": "a", "metricReportIntervalSeconds": pool_seconds, "nodeSelector": selector, **keys}
    return _every(seconds, nodeConfigs=[{key: value for key, value in entry.items() if value is not None}])


def _expression(operator: str, **more: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "pool", "operator": operator, **more}]}


BASE: Final = _every(77)
DOCUMENTS: Final[Mapping[str, str | None]] = {
    "enable only": _text(),
    "intervals": _every(
        30, metricAggregateDurationSeconds=120, metricAggregatePolicy={"durations": ["1m", "15m"]},
        metricMemoryCollectPolicy="usageWithPageCache",
    ),
    "off, with an interval": json.dumps({"enable": False, "metricReportIntervalSeconds": 45}),
    "without enable": json.dumps({"metricReportIntervalSeconds": 45}),
    "unknown key": _every(40, nope=1),
    "key in another case": '{"ENABLE": true, "MetricReportIntervalSeconds": 41}',
    "key twice": '{"enable": true, "metricReportIntervalSeconds": 42, "metricReportIntervalSeconds": 43}',
    "null": '{"enable": true, "metricReportIntervalSeconds": null}',
    "fraction": _every(44.5),
    "whole float": '{"enable": true, "metricReportIntervalSeconds": 44.0}',
    "exponent": '{"enable": true, "metricReportIntervalSeconds": 6e1}',
    "quoted number": '{"enable": true, "metricReportIntervalSeconds": "44"}',
    "zero": _every(0),
    "negative": _every(-5),
    "2^40": _every(2**40),
    "one second": _every(1),
    "usage window of a week": _text(metricAggregateDurationSeconds=604800),
    "window of 24h": _windows("24h"),
    "no windows": _windows(),
    "window in words": _windows("5 minutes"),
    "window of 1h30m": _windows("1h30m", "90s", "1.5h"),
    "window twice": _windows("5m", "300s"),
    "unknown memory policy": _text(metricMemoryCollectPolicy="everything"),
    "empty memory policy": _text(metricMemoryCollectPolicy=""),
    "hot page cache": _text(metricMemoryCollectPolicy="usageWithHotPageCache"),
    "cap above 100": _every(51, midCPUThresholdPercent=120),
    "batch keys": _every(52, cpuReclaimThresholdPercent=70, memoryCalculatePolicy="request"),
    "batch key out of range": _every(53, cpuReclaimThresholdPercent=-1),
    "unknown batch policy": _every(54, memoryCalculatePolicy="whatever"),
    "extensions": _every(55, extensions={"x": {"a": 1}}),
    "design document": _every(60, predictPolicy={"coldStartPeriodSeconds": 300}, midCPUThresholdPercent=60),
    "example of Koordinator": _every(56, cpuReclaimThresholdPercent=60, resourceDiffThreshold=0.1),
    "resourceDiffThreshold above 1": _every(57, resourceDiffThreshold=5),
    "first entry wins": _every(58, nodeConfigs=[
        {"name": name, "nodeSelector": _POOL_A, "metricReportIntervalSeconds": seconds}
        for name, seconds in (("a", 31), ("b", 32))]),
    "on in one pool": json.dumps({"enable": False, "nodeConfigs": [
        {"name": "a", "nodeSelector": _POOL_A, "enable": True, "metricReportIntervalSeconds": 33}]}),
    "off in one pool": _entry(59, None, enable=False),
    "NotIn": _entry(61, 34, _expression("NotIn", values=["a"])),
    "Exists": _entry(62, 35, _expression("Exists")),
    "empty selector": _entry(63, 36, {}),
    "no selector": _entry(64, 37, None),
    "unknown operator": _entry(65, 38, _expression("Gt", values=["1"])),
    "entry out of range": _entry(66, -1),
    "unknown key in an entry": _entry(67, 39, zzz=1),
    "entry without a name": _entry(68, 46, name=None),
    "windows of an entry": _entry(69, None, metricAggregatePolicy={"durations": ["10m", "20m"]}),
    "broken": '{"enable": true, ',
    "empty": "",
    "array": "[]",
    "text behind": '{"enable": true} x',
    "comment": '{"enable": true /* c */}',
    "byte order mark": "\ufeff" + _every(70),
    "key absent": None,
}  # fmt: skip
"""Each text by what it is about. `null` as a whole is left out: it ends koord-manager."""
