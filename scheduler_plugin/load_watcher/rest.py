"""REST API: upstream's paths and responses, with the additional ones of KEP-61. `openapi` describes it.

    /watcher                  every node: the 15 minute window, or the window of `?window=`
    /watcher?host=H           one node, as /watcher/H
    /watcher/health           200 while a provider responds and the data is fresh, else 503
    ?format=kep               the document of KEP-61
    /kep-schema.json          JSON Schema of that document

Responses depend on the windows and the clock alone. They are requested from many threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from component_base.http_endpoint import Page, ProbeResult, Route
from scheduler_plugin.load_watcher import kep_document, openapi, records
from scheduler_plugin.load_watcher.records import Data, Snapshot
from scheduler_plugin.load_watcher.windows import FALLBACKS, NoMetrics, Windows

_JSON: Final = "application/json"
_FORMATS: Final[Mapping[str, Callable[[Snapshot], bytes]]] = {"": records.encode, "kep": kep_document.encode}
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
            "/openapi.json": lambda _query: Page(_JSON, openapi.DOCUMENT),
            "/kep-schema.json": lambda _query: Page(_JSON, kep_document.SCHEMA_TEXT),
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
            return Page(_JSON, self._whole(duration, query.get("format", ""), snapshot))
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

    def _whole(self, duration: str, format_name: str, snapshot: Snapshot) -> bytes:
        cached = self._encoded.get((duration, format_name))
        if cached is None or cached[0] is not snapshot:
            cached = self._encoded[duration, format_name] = (snapshot, _FORMATS[format_name](snapshot))
        return cached[1]


def _refusal(status: HTTPStatus, text: str) -> Page:
    """Return an error in plain text with a JSON content type, as upstream's clients expect it."""
    return Page(_JSON, text.encode(), status)
