"""A real Prometheus scrapes a running installation, and answers every query of every dashboard and every alert.

The parts are processes with a control plane of their own; the agent measures pods in cgroups of this machine. It takes
a minute: the first prediction follows the first training.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.generators.alerts_page import RULES
from e2e.soak import stage as soak_stage
from e2e.soak.stage import FAKE_NODES, NAMESPACE, NODE, Stage
from e2e.support import fake_fleet, slo_config, waiting, workloads
from e2e.support.names import MID_CPU, MID_MEMORY
from e2e.thirdparty.prometheus.server import Prometheus
from koordctl.export import command as export

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

JOBS = {"manager-1": "koord-manager-1", "manager-2": "koord-manager-2", "koordlet": "koordlet"}
JOBS["scheduler-plugin"] = "koord-scheduler"
KUBE_SCHEDULER = "kube-scheduler"
WITHIN_SECONDS = 240.0
WITHOUT_SERIES = {
    "koord-fleet.json: Forecasts that usage exceeded, by predictor": "the first forecast ends after an hour or more",
    "koord-fleet.json: Savings by predictor": "the first forecast ends after an hour or more",
    "koord-node.json: Forecasts that usage exceeded": "the first forecast ends after an hour or more",
}
"""Panels that a new installation leaves empty, each with the reason."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with soak_stage.stage() as on:
        slo_config.write(on.cluster_client, slo_config.changed(midSuppressThresholdPercent=65))
        _fill(on)
        yield on


@pytest.fixture(scope="module")
def prometheus(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    running = Prometheus(Path(tmp_path_factory.mktemp("prometheus")))
    ports = {job: stage.parts[part].port for part, job in JOBS.items()}
    ports[KUBE_SCHEDULER] = stage.plane.places.addresses.scheduler_port
    running.start(ports, "this-machine", node=NODE, over_tls=[KUBE_SCHEDULER])
    yield running
    running.stop()


def _fill(on: Stage) -> None:
    """Let a Prod pod and a Mid pod run on the measured node, and every other node report."""
    quota = {"koordinator.sh/mid-quota": json.dumps({"cpu": "20", "memory": "64Gi"})}
    on.cluster_client.patch("Namespace", NAMESPACE, {"metadata": {"annotations": quota}})
    mid = {MID_CPU: "500", MID_MEMORY: "256Mi"}
    prod = {"cpu": "2", "memory": "1Gi"}
    pods = {"prod": ("koord-prod", prod, {"cpu": "2"}), "mid": ("koord-mid", mid, {**mid, "cpu": "500m"})}
    groups = {}
    for name, (priority_class, requests, limits) in pods.items():
        body = workloads.pod(name, "none", requests=requests, limits=limits, priority_class=priority_class)
        body["spec"]["nodeName"] = NODE
        made = on.cluster_client.create("Pod", body, NAMESPACE)
        _run(on, name)
        groups[made["metadata"]["uid"]] = name == "mid"
    on.groups.follow(groups)
    for uid in groups:
        on.groups.limit_cpu(uid, 0.1)
    sound = fake_fleet.prod_status(cpu_millis=3000, memory_mib=8192, prod_cpu_millis=6000, prod_memory_mib=16384)
    for name in FAKE_NODES:
        fake_fleet.report(on.cluster_client, name, sound)


def _run(on: Stage, pod: str) -> None:
    """Take a pod, as its kubelet would."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"status": {"phase": "Running", "startTime": now}}
    on.cluster_client.core.patch_namespaced_pod_status(pod, NAMESPACE, status)


def _filled(expression: str) -> str:
    return expression.replace("$__rate_interval", "10s").replace("$job", ".*").replace("$node", NODE)


def _queries() -> Iterator[tuple[str, str]]:
    for name, text in export.dashboards().items():
        for panel in json.loads(text)["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", _filled(target["expr"])


def _has_numbers(series: list[dict[str, Any]]) -> bool:
    return any(not math.isnan(float(each["value"][1])) for each in series)


def test_prometheus_answers_every_panel(stage: Stage, prometheus: Prometheus) -> None:
    made = 0

    def unanswered() -> list[tuple[str, str]]:
        nonlocal made
        made += 1  # so that kube-scheduler calls the extender all the time
        pod = workloads.pod(f"p{made}", "none", requests={"cpu": "10m"}, scheduler=workloads.SCHEDULER)
        stage.cluster_client.create("Pod", pod, NAMESPACE)
        return [
            (title, query)
            for title, query in _queries()
            if title not in WITHOUT_SERIES and not _has_numbers(prometheus.query(query))
        ]

    waiting.until(
        "every panel has series",
        unanswered,
        lambda left: not left,
        within_seconds=WITHIN_SECONDS,
        every_seconds=2.0,
    )


def test_the_panels_without_series_are_the_ones_that_are_named(prometheus: Prometheus) -> None:
    empty = {title for title, query in _queries() if not _has_numbers(prometheus.query(query))}
    assert empty >= set(WITHOUT_SERIES), "no longer empty: delete the entry"


def test_prometheus_evaluates_every_alert(prometheus: Prometheus) -> None:
    """A query that parses can still fail where both sides have several series of one label set."""
    for rule in RULES:
        prometheus.query(rule["expr"])


def test_a_target_is_named_by_its_node_and_a_metric_about_a_node_by_that_node(prometheus: Prometheus) -> None:
    (agent,) = prometheus.query("koordlet_build_info")
    assert agent["metric"]["node"] == NODE
    nodes = {each["metric"]["node"] for each in prometheus.query("koord_manager_node_mid_cpu_cores")}
    assert nodes == {NODE, *FAKE_NODES}


def test_mid_of_a_namespace_is_what_its_pods_request_and_use(prometheus: Prometheus) -> None:
    found = {
        name: [each["value"][1] for each in prometheus.query(f'koordlet_namespace_mid_{name}{{namespace="default"}}')]
        for name in ("requested_cpu_cores", "requested_memory_bytes", "used_cpu_cores", "suppressed_cpu_cores")
    }
    assert found["requested_cpu_cores"] == ["0.5"]
    assert found["requested_memory_bytes"] == [str(256 * 2**20)]
    assert float(found["used_cpu_cores"][0]) > 0
    assert len(found["suppressed_cpu_cores"]) == 1
