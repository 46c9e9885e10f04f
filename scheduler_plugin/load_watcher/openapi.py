"""OpenAPI 3.1 description of the REST API; its schemas are generated from the encoded structs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler_plugin.load_watcher import kep_document
from scheduler_plugin.load_watcher.records import Snapshot
from scheduler_plugin.load_watcher.windows import FALLBACKS

_NO_METRICS: Final = {"description": "there are no metrics, or none of this node; the body states why"}


def _document() -> bytes:
    (schema,), components = msgspec.json.schema_components([Snapshot], ref_template="#/components/schemas/{name}")
    components["KepDocument"] = {key: value for key, value in kep_document.SCHEMA.items() if key != "$schema"}
    either = {"anyOf": [schema, {"$ref": "#/components/schemas/KepDocument"}]}
    metrics = {
        "200": {"description": "the newest metrics", "content": {"application/json": {"schema": either}}},
        "400": {"description": "a parameter has a value that is not among those listed; the body names it"},
        "404": _NO_METRICS,
    }
    window = _query("window", list(FALLBACKS), "requested window; a shorter one is served if it is missing")
    shape = _query("format", ["kep"], "kep: KepDocument, the document of KEP-61; none: Snapshot, as upstream's watcher")
    host = {"name": "host", "in": "query", "schema": {"type": "string"}, "description": "this node alone"}
    node = {"name": "node", "in": "path", "required": True, "schema": {"type": "string"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "koord-suite load watcher", "version": "1"},
        "paths": {
            "/watcher": {"get": _operation("Metrics of every node", [host, window, shape], metrics)},
            "/watcher/{node}": {"get": _operation("Metrics of one node", [node, window, shape], metrics)},
            "/kep-schema.json": {
                "get": _operation("JSON Schema of the document of KEP-61", [], {"200": {"description": "the schema"}})
            },
            "/watcher/health": {
                "get": _operation(
                    "Health",
                    [],
                    {
                        "200": {"description": "a provider answers and the data is fresh"},
                        "503": {"description": "no provider answers, or the data is too old"},
                    },
                )
            },
        },
        "components": {"schemas": components},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _query(name: str, values: list[str], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string", "enum": values}, "description": text}


def _operation(summary: str, parameters: list[dict[str, Any]], responses: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "parameters": parameters, "responses": responses}


DOCUMENT: Final = _document()
"""JSON text of the description."""
