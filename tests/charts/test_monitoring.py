"""PodMonitors and the ConfigMaps of the dashboards, as rendered."""

from __future__ import annotations

from typing import Any

import pytest

from charts.generators import dashboards
from tests.charts.chart import FOLDER, Rendered, render, run_helm

pytestmark = pytest.mark.slow

MONITORS = "monitoring.podMonitors.enabled=true"
EVERY_PART = (
    "admission.mode=webhook", "extenderService.enabled=true", "extenderService.serverCertificateSecret=a",
    "extenderService.callersAuthoritySecret=b", "loadWatcher.enabled=true", "console.enabled=true",
)  # fmt: skip
DASHBOARDS = "monitoring.dashboards.enabled=true"


def test_nothing_is_created_by_default() -> None:
    rendered = render()
    assert rendered.of_kind("PodMonitor") == {}
    assert not any("dashboard" in name for name in rendered.of_kind("ConfigMap"))


def test_every_workload_has_a_monitor_that_finds_its_pods_and_port() -> None:
    rendered = render(MONITORS, *EVERY_PART)
    monitors = rendered.of_kind("PodMonitor")
    workloads = {**rendered.of_kind("DaemonSet"), **rendered.of_kind("Deployment"), **rendered.of_kind("StatefulSet")}
    assert set(monitors) == set(workloads)
    assert len(monitors) == 7
    for name, monitor in monitors.items():
        assert monitor["spec"]["selector"] == workloads[name]["spec"]["selector"]
        endpoints = [endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]]
        assert endpoints == (["http", "https"] if name == "koord-scheduler" else ["http"])
        ports = [port["name"] for port in _ports(rendered, name)]
        assert [ports.count(port) for port in endpoints] == [1] * len(endpoints)


def _ports(rendered: Rendered, workload: str) -> list[dict[str, Any]]:
    """Return the ports of all containers; Prometheus finds those of init containers, as sidecars are, too."""
    pod = rendered.workloads()[workload]
    return [port for each in (*pod["containers"], *pod.get("initContainers", ())) for port in each.get("ports", ())]


def test_metrics_about_other_pods_keep_their_labels_and_nodes_are_named() -> None:
    for monitor in render(MONITORS).of_kind("PodMonitor").values():
        endpoint, *_of_kube_scheduler = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["honorLabels"] is True
        (rule,) = endpoint["relabelings"]
        assert rule == {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node", "action": "replace"}
        assert "interval" not in endpoint


def test_labels_and_interval_are_values() -> None:
    values = (MONITORS, "monitoring.podMonitors.labels.release=prometheus", "monitoring.podMonitors.interval=30s")
    monitor = render(*values).of_kind("PodMonitor")["koordlet"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == "30s"


@pytest.mark.parametrize(
    ("switch", "name"),
    [
        ("koordlet.enabled=false", "koordlet"),
        ("manager.enabled=false", "koord-manager"),
        ("scheduler.mode=none", "koord-scheduler"),
        ("scheduler.plugin.enabled=false", "koord-scheduler"),
    ],
)
def test_a_part_that_is_off_has_no_monitor(switch: str, name: str) -> None:
    assert name not in render(MONITORS, switch).of_kind("PodMonitor")


def test_the_network_policies_let_prometheus_read_every_monitored_port() -> None:
    peers = (
        "networkPolicies.create=true",
        *(
            f"networkPolicies.{each}[0].podSelector.matchLabels.app=prometheus"
            for each in ("metricsFrom", "loadWatcherFrom")
        ),
    )
    rendered = render(MONITORS, *EVERY_PART, *peers)
    for name in rendered.of_kind("PodMonitor"):
        (number,) = (port["containerPort"] for port in _ports(rendered, name) if port["name"] == "http")
        rules = rendered.of_kind("NetworkPolicy")[name]["spec"]["ingress"]
        assert any(
            {"podSelector": {"matchLabels": {"app": "prometheus"}}} in rule.get("from", ())
            and number in [port["port"] for port in rule["ports"]]
            for rule in rules
        ), name


def test_each_dashboard_is_a_config_map_that_the_sidecar_selects() -> None:
    maps = render(DASHBOARDS, "monitoring.dashboards.annotations.grafana_folder=Koord").of_kind("ConfigMap")
    found = {name: each for name, each in maps.items() if name.endswith("-dashboard")}
    assert {file: text for each in found.values() for file, text in each["data"].items()} == dashboards.texts()
    assert len(found) == len(dashboards.DASHBOARDS)
    for each in found.values():
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "Koord"}


@pytest.mark.parametrize("wrong", ["podMonitors.interval=often", "podMonitor.enabled=true", "dashboards.labels.a=1"])
def test_a_wrong_value_is_refused(wrong: str) -> None:
    result = run_helm("template", "x", str(FOLDER), "--set", f"monitoring.{wrong}")
    assert result.returncode != 0
    assert "monitoring" in result.stderr
