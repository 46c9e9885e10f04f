"""Extender as a Service over TLS, for a kube-scheduler that the chart does not install."""

import json
import re

import pytest
import yaml

from scheduler_plugin.config import checking
from scheduler_plugin.settings import ENV_PREFIX, SchedulerPluginSettings
from tests.charts import chart

EXTENDER = "koord-extender"
ON = (
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
    rendered = chart.render(*ON, "extenderService.port=9443")
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
    rendered = chart.render(*ON, *provided, f"scheduler.plugin.enabled={sidecar}")
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
    rendered = chart.render(*ON)
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


@pytest.mark.parametrize("beside", [(), ("scheduler.enabled=false",)])
def test_it_uses_the_same_plugins_and_has_the_permissions_it_needs(beside):
    rendered = chart.render(*ON, *beside, "scheduler.plugin.pluginArgs.LoadAwareScheduling.usageThresholds.cpu=50")
    policies = yaml.safe_load(rendered.of_kind("ConfigMap")[EXTENDER]["data"]["scheduler-plugin.yaml"])
    assert policies["pluginConfig"][0]["args"]["usageThresholds"]["cpu"] == 50
    binding = rendered.of_kind("ClusterRoleBinding")["koord-suite-extender"]
    assert binding["roleRef"]["name"] in rendered.of_kind("ClusterRole")
    account = rendered.workloads()[EXTENDER]["serviceAccountName"]
    assert [subject["name"] for subject in binding["subjects"]] == [account]
    assert account in rendered.of_kind("ServiceAccount")


def test_on_openshift_no_user_is_fixed():
    pod = chart.render(*ON, "openshift.enabled=true").workloads()[EXTENDER]
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
