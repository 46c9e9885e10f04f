"""Build the CustomResourceDefinition of NodeMetric from the models.

The JSON schema of pydantic is close to a structural schema but not equal. References are inlined. Titles and defaults
are dropped: the apiserver would fill in defaults on every read, which readers of the model do not expect. Optional
means absent, never null.
"""

from __future__ import annotations

from typing import Any, Final

from api_types import names
from api_types.node_metric import types as node_metric

COLUMNS: Final = (
    ("CPU", "string", ".status.nodeMetric.nodeUsage.resources.cpu", "Mean CPU usage of the node."),
    ("Memory", "string", ".status.nodeMetric.nodeUsage.resources.memory", "Mean memory usage of the node, in bytes."),
    ("Prod-CPU-Peak", "string", ".status.prodPeakMetric.resource.resources.cpu", "Predicted CPU peak of Prod pods."),
    ("Mid-CPU", "string", r".status.allocated.mid.kubernetes\.io/mid-cpu", "Milli-cores that Mid pods request."),
    ("Mid-Memory", "string", r".status.allocated.mid.kubernetes\.io/mid-memory", "Bytes that Mid pods request."),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the report is usable."),
    ("Reason", "string", '.status.conditions[?(@.type=="PredictionDegraded")].reason', "State of the prediction."),
    ("Sample-Age", "date", ".status.updateTime", "Age of the sample."),
)
"""Name, type, JSON path and description of each printer column."""

_DROPPED: Final = ("title", "default", "additionalProperties", "discriminator")


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Inline a reference, and the one type that remains of an optional one."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        return _resolved({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        if len(choices) != 1:
            raise ValueError(f"want one type in a structural schema, this field has {len(choices)}: {schema}")
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _resolved({**choices[0], **rest}, definitions)
    return schema


def _in_openapi_3_0(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert const and exclusive bounds, which JSON schema 2020 has as values, to OpenAPI 3.0."""
    result = dict(schema)
    if "const" in result:
        result["enum"] = [result.pop("const")]
    for bound in ("Minimum", "Maximum"):
        if f"exclusive{bound}" in result:
            result[bound.lower()] = result[f"exclusive{bound}"]
            result[f"exclusive{bound}"] = True
    return result


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _in_openapi_3_0(_resolved(schema, definitions))
    result = {key: value for key, value in schema.items() if key not in _DROPPED and not key.startswith("$")}
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = _structural(values, definitions)
    if "items" in schema:
        result["items"] = _structural(schema["items"], definitions)
    if "properties" in schema:
        result["properties"] = {
            name: _structural(property_schema, definitions) for name, property_schema in schema["properties"].items()
        }
    return result


def structural_schema() -> dict[str, Any]:
    """Return the OpenAPI v3 schema of a NodeMetric, as the apiserver requires it."""
    schema = node_metric.NodeMetricDocument.model_json_schema(by_alias=True)
    result = _structural(schema, schema.get("$defs", {}))
    properties = result["properties"]
    properties["metadata"] = {"type": "object"}
    result.pop("required", None)
    return result


def manifest() -> dict[str, Any]:
    """Return the whole CustomResourceDefinition document."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.NODE_METRIC_PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Cluster",
            "names": {
                "kind": names.NODE_METRIC_KIND,
                "listKind": names.NODE_METRIC_LIST_KIND,
                "plural": names.NODE_METRIC_PLURAL,
                "singular": names.NODE_METRIC_SINGULAR,
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": description}
                        for name, kind, path, description in COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": structural_schema()},
                }
            ],
        },
    }
