"""NetworkPolicies as rendered."""

import pytest

from tests.charts import chart

ON = ("networkPolicies.create=true", "loadWatcher.enabled=true")
MONITORING = "networkPolicies.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring"
PEER = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}


def test_there_are_none_by_default():
    assert not chart.render().of_kind("NetworkPolicy")


def test_each_workload_has_one_that_selects_its_pods():
    rendered = chart.render(*ON)
    policies = rendered.of_kind("NetworkPolicy")
    assert set(policies) == set(rendered.workloads())
    for kind in ("DaemonSet", "Deployment"):
        for name, workload in rendered.of_kind(kind).items():
            assert policies[name]["spec"]["podSelector"] == workload["spec"]["selector"]


def test_without_peers_nothing_is_admitted():
    """An empty `from` would admit everybody."""
    for policy in chart.render(*ON).of_kind("NetworkPolicy").values():
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        assert policy["spec"]["ingress"] == []


@pytest.mark.parametrize(
    ("part", "ports"), [("koordlet", {9999}), ("koord-manager", {9317}), ("koord-scheduler", {10259, 10262})]
)
def test_the_peers_reach_every_port_of_a_container(part, ports):
    rendered = chart.render(*ON, MONITORING, "koordlet.httpPort=9999")
    (rule,) = rendered.of_kind("NetworkPolicy")[part]["spec"]["ingress"]
    assert rule["from"] == [PEER]
    of_containers = {
        port["containerPort"]
        for name, container in rendered.containers().items()
        if name.startswith(f"{part}/")
        for port in container.get("ports", [])
    }
    assert {port["port"] for port in rule["ports"]} == ports == of_containers


def test_callers_of_the_extender_service_need_no_entry():
    on = ("extenderService.enabled=true", "extenderService.port=10333")
    certificates = ("extenderService.serverCertificateSecret=a", "extenderService.callersAuthoritySecret=b")
    rendered = chart.render(*ON, MONITORING, *on, *certificates)
    metrics, service = rendered.of_kind("NetworkPolicy")["koord-extender"]["spec"]["ingress"]
    assert (metrics["from"], [port["port"] for port in metrics["ports"]]) == ([PEER], [10262])
    assert [port["port"] for port in service["ports"]] == [10333]
    assert "from" not in service


def test_the_load_watcher_has_peers_of_its_own():
    rendered = chart.render(*ON, MONITORING, "networkPolicies.loadWatcherFrom[0].podSelector.matchLabels.app=reader")
    (rule,) = rendered.of_kind("NetworkPolicy")["koord-load-watcher"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "reader"}}}]
