"""Record every report of a node from a watch, with its time of arrival."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from typing import Any, NamedTuple

from e2e.support.cluster_client import ClusterClient


class Report(NamedTuple):
    """A status, and its time of arrival."""

    at: dt.datetime
    status: dict[str, Any]


class ReportWitness:
    """Watches the NodeMetric of a node until it is closed. Writes to the spec are no reports."""

    def __init__(self, cluster_client: ClusterClient, node: str) -> None:
        self.reports: list[Report] = []
        self._cluster_client = cluster_client
        self._node = node
        self._closed = False
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching, after a last read."""
        self._closed = True
        self._thread.join()

    def _follow(self) -> None:
        last = ""
        while True:
            is_last = self._closed
            found = self._cluster_client.find("NodeMetric", self._node) or {}
            status = found.get("status") or {}
            if status.get("updateTime", "") != last:
                last = status.get("updateTime", "")
                self.reports.append(Report(dt.datetime.now(dt.UTC), status))
            if is_last:
                return
            time.sleep(0.1)

    def gaps_seconds(self) -> list[float]:
        """Return the time between each two reports."""
        return [(after.at - before.at).total_seconds() for before, after in itertools.pairwise(self.reports)]
