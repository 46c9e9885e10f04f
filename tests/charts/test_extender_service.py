"""The extender as a Service over TLS, for a kube-scheduler that is not this chart's."""

import json
import re

import pytest
import yaml

from scheduler_plugin.cli import check_config
from scheduler_plugin.settings import ENV_PREFIX, SchedulerPluginSettings
from tests.charts import chart

EXTENDER = "koord-extender"
ON = (
    "extenderService.enabled=true",
    "extenderService.serverCertificateSecret=extender-tls",
    "extenderService.callersAuthoritySecret=scheduler-ca",
)
PAGE = (chart.ROOT / "docs" / "other-schedulers.md").read_text(encoding="utf-8")


def container(rendered):
    return rendered.containers()[f"{EXTENDER}/scheduler-plugin"]


def understood(rendered):
    return chart.understood(container(rendered), SchedulerPluginSettings, ENV_PREFIX)


def test_it_is_not_there_unless_asked_for():
    assert EXTENDER not in chart.render().workloads()


def test_it_listens_over_tls_where_the_service_leads():
    rendered = chart.render(*ON, "extenderService.port=9443")
    chosen = understood(rendered)
    service = rendered.of_kind("Service")[EXTENDER]["spec"]
    (port,) = service["ports"]
    labels = rendered.of_kind("Deployment")[EXTENDER]["spec"]["template"]["metadata"]["labels"]
    assert chosen.extender_port == port["port"] == 9443
    assert {"name": port["targetPort"], "containerPort": 9443} in container(rendered)["ports"]
    assert chosen.extender_address == "0.0.0.0"
    assert service["selector"].items() <= labels.items()


def test_it_finds_its_certificate_and_the_authority_of_its_callers_in_the_secrets():
    rendered = chart.render(*ON)
    chosen = understood(rendered)
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
def test_it_decides_by_the_same_policies_and_may_read_what_it_needs(beside):
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


def test_what_the_page_tells_to_write_is_what_the_chart_serves():
    documents = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (scheduler,) = [each for each in documents if each.get("kind") == "KubeSchedulerConfiguration"]
    (values,) = [each["extenderService"] for each in documents if "extenderService" in each]
    rendered = chart.render(
        *(f"extenderService.{key}={json.dumps(value).strip(chr(34))}" for key, value in values.items())
    )
    (port,) = rendered.of_kind("Service")[EXTENDER]["spec"]["ports"]
    (extender,) = scheduler["extenders"]
    assert extender["urlPrefix"] == f"https://{EXTENDER}.{chart.NAMESPACE}.svc:{port['port']}"
    finding = check_config.check_document(scheduler)
    assert (finding.problems, finding.advice) == ([], [])
