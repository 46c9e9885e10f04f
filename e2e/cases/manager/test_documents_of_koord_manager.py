"""The same documents for Koordinator's own koord-manager and for this one: where the NodeMetrics differ, and why."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.support import koord_manager, waiting
from e2e.support.colocation_documents import BASE, DOCUMENTS
from e2e.support.mid_inputs import STRATEGY
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import NODE_METRICS, NODES, Connection, exists
from tools.localcluster.content_cache import REPOSITORY

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.usefixtures("koord_manager_program"),
]
CONFIG_MAPS = f"/api/v1/namespaces/{SUITE_NAMESPACE}/configmaps"
POOLS = {
    "a": {}, "b": {}, "none": {}, "interval": {"metricReportIntervalSeconds": 90}, "broken": None,
    "off": {"enable": False},
}  # fmt: skip
SETTLE_SECONDS = 5
PAGE = (REPOSITORY / "docs" / "reference" / "koordinator-compatibility.md").read_text()

DIFFERENT: Mapping[str, str] = {
    "unknown key": "unknown key",
    "unknown key in an entry": "unknown key",
    "2^40": "intervals and windows out of range",
    "usage window of a week": "intervals and windows out of range",
    "window of 24h": "intervals and windows out of range",
    "no windows": "an empty list of windows",
    "on in one pool": "off, and on in one pool",
    "empty": "deleted ConfigMap, emptied document",
    "key absent": "deleted ConfigMap, emptied document",
}
"""Document -> the row of the page on compatibility that states why the NodeMetrics differ."""

Policies = dict[str, Any]


def _prepare(api: Connection) -> None:
    koord_manager.install_crds(api)
    api.send("POST", "/api/v1/namespaces", {"metadata": {"name": SUITE_NAMESPACE}})
    waiting.until("NodeMetrics are served", lambda: exists(api, NODE_METRICS), within_seconds=60)
    for name, strategy in POOLS.items():
        text = "{broken" if strategy is None else json.dumps(strategy)
        metadata = {"name": name, "labels": {"pool": name} if name != "none" else {}}
        amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        status = dict.fromkeys(("capacity", "allocatable"), amounts)
        annotations = {} if strategy == {} else {STRATEGY: text}
        api.send("POST", NODES, {"metadata": {**metadata, "annotations": annotations}, "status": status})
    data = {"colocation-config": BASE}
    api.send("POST", CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "data": data})


def _write(api: Connection, text: str | None) -> None:
    data = {} if text is None else {"colocation-config": text}
    body = {"metadata": {"name": CONFIG_MAP, "namespace": SUITE_NAMESPACE}, "data": data}
    api.send("PUT", f"{CONFIG_MAPS}/{CONFIG_MAP}", body)


def _policies(api: Connection) -> Policies:
    metrics = api.send("GET", NODE_METRICS)["items"]
    return {metric["metadata"]["name"]: (metric.get("spec") or {}).get("metricCollectPolicy") for metric in metrics}


def _interval(api: Connection) -> int | None:
    return (_policies(api).get("none") or {}).get("reportIntervalSeconds")


@contextlib.contextmanager
def _managers() -> Iterator[tuple[Connection, Connection]]:
    """Start both managers, each with an API server of its own."""
    with contextlib.ExitStack() as stack:
        connections = []
        for start in (koord_manager.start, koord_manager.start_this):
            plane = stack.enter_context(standalone_control_plane.running())
            api = stack.enter_context(contextlib.closing(plane.connect()))
            _prepare(api)
            start(plane)
            connections.append(api)
        yield connections[0], connections[1]


def test_node_metrics_are_those_of_koord_manager_but_for_what_the_page_states() -> None:
    different: dict[str, tuple[Policies, Policies]] = {}
    with _managers() as apis:
        for name, text in DOCUMENTS.items():
            for api in apis:
                _write(api, BASE)
            for api in apis:
                waiting.until(f"before {name}: the base", lambda api=api: _interval(api) == 77, within_seconds=60)
            for api in apis:
                _write(api, text)
            time.sleep(SETTLE_SECONDS)
            theirs, suite = (_policies(api) for api in apis)
            if theirs != suite:
                different[name] = (theirs, suite)
    assert set(different) == set(DIFFERENT), json.dumps(different, indent=1)
    rows = {row for row in DIFFERENT.values() if f"| {row} |" not in PAGE}
    assert rows == set()
