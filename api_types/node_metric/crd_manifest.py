"""The CustomResourceDefinition document of NodeMetric, built from the models.

pydantic's JSON schema is close to a structural schema, not equal to one: references are inlined, titles and defaults
dropped (the apiserver would write defaults on every read, which a reader of the model does not expect), optional means
absent and never null.
"""

from __future__ import annotations

from typing import Any, Final

from api_types import names
from api_types.node_metric import types as node_metric

COLUMNS: Final = (
    ("CPU", "string", ".status.nodeMetric.nodeUsage.resources.cpu", "Mean CPU usage of the node."),
    ("Memory", "string", ".status.nodeMetric.nodeUsage.resources.memory", "Mean memory usage of the node, in bytes."),
    ("Prod-CPU-Peak", "string", ".status.prodPeakMetric.resource.resources.cpu", "Predicted CPU peak of Prod pods."),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the report can be relied on."),
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
            raise ValueError(f"a structural schema has one type, this field has {len(choices)}: {schema}")
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return _resolved({**choices[0], **rest}, definitions)
    return schema


def _in_openapi_3_0(schema: dict[str, Any]) -> dict[str, Any]:
    """Spell const and exclusive bounds, which JSON schema 2020 has as values, the way OpenAPI 3.0 does."""
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
        result["properties"] = {name: _structural(each, definitions) for name, each in schema["properties"].items()}
    return result


def structural_schema() -> dict[str, Any]:
    """The OpenAPI v3 schema of a NodeMetric, as the apiserver wants it."""
    schema = node_metric.NodeMetric.model_json_schema(by_alias=True)
    result = _structural(schema, schema.get("$defs", {}))
    properties = result["properties"]
    properties["metadata"] = {"type": "object"}
    result.pop("required", None)
    return result


def manifest() -> dict[str, Any]:
    """The whole CustomResourceDefinition document."""
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
