"""NodeMetric's CRD and the PriorityClasses as Koordinator installs them, without the suite's additional fields."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer", "format": "int64"}
_QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_RESOURCES = _object(
    resources={"type": "object", "additionalProperties": _QUANTITY},
    devices=_list({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
)
_AGGREGATED = _list(_object(usage={"type": "object", "additionalProperties": _RESOURCES}, duration=_TEXT))
_SPEC = _object(
    metricCollectPolicy=_object(
        aggregateDurationSeconds=_WHOLE,
        reportIntervalSeconds=_WHOLE,
        nodeAggregatePolicy=_object(durations=_list(_TEXT)),
        nodeMemoryCollectPolicy={
            "type": "string",
            "enum": ["usageWithHotPageCache", "usageWithoutPageCache", "usageWithPageCache"],
        },
    )
)
_STATUS = _object(
    updateTime={"type": "string", "format": "date-time"},
    nodeMetric=_object(
        nodeUsage=_RESOURCES,
        systemUsage=_RESOURCES,
        aggregatedNodeUsages=_AGGREGATED,
        aggregatedSystemUsages=_AGGREGATED,
        numaUsages=_list(_object(numaNodeID=_WHOLE, nodeUsage=_RESOURCES, systemUsage=_RESOURCES)),
    ),
    podsMetric=_list(
        _object(
            name=_TEXT,
            namespace=_TEXT,
            podUsage=_RESOURCES,
            priority=_TEXT,
            qos=_TEXT,
            extensions={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        )
    ),
    hostApplicationMetric=_list(_object(name=_TEXT, usage=_RESOURCES, priority=_TEXT, qos=_TEXT)),
    prodReclaimableMetric=_object(resource=_RESOURCES),
    prodPeakMetric=_object(resource=_RESOURCES),
)


def crd() -> dict[str, Any]:
    """Return the CRD of NodeMetric, of version v1alpha1."""
    return _crd("NodeMetric", _SPEC, _STATUS)


def node_slo_crd() -> dict[str, Any]:
    """Return the CRD of NodeSLO, without the fields of its strategies."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _crd("NodeSLO", anything, anything)


def _crd(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    schema = _object(apiVersion=_TEXT, kind=_TEXT, metadata={"type": "object"}, spec=spec, status=status)
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    singular = kind.lower()
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{singular}s", "singular": singular}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.slo.koordinator.sh"},
        "spec": {"group": "slo.koordinator.sh", "scope": "Cluster", "names": names, "versions": [version]},
    }


def priority_classes() -> list[dict[str, Any]]:
    """Return the four classes."""
    values = {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000}
    return [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in values.items()
    ]
