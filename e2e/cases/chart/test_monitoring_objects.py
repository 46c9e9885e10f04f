"""The API server with the Prometheus operator's own definitions takes every object of `monitoring` and its policies.

It runs beside the cluster, so that the definitions are in no other case's way.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import chart_rendering, waiting
from e2e.support.names import SUITE_NAMESPACE
from e2e.thirdparty.prometheus import operator_crds
from koordctl.export import command as export
from tools.localcluster import apiserver_requests
from tools.localcluster.apiserver_requests import Connection, RequestError
from tools.localcluster.standalone_control_plane import ControlPlane

PATHS = {
    "ConfigMap": f"/api/v1/namespaces/{SUITE_NAMESPACE}/configmaps",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{SUITE_NAMESPACE}/networkpolicies",
    "PodMonitor": f"/apis/monitoring.coreos.com/v1/namespaces/{SUITE_NAMESPACE}/podmonitors",
    "PrometheusRule": f"/apis/monitoring.coreos.com/v1/namespaces/{SUITE_NAMESPACE}/prometheusrules",
}
PEERS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
VALUES = {
    "monitoring": {
        "podMonitors": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Koord"}},
    },
    "networkPolicies": {"create": True, "metricsFrom": PEERS, "loadWatcherFrom": PEERS},
    "admission": {"mode": "webhook"},
    "loadWatcher": {"enabled": True},
}
PARTS = ["koord-admission", "koord-load-watcher", "koord-manager", "koord-scheduler", "koordlet"]


@pytest.fixture(scope="module")
def api(shared_plane: ControlPlane) -> Iterator[Connection]:
    with contextlib.closing(shared_plane.connect()) as connection:
        for kind in ("podmonitors", "prometheusrules"):
            connection.send(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", operator_crds.definition(kind)
            )
        for kind in ("PodMonitor", "PrometheusRule"):
            waiting.until(f"{kind} is served", lambda kind=kind: apiserver_requests.exists(connection, PATHS[kind]))
        yield connection


@pytest.fixture(scope="module")
def objects(shared_plane: ControlPlane) -> list[dict[str, Any]]:
    templates = ("monitoring/pod-monitors", "monitoring/rules", "monitoring/dashboards", "network-policies")
    return chart_rendering.rendered(shared_plane.binaries, VALUES, *templates)


def _try(api: Connection, document: dict[str, Any]) -> None:
    api.send("POST", f"{PATHS[document['kind']]}?dryRun=All&fieldValidation=Strict", document)


def test_the_apiserver_takes_every_object(api: Connection, objects: list[dict[str, Any]]) -> None:
    names = {kind: sorted(each["metadata"]["name"] for each in objects if each["kind"] == kind) for kind in PATHS}
    assert names == {
        "ConfigMap": sorted(f"{file.removesuffix('.json')}-dashboard" for file in export.dashboards()),
        "NetworkPolicy": PARTS,
        "PodMonitor": PARTS,
        "PrometheusRule": ["koord-suite"],
    }
    for each in objects:
        _try(api, each)


def test_an_unknown_field_is_refused(api: Connection, objects: list[dict[str, Any]]) -> None:
    """So that the case above shows something."""
    for kind, place in (("PodMonitor", ("podMetricsEndpoints", 0)), ("PrometheusRule", ("groups", 0, "rules", 0))):
        wrong = copy.deepcopy(next(each for each in objects if each["kind"] == kind))
        where: Any = wrong["spec"]
        for step in place:
            where = where[step]
        where["honourLabels"] = True
        with pytest.raises(RequestError, match="honourLabels"):
            _try(api, wrong)
