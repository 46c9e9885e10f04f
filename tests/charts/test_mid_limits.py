"""The policy with the limits of Mid pods; e2e/cases/admission runs it on an API server."""

import json

import pytest
import yaml

from api_types.mid_pods import policy
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
