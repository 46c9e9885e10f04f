"""The agent's side: write the Mid pods of the node into the file that the limiter reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from koordlet.cli.limiter import input_file, replaced_file
from koordlet.cli.limiter.input_file import MOST_CPU_MILLIS, MOST_MEMORY_BYTES, Amounts
from koordlet.cluster.pods import PodOnNode, PodTable

log = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 30.0


def amounts(pods: Iterable[PodOnNode]) -> dict[str, Amounts]:
    """Return UID -> amounts of the BestEffort pods with a Mid priority and Mid resources."""
    return {
        pod.uid: Amounts(
            min(pod.mid_cpu_request_millis, MOST_CPU_MILLIS), min(pod.mid_memory_request_bytes, MOST_MEMORY_BYTES)
        )
        for pod in pods
        if pod.mid is not None
        and pod.is_best_effort
        and not pod.is_terminated
        and (pod.mid_cpu_request_millis or pod.mid_memory_request_bytes)
    }


class Feed:
    """Writes the file after each change of the pods, and at an interval."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._version: int | None = None
        self._written_at = float("-inf")
        self._problem = ""

    def write(self, pods: PodTable, monotonic_seconds: float, now_seconds: float) -> None:
        """Replace the file where it is due. Without a complete list of the pods the old one stays."""
        is_new = self._version != pods.version
        if not self._file or not pods.synced or not (is_new or monotonic_seconds >= self._written_at + REFRESH_SECONDS):
            return
        content = input_file.encoded(now_seconds, amounts(pods.active()))
        try:
            # readable, as the limiter is another user without the capability to read everything
            replaced_file.replace(self._file, content, mode=0o644)
        except OSError as error:
            if str(error) != self._problem:
                log.warning("%s: not written: %s; the limiter keeps the last one; trying again", self._file, error)
            self._problem = str(error)
            return
        self._version, self._written_at, self._problem = pods.version, monotonic_seconds, ""
