"""NetworkPolicies as rendered."""

import json
import re

import pytest
import yaml

from scheduler_plugin.config import checking
from scheduler_plugin.settings import ENV_PREFIX, SchedulerPluginSettings
from tests.charts import chart

pytestmark = pytest.mark.slow

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


EXTENDER = "koord-extender"


SERVED = (
    "extenderService.enabled=true",
    "extenderService.serverCertificateSecret=extender-tls",
    "extenderService.callersAuthoritySecret=scheduler-ca",
)


PAGE = (chart.ROOT / "docs" / "how-to" / "other-schedulers.md").read_text(encoding="utf-8")


def container(rendered):
    return rendered.containers()[f"{EXTENDER}/scheduler-plugin"]


def extender_settings(rendered):
    return chart.parsed_settings(container(rendered), SchedulerPluginSettings, ENV_PREFIX)


def test_it_is_not_installed_by_default():
    assert EXTENDER not in chart.render().workloads()


def test_it_listens_over_tls_on_the_port_of_the_service():
    rendered = chart.render(*SERVED, "extenderService.port=9443")
    chosen = extender_settings(rendered)
    service = rendered.of_kind("Service")[EXTENDER]["spec"]
    (port,) = service["ports"]
    labels = rendered.of_kind("Deployment")[EXTENDER]["spec"]["template"]["metadata"]["labels"]
    assert chosen.extender_port == port["port"] == 9443
    assert {"name": port["targetPort"], "containerPort": 9443} in container(rendered)["ports"]
    assert chosen.extender_address == "::"
    assert service["selector"].items() <= labels.items()


@pytest.mark.parametrize("sidecar", ["true", "false"])
def test_every_mount_has_a_volume_also_without_the_sidecar(sidecar):
    provided = ("scheduler.plugin.tokenSecret.name=tokens", "scheduler.plugin.keepMeasurements=true")
    rendered = chart.render(*SERVED, *provided, f"scheduler.plugin.enabled={sidecar}")
    for workload, pod in rendered.workloads().items():
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        mounts = {
            mount["name"]
            for container in [*pod.get("initContainers", []), *pod["containers"]]
            for mount in container.get("volumeMounts", [])
        }
        assert mounts <= volumes, workload
        if workload in (EXTENDER, "koord-scheduler"):
            assert volumes <= mounts, workload


def test_it_reads_its_certificate_and_the_client_authority_from_the_secrets():
    rendered = chart.render(*SERVED)
    chosen = extender_settings(rendered)
    mounts = {mount["name"]: mount["mountPath"] for mount in container(rendered)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in rendered.workloads()[EXTENDER]["volumes"]}
    held = {
        f"{mounts['tls']}/{item['path']}": (source["secret"]["name"], item["key"])
        for source in volumes["tls"]["projected"]["sources"]
        for item in source["secret"]["items"]
    }
    assert held[chosen.extender_tls_cert_file] == ("extender-tls", "tls.crt")
    assert held[chosen.extender_tls_key_file] == ("extender-tls", "tls.key")
    assert held[chosen.extender_tls_client_ca_file] == ("scheduler-ca", "ca.crt")


@pytest.mark.parametrize("beside", [(), ("scheduler.mode=none",)])
def test_it_uses_the_same_plugins_and_has_the_permissions_it_needs(beside):
    rendered = chart.render(*SERVED, *beside, "scheduler.plugin.pluginArgs.LoadAwareScheduling.usageThresholds.cpu=50")
    policies = yaml.safe_load(rendered.of_kind("ConfigMap")[EXTENDER]["data"]["scheduler-plugin.yaml"])
    assert policies["pluginConfig"][0]["args"]["usageThresholds"]["cpu"] == 50
    binding = rendered.of_kind("ClusterRoleBinding")["koord-suite-extender"]
    assert binding["roleRef"]["name"] in rendered.of_kind("ClusterRole")
    account = rendered.workloads()[EXTENDER]["serviceAccountName"]
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    assert account in rendered.of_kind("ServiceAccount")


def test_on_openshift_no_user_is_fixed():
    pod = chart.render(*SERVED, "openshift.enabled=true").workloads()[EXTENDER]
    assert "runAsUser" not in pod["securityContext"]


def test_the_documented_configuration_matches_the_service_of_the_chart():
    documents = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (scheduler,) = [each for each in documents if each.get("kind") == "KubeSchedulerConfiguration"]
    (values,) = [each["extenderService"] for each in documents if "extenderService" in each]
    rendered = chart.render(
        *(f"extenderService.{key}={json.dumps(value).strip(chr(34))}" for key, value in values.items())
    )
    (port,) = rendered.of_kind("Service")[EXTENDER]["spec"]["ports"]
    (extender,) = scheduler["extenders"]
    assert extender["urlPrefix"] == f"https://{EXTENDER}.{chart.NAMESPACE}.svc:{port['port']}"
    finding = checking.check_document(scheduler)
    assert (finding.problems, finding.advice) == ([], [])
