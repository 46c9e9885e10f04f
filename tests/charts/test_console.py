"""The console in the cluster reads, and its pages are on the loopback of its pod only."""

import pytest

from console.settings import ENV_PREFIX, ConsoleSettings
from tests.charts import chart

pytestmark = pytest.mark.slow

ON = "console.enabled=true"


def rendered_kinds(rendered):
    return {(each["kind"], each["metadata"]["name"]): each for each in rendered.objects}


def test_it_is_off_by_default():
    assert not [name for _, name in rendered_kinds(chart.render()) if "console" in name]


def test_nothing_leads_to_the_pages():
    found = rendered_kinds(chart.render(ON, "networkPolicies.create=true"))
    assert ("Service", "koord-console") not in found
    (container,) = found["Deployment", "koord-console"]["spec"]["template"]["spec"]["containers"]
    assert "--page-port=10270" in container["args"]
    assert [port["containerPort"] for port in container["ports"]] == [9319]
    policy = found["NetworkPolicy", "koord-console"]["spec"]
    assert policy.get("ingress") == []


def test_one_replica_that_is_replaced_has_the_history():
    deployment = rendered_kinds(chart.render(ON))["Deployment", "koord-console"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


def test_it_may_read_and_nothing_else():
    found = rendered_kinds(chart.render(ON))
    roles = [found["ClusterRole", "koord-suite-console"], found["Role", "koord-console"]]
    rules = [rule for role in roles for rule in role["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}
    configmaps = next(rule for rule in rules if rule["resources"] == ["configmaps"])
    assert configmaps["resourceNames"] == [
        "slo-controller-config",
        "koord-manager-last-good-config",
        "koord-scheduler",
        "koord-extender",
    ]


def test_its_flags_are_those_of_the_program():
    rendered = chart.render(ON, "console.prometheus=http://prometheus:9090", "console.pagePort=1234")
    chosen = chart.parsed_settings(rendered.containers()["koord-console/console"], ConsoleSettings, ENV_PREFIX)
    assert (chosen.page_port, chosen.http_port, chosen.prometheus) == (1234, 9319, "http://prometheus:9090")
