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
from scheduler_plugin.load_watcher.records import FALLBACKS, Data, Metadata, NoMetrics, Snapshot, Windows


class KepMetric(msgspec.Struct):
    """Record of KEP-61: the statistic is in `rollup`, the type in lower case."""

    name: str
    type: str
    rollup: str
    value: float


class KepNode(msgspec.Struct):
    """Node of KEP-61."""

    metrics: list[KepMetric]
    tags: dict[str, str] = {}
    metadata: Metadata = Metadata()


class KepWindow(msgspec.Struct):
    """Period of the statistics, in seconds since the epoch."""

    duration: str
    start: int
    end: int


class KepDocument(msgspec.Struct):
    """Document of KEP-61, for nodes of any name, any number of metrics and values with decimals."""

    timestamp: int
    window: KepWindow
    source: str
    data: dict[str, KepNode]


def encode_kep(snapshot: Snapshot) -> bytes:
    """Encode as the document of KEP-61. Raises ValueError for NaN and infinite values."""
    records.require_numbers(snapshot)
    nodes = {
        name: KepNode(
            [KepMetric(metric.name, metric.type.lower(), metric.operator, metric.value) for metric in node.metrics],
            node.tags,
            node.metadata,
        )
        for name, node in snapshot.data.nodes.items()
        if node.metrics
    }
    window = KepWindow(snapshot.window.duration, snapshot.window.start, snapshot.window.end)
    return msgspec.json.encode(KepDocument(snapshot.timestamp, window, snapshot.source, nodes))


KEP_SCHEMA: Final[dict[str, Any]] = msgspec.json.schema(KepDocument)
"""The KEP's own allows names of digits alone, checks two metrics, and wants whole percents."""
KEP_SCHEMA_TEXT: Final = msgspec.json.format(msgspec.json.encode(KEP_SCHEMA), indent=2)
"""The schema as served."""

_NO_METRICS: Final = {"description": "there are no metrics, or none of this node; the body states why"}


def _document() -> bytes:
    either, components = msgspec.json.schema_components(
        [Snapshot, KepDocument], ref_template="#/components/schemas/{name}"
    )
    metrics = {
        "200": {"description": "the newest metrics", "content": {"application/json": {"schema": {"anyOf": either}}}},
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
