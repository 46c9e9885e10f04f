"""The policy with the limits of Mid pods; e2e/cases/admission runs it on an API server."""

import json

import pytest
import yaml

from api_types.mid_pods import policy
from manager.cli.admission.settings import ENV_PREFIX, AdmissionSettings
from manager.cli.admission.webhook import HANDLER
from tests.charts import chart

KIND = "MutatingAdmissionPolicy"
V1, V1BETA1 = (f"admissionregistration.k8s.io/{version}/{KIND}" for version in ("v1", "v1beta1"))


def rendered(*values, served=()):
    words = [word for value in values for word in ("--set", value)]
    words += [word for each in served for word in ("--api-versions", each)]
    result = chart.run_helm("template", "koord-suite", str(chart.FOLDER), "--namespace", chart.NAMESPACE, *words)
    assert result.returncode == 0, result.stderr
    return chart.Rendered(tuple(item for item in yaml.safe_load_all(result.stdout) if item))


@pytest.mark.parametrize(
    ("values", "served", "version"),
    [
        ([], [], None),
        ([], [V1], "v1"),
        ([], [V1BETA1], None),
        (["admission.policyVersion=v1beta1"], [V1BETA1], "v1beta1"),
        (["admission.mode=none"], [V1], None),
        (["admission.mode=policy"], [], "v1"),
        (["admission.mode=policy", "admission.policyVersion=v1beta1"], [V1], "v1beta1"),
    ],
)
def test_the_policy_is_rendered_where_it_is_served_or_demanded(values, served, version):
    found = rendered(*values, served=served)
    objects = [*found.of_kind(KIND).values(), *found.of_kind(f"{KIND}Binding").values()]
    expected = policy.limits_of_mid_pods("koord-suite-mid-limits", "koord-scheduler", version) if version else []
    assert [each["apiVersion"] for each in objects] == [each["apiVersion"] for each in expected]
    assert [each["spec"] for each in objects] == [each["spec"] for each in expected]


@pytest.mark.parametrize(
    ("values", "scheduler"),
    [
        ([], "koord-scheduler"),
        (["scheduler.name=mine"], "mine"),
        (["scheduler.enabled=false"], "default-scheduler"),
        (["admission.schedulerName=volcano"], "volcano"),
        (["admission.schedulerName=default-scheduler"], "default-scheduler"),
    ],
)
def test_mid_pods_get_the_scheduler_of_the_release_or_of_the_value(values, scheduler):
    (found,) = rendered("admission.mode=policy", *values).of_kind(KIND).values()
    assert json.dumps(scheduler) in found["spec"]["mutations"][0]["jsonPatch"]["expression"]


def test_a_name_of_a_scheduler_cannot_be_an_expression():
    result = chart.run_helm("template", str(chart.FOLDER), "--set", 'admission.schedulerName=a"')
    assert result.returncode != 0
    assert "schedulerName" in result.stderr


def webhook(*values):
    return rendered("admission.mode=webhook", *values)


def test_the_webhook_is_called_for_mid_pods_alone_and_never_refuses_a_pod():
    found = webhook()
    assert found.of_kind(KIND) == {}
    (configuration,) = found.of_kind("MutatingWebhookConfiguration").values()
    (own,) = configuration["webhooks"]
    assert own["matchConditions"] == [dict(each) for each in policy.CONDITIONS]
    assert (own["failurePolicy"], own["sideEffects"], own["reinvocationPolicy"]) == ("Ignore", "None", "IfNeeded")
    assert own["timeoutSeconds"] <= 2
    assert "caBundle" not in own["clientConfig"]
    service = own["clientConfig"]["service"]
    assert service["path"] == f"/{HANDLER}"
    (ports,) = found.of_kind("Service")[service["name"]]["spec"]["ports"]
    assert ports["port"] == service["port"]


def test_the_programs_settings_are_those_of_the_chart():
    found = webhook("scheduler.name=mine")
    container = found.containers()["koord-admission/admission"]
    verb, *arguments = container["args"]
    assert verb == "serve-admission"
    parsed = chart.parsed_settings({**container, "args": ["run", *arguments]}, AdmissionSettings, ENV_PREFIX)
    assert parsed.scheduler_name == "mine"
    assert parsed.secret in found.of_kind("Secret")
    assert parsed.webhook_configuration in found.of_kind("MutatingWebhookConfiguration")
    assert parsed.service in found.of_kind("Service")
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"webhook": parsed.port, "http": parsed.http_port}
    (mount,) = container["volumeMounts"]
    assert mount["mountPath"] == parsed.certificate_folder


def test_the_webhook_may_write_its_certificate_and_the_bundle_and_nothing_else():
    found = webhook()
    (own,) = found.of_kind("Role")["koord-admission"]["rules"]
    assert (own["resources"], own["resourceNames"], own["verbs"]) == (
        ["secrets"],
        ["koord-admission-certificate"],
        ["get", "update"],
    )
    (of_cluster,) = found.of_kind("ClusterRole")["koord-suite-admission"]["rules"]
    assert of_cluster["resourceNames"] == ["koord-suite-mid-limits"]
    assert of_cluster["verbs"] == ["get", "update"]
    assert "data" not in found.of_kind("Secret")["koord-admission-certificate"]


def test_without_the_mode_nothing_of_the_webhook_is_created():
    names = {item["metadata"]["name"] for item in rendered().objects}
    assert not {name for name in names if "koord-admission" in name or name == "koord-suite-admission"}


def test_one_replica_has_no_disruption_budget():
    assert "koord-admission" in webhook().of_kind("PodDisruptionBudget")
    assert "koord-admission" not in webhook("admission.webhook.replicas=1").of_kind("PodDisruptionBudget")


def test_the_network_policy_lets_the_api_server_reach_the_webhook():
    spec = webhook("networkPolicies.create=true").of_kind("NetworkPolicy")["koord-admission"]["spec"]
    assert spec["ingress"] == [{"ports": [{"port": 9443, "protocol": "TCP"}]}]
