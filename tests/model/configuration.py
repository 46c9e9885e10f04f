"""The users' ConfigMap over time: what is in force by its content, whatever the manager has seen of it."""

from __future__ import annotations

import json
import math
from typing import Any

from tests.fakes import cluster
from tests.model.memory_session import Server

NAMESPACE, NAME, LAST_GOOD = "koordinator-system", "slo-controller-config", "koord-manager-last-good-config"
LONGEST_DEGRADE_MINUTES = 4
BASE: dict[str, Any] = {
    "enable": True,
    "degradeTimeMinutes": 3,
    "metricReportIntervalSeconds": 60,
    "metricAggregateDurationSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m"]},
    "midUnallocatedPercent": 30,
    "updateTimeThresholdSeconds": 120,
    "nodePredictPolicy": {"coldStartPeriodSeconds": 300, "checkIntervalSeconds": 60},
    "midEviction": {"mode": "evict", "reports": 2, "nodeIntervalSeconds": 60, "readmitSeconds": 120,
                    "clusterPerMinute": 1, "memoryThresholdPercent": 70},
}  # fmt: skip
EDITS: tuple[dict[str, Any] | str, ...] = (
    {},
    {"midUnallocatedPercent": 100},
    {"midUnallocatedPercent": 0},
    {"midReclaimRatioPercent": 70, "degradeTimeMinutes": LONGEST_DEGRADE_MINUTES},
    {"midCPUThresholdPercent": 40, "midMemoryThresholdPercent": 30},
    {"midMaxIncreasePercent": 10},
    {"midFloor": "none"},
    {"nodePredictPolicy": {**BASE["nodePredictPolicy"], "predictor": "percentile", "safetyMarginPercent": 5}},
    {"nodePredictPolicy": {**BASE["nodePredictPolicy"], "predictor": "n-sigma-v1", "coldStartPeriodSeconds": 900}},
    {"nodePredictPolicy": {**BASE["nodePredictPolicy"], "predictor": "of-the-future"}},
    {"midEviction": BASE["midEviction"] | {"mode": "off"}},
    {"enable": False},
    {"enable": False},
    "{",
    '{"enable": "yes"}',
)


class Configuration:
    """The ConfigMap, edited by the run."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.text: str | None = None
        self.off_until = 0.0
        """Last time at which colocation was lawfully off."""
        self.longest_degrade_seconds = 60 * LONGEST_DEGRADE_MINUTES
        self.in_force: dict[str, Any] = {}
        self._off_since: float | None = 0.0
        self._unprotected_until = 0.0
        self.spares_until = 0.0
        """Last time at which no pod was to be evicted."""

    def edit(self, index: int, now: float) -> None:
        edit = EDITS[index % len(EDITS)]
        self._put(edit if isinstance(edit, str) else json.dumps(BASE | edit), now)

    def advance(self, now: float) -> None:
        """Follow the time: without a ConfigMap the last document that the manager has seen stays in force."""
        if self.text is None and (stored := self.server.view("configmaps", LAST_GOOD, NAMESPACE)):
            self.in_force = json.loads(stored["data"]["colocation-config"])
        self._note(now)

    def remove(self) -> None:
        if self.text is not None:
            self.server.remove("configmaps", NAME, NAMESPACE)
            self.text = None

    def put_back(self, text: str, now: float) -> None:
        if self.text is None:
            self._put(text, now)

    def _put(self, text: str, now: float) -> None:
        data = {"data": {"colocation-config": text}}
        try:
            self.server.patch("configmaps", NAME, data, NAMESPACE)
        except cluster.Refusal:
            self.server.add("configmaps", {"metadata": {"name": NAME}, **data}, NAMESPACE)
        self.text = text
        try:
            document = json.loads(text)
        except ValueError:
            return
        is_known = document.get("nodePredictPolicy", {}).get("predictor") != "of-the-future"
        if document.get("enable") in (True, False) and is_known:
            self.in_force = document
        self._note(now)

    def _note(self, now: float) -> None:
        if self.in_force.get("enable"):
            self._off_since = None
        else:
            self._off_since = now if self._off_since is None else self._off_since
            self.off_until = now
        if self.in_force.get("midFloor") == "none":
            self._unprotected_until = now
        if not self.in_force.get("enable") or self.in_force["midEviction"]["mode"] != "evict":
            self.spares_until = now

    def off_since(self, now: float) -> float | None:
        """Return the time since which colocation is off; None while it is on."""
        self.advance(now)
        return self._off_since

    def protects_pods_since(self, since: float) -> bool:
        return self._unprotected_until < since and not math.isinf(since)
