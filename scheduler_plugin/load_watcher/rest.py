"""REST API: upstream's paths and responses, with the additional ones of KEP-61.

    /watcher                  every node: the 15 minute window, or the window of `?window=`
    /watcher?host=H           one node, as /watcher/H
    /watcher/health           200 while a provider responds and the data is fresh, else 503
    ?format=kep               the document of KEP-61
    /kep-schema.json          JSON Schema of that document
    /openapi.json             OpenAPI 3.1 description; its schemas are generated from the encoded structs

Responses depend on the windows and the clock alone. They are requested from many threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from component_base.http_endpoint import Page, ProbeResult, Route
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import FALLBACKS, Data, NoMetrics, Snapshot, Windows


def encode_kep(snapshot: Snapshot) -> bytes:
    """Encode as the document of KEP-61: nodes directly under `data`, the statistic in `rollup`, types in lower case.

    Raises ValueError for NaN and infinite values.
    """
    records.require_numbers(snapshot)
    return msgspec.json.encode(
        {
            "timestamp": snapshot.timestamp,
            "window": snapshot.window,
            "source": snapshot.source,
            "data": {
                name: {
                    "metrics": [
                        {
                            "name": metric.name,
                            "type": metric.type.lower(),
                            "rollup": metric.operator,
                            "value": metric.value,
                        }
                        for metric in node.metrics
                    ],
                    "tags": node.tags,
                    "metadata": node.metadata,
                }
                for name, node in snapshot.data.nodes.items()
                if node.metrics
            },
        }
    )


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


_TEXT: Final = {"type": "string"}
_SECONDS: Final = {"type": "integer"}
_METRIC: Final = _object({"name": _TEXT, "type": _TEXT, "rollup": _TEXT, "value": {"type": "number"}})
_METADATA: Final = _object({"dataCenter": _TEXT, "pool": _TEXT}, "dataCenter", "pool")
_NODE: Final = _object(
    {
        "metrics": {"type": "array", "items": _METRIC},
        "tags": {"type": "object", "additionalProperties": _TEXT},
        "metadata": _METADATA,
    },
    "tags",
    "metadata",
)
KEP_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "title": "Load watcher document of KEP-61",
    "description": "The schema of the KEP, for nodes of any name, any number of metrics and values with decimals.",
    **_object(
        {
            "timestamp": _SECONDS,
            "window": _object({"duration": _TEXT, "start": _SECONDS, "end": _SECONDS}),
            "source": _TEXT,
            "data": {"type": "object", "additionalProperties": _NODE},
        }
    ),
}
"""JSON Schema, draft 4. The KEP's own allows names of digits alone, checks two metrics, and wants whole percents."""
KEP_SCHEMA_TEXT: Final = msgspec.json.format(msgspec.json.encode(KEP_SCHEMA), indent=2)
"""The schema as served."""

_NO_METRICS: Final = {"description": "there are no metrics, or none of this node; the body states why"}


def _document() -> bytes:
    (schema,), components = msgspec.json.schema_components([Snapshot], ref_template="#/components/schemas/{name}")
    components["KepDocument"] = {key: value for key, value in KEP_SCHEMA.items() if key != "$schema"}
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
    schema_page = {"200": {"description": "the schema"}}
    health = {
        "200": {"description": "a provider answers and the data is fresh"},
        "503": {"description": "no provider answers, or the data is too old"},
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": "koord-suite load watcher", "version": "1"},
        "paths": {
            "/watcher": {"get": _operation("Metrics of every node", [host, window, shape], metrics)},
            "/watcher/{node}": {"get": _operation("Metrics of one node", [node, window, shape], metrics)},
            "/kep-schema.json": {"get": _operation("JSON Schema of the document of KEP-61", [], schema_page)},
            "/watcher/health": {"get": _operation("Health", [], health)},
        },
        "components": {"schemas": components},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _query(name: str, values: list[str], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string", "enum": values}, "description": text}


def _operation(summary: str, parameters: list[dict[str, Any]], responses: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "parameters": parameters, "responses": responses}


OPENAPI_DOCUMENT: Final = _document()
"""JSON text of the description."""

_JSON: Final = "application/json"
_FORMATS: Final[Mapping[str, Callable[[Snapshot], bytes]]] = {"": records.encode, "kep": encode_kep}
_DEFAULT_WINDOW: Final = "15m"


class WatcherApi:
    """Pages of one set of windows. `health` may send requests; everything else is in memory."""

    def __init__(self, windows: Windows, clock: Callable[[], float], health: Callable[[], ProbeResult]) -> None:
        self._windows = windows
        self._clock = clock
        self._health = health
        self._encoded: dict[tuple[str, str], tuple[Snapshot, bytes]] = {}
        """(duration, format) -> last snapshot served and its bytes; it changes once a minute."""

    def routes(self) -> dict[str, Route]:
        """Return the routes for the HTTP endpoint of the process."""
        return {
            "/watcher": self.metrics,
            "/watcher/": self.node_metrics,
            "/watcher/health": lambda _query: self.health(),
            "/openapi.json": lambda _query: Page(_JSON, OPENAPI_DOCUMENT),
            "/kep-schema.json": lambda _query: Page(_JSON, KEP_SCHEMA_TEXT),
        }

    def metrics(self, query: Mapping[str, str]) -> Page:
        """Return the newest metrics of all nodes or of one."""
        duration = query.get("window", _DEFAULT_WINDOW)
        encode = _FORMATS.get(query.get("format", ""))
        if duration not in FALLBACKS:
            return _refusal(HTTPStatus.BAD_REQUEST, f"window is {duration!r}, wanted one of {', '.join(FALLBACKS)}")
        if encode is None:
            return _refusal(HTTPStatus.BAD_REQUEST, f"format is {query['format']!r}, wanted kep or none")
        try:
            snapshot = self._windows.latest(duration, self._clock())
        except NoMetrics as error:
            return _refusal(HTTPStatus.NOT_FOUND, str(error))
        host = query.get("host")
        if not host:
            key = duration, query.get("format", "")
            cached = self._encoded.get(key)
            if cached is None or cached[0] is not snapshot:
                cached = self._encoded[key] = (snapshot, encode(snapshot))
            return Page(_JSON, cached[1])
        node = snapshot.data.nodes.get(host)
        if node is None or not node.metrics:
            return _refusal(HTTPStatus.NOT_FOUND, f"No metrics found for host {host}")
        return Page(_JSON, encode(Snapshot(snapshot.timestamp, snapshot.window, snapshot.source, Data({host: node}))))

    def node_metrics(self, query: Mapping[str, str]) -> Page:
        """Return the metrics of the node in the path; without a name it is 404, as in upstream's API."""
        if not query["path"]:
            return _refusal(HTTPStatus.NOT_FOUND, "/watcher/ names no node; every node is at /watcher")
        return self.metrics({**query, "host": query["path"]})

    def health(self) -> Page:
        """Return an empty page with status 200 or 503, as upstream's API does; /readyz states the reason."""
        result = self._health()
        return Page(_JSON, b"", HTTPStatus.OK if result.ok else HTTPStatus.SERVICE_UNAVAILABLE)


def _refusal(status: HTTPStatus, text: str) -> Page:
    """Return an error in plain text with a JSON content type, as upstream's clients expect it."""
    return Page(_JSON, text.encode(), status)
