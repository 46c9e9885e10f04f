"""Make valid objects with overrides, for tests of one detail."""

from __future__ import annotations

import copy
from typing import Any


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
    return base


_UPSTREAM_NODE_METRIC: dict[str, Any] = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeMetric",
    "metadata": {"name": "worker-1", "resourceVersion": "7"},
    "spec": {
        "metricCollectPolicy": {
            "aggregateDurationSeconds": 300,
            "reportIntervalSeconds": 60,
            "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
            "nodeMemoryCollectPolicy": "usageWithoutPageCache",
        }
    },
    "status": {
        "updateTime": "2026-11-21T10:00:00Z",
        "nodeMetric": {
            "nodeUsage": {
                "resources": {"cpu": "1450m", "memory": "3Gi"},
                "devices": [
                    {
                        "type": "gpu",
                        "id": "1",
                        "minor": 0,
                        "health": True,
                        "resources": {"koordinator.sh/gpu-core": 80},
                        "topology": {"socketID": 0, "nodeID": 0, "pcieID": "0000:00", "busID": "0000:01:00.0"},
                        "vfGroups": [{"labels": {"type": "fast"}, "vfs": [{"minor": 0, "busID": "0000:01:00.2"}]}],
                    }
                ],
            },
            "systemUsage": {"resources": {"cpu": "120m", "memory": "524288Ki"}},
            "aggregatedNodeUsages": [
                {
                    "usage": {
                        "avg": {"resources": {"cpu": "1400m", "memory": "3Gi"}},
                        "p50": {"resources": {"cpu": "1300m", "memory": "3Gi"}},
                        "p90": {},
                    },
                    "duration": "5m0s",
                }
            ],
            "numaUsages": [{"numaNodeID": 0, "nodeUsage": {"resources": {"cpu": "700m"}}, "systemUsage": {}}],
        },
        "podsMetric": [
            {
                "name": "shop-0",
                "namespace": "prod",
                "podUsage": {"resources": {"cpu": "900m", "memory": "1073741824"}},
                "priority": "koord-prod",
                "qos": "LS",
                "extensions": {"example.com/any": {"nested": [1, "two"]}},
            }
        ],
        "hostApplicationMetric": [
            {"name": "nginx", "usage": {"resources": {"cpu": "1"}}, "priority": "koord-prod", "qos": "LS"}
        ],
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "2", "memory": "4Gi"}}},
        "prodPeakMetric": {"resource": {"resources": {"cpu": "1", "memory": "2Gi"}}},
    },
}


def upstream_node_metric(**overrides: Any) -> dict[str, Any]:
    """Return a NodeMetric with every field that Koordinator's agent can write, by Koordinator's CRD."""
    return _merge(copy.deepcopy(_UPSTREAM_NODE_METRIC), overrides)


_MID_RESOURCES = {"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "268435456"}
_LIMITED_MID_POD: dict[str, Any] = {
    "metadata": {"name": "mid-0", "namespace": "jobs", "uid": "aaaaaaaa-0000-4000-8000-000000000000"},
    "spec": {
        "priorityClassName": "koord-mid",
        "priority": 7000,
        "nodeName": "worker-1",
        "containers": [
            {
                "name": "work",
                "resources": {
                    "requests": {"cpu": "0", "memory": "0", **_MID_RESOURCES},
                    "limits": {"cpu": "500m", "memory": "268435456", **_MID_RESOURCES},
                },
            }
        ],
    },
    "status": {"phase": "Running", "qosClass": "Burstable", "startTime": "2026-11-22T00:00:00Z"},
}


def limited_mid_pod(**overrides: Any) -> dict[str, Any]:
    """Return a Mid pod with native limits, as the admission rules leave it: Burstable for Kubernetes."""
    return _merge(copy.deepcopy(_LIMITED_MID_POD), overrides)
