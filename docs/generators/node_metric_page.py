"""Page docs/reference/node-metric.md: every field of the NodeMetric, from its pydantic model."""

from __future__ import annotations

from typing import Final

from api_types import names
from api_types.node_metric import crd_manifest
from api_types.node_metric.types import NodeMetricDocument
from docs.generators import markdown, schema_tables
from docs.generators.schema_tables import Schema

_INTRODUCTION: Final = f"""
`{names.NODE_METRIC_PLURAL}.{names.GROUP}`, version `{names.VERSION}`: one cluster-scoped object per node, with the name
of the node. The manager writes `spec`, the koordlet replaces `status`. Fields that Koordinator's schema lacks are
listed in [compatibility](koordinator-compatibility.md#nodemetric). Absent means "not known", never zero.

`kubectl get nodemetrics` shows these columns:
"""
_OMITTED: Final = frozenset({"apiVersion", "kind", "metadata"})
_CONFIGURED: Final = frozenset({"PredictPolicy", "MidColocationPolicy", "MidEviction"})
"""Objects whose fields are keys of the configuration."""


def page() -> str:
    """Return the whole page."""
    schema = NodeMetricDocument.model_json_schema(by_alias=True)
    definitions: dict[str, Schema] = schema.get("$defs", {})
    columns = ((f"`{name}`", f"`{path}`", text) for name, _, path, text in crd_manifest.COLUMNS)
    parts = [
        markdown.head("NodeMetric", "api_types/node_metric/types.py"),
        _INTRODUCTION,
        markdown.table(("column", "field", "meaning"), columns),
        schema_tables.section("Object", schema, definitions, _OMITTED),
    ]
    parts += [
        f"\n## {name}\n\nIts fields are keys of the [configuration](configuration.md), with the values of this node.\n"
        if name in _CONFIGURED
        else schema_tables.section(name, definitions[name], definitions)
        for name in schema_tables.in_order(schema, definitions)
    ]
    return "".join(parts)
