"""The REST API: upstream's paths and answers, and what KEP-61 promised beside them. `openapi` describes it.

    /watcher                  every node: the 15 minute window, or what `?window=` asks for
    /watcher?host=H           one node, as /watcher/H
    /watcher/health           200 while a provider answers and the data is fresh, else 503
    ?format=kep               the document as the design text draws it

There is no state here: an answer depends on the windows and the clock. It is called from many threads.
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
    """Pages over one set of windows; `health` may take a moment, everything else is in memory."""

    def __init__(self, windows: Windows, clock: Callable[[], float], health: Callable[[], ProbeResult]) -> None:
        self._windows = windows
        self._clock = clock
        self._health = health
        self._encoded: dict[tuple[str, str], tuple[Snapshot, bytes]] = {}
        """(duration, format) -> the last snapshot answered and its bytes: it changes once a minute."""

    def routes(self) -> dict[str, Route]:
        """For the endpoint of the process."""
        return {
            "/watcher": self.metrics,
            "/watcher/": self.of_node,
            "/watcher/health": lambda _query: self.health(),
            "/openapi.json": lambda _query: Page(_JSON, openapi.DOCUMENT),
        }

    def metrics(self, query: Mapping[str, str]) -> Page:
        """Answer with the newest metrics, of all nodes or of one."""
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
        if node is None:
            return _refusal(HTTPStatus.NOT_FOUND, f"No metrics found for host {host}")
        return Page(_JSON, encode(Snapshot(snapshot.timestamp, snapshot.window, snapshot.source, Data({host: node}))))

    def of_node(self, query: Mapping[str, str]) -> Page:
        """Answer of the node that the path names; upstream has no page where it names none."""
        if not query["path"]:
            return _refusal(HTTPStatus.NOT_FOUND, "/watcher/ names no node; every node is at /watcher")
        return self.metrics({**query, "host": query["path"]})

    def health(self) -> Page:
        """Empty, as upstream's: the status says it; the reason stands in /readyz."""
        verdict = self._health()
        return Page(_JSON, b"", HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE)

    def _whole(self, duration: str, format_name: str, snapshot: Snapshot) -> bytes:
        kept = self._encoded.get((duration, format_name))
        if kept is None or kept[0] is not snapshot:
            kept = self._encoded[duration, format_name] = (snapshot, _FORMATS[format_name](snapshot))
        return kept[1]


def _refusal(status: HTTPStatus, text: str) -> Page:
    """Refuse in plain text under a JSON type, as upstream's clients know it."""
    return Page(_JSON, text.encode(), status)
