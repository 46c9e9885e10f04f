"""Trimaran's plugins as installed by the chart: their metrics providers, and packing."""

import pytest
import yaml

from scheduler_plugin.config import checking
from scheduler_plugin.settings import SchedulerPluginSettings
from tests.charts import chart

pytestmark = pytest.mark.slow

WITH_EXTENDER_SERVICE = (
    "extenderService.enabled=true",
    "extenderService.serverCertificateSecret=extender-tls",
    "extenderService.callersAuthoritySecret=scheduler-ca",
)


def secret_files(rendered, workload):
    """Return the folder with the secrets of the metrics providers in the extender, and its Secret."""
    pod = rendered.workloads()[workload]
    container = rendered.containers()[f"{workload}/scheduler-plugin"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return mounts["provider-secrets"], volumes["provider-secrets"]["secret"]


@pytest.mark.parametrize("workload", ["koord-scheduler", "koord-extender"])
def test_the_extender_resolves_services_and_finds_the_secrets_of_its_providers(workload):
    rendered = chart.render("scheduler.plugin.tokenSecret.name=prometheus", *WITH_EXTENDER_SERVICE)
    assert rendered.workloads()[workload]["dnsPolicy"] == "ClusterFirst"
    assert secret_files(rendered, workload) == ("/etc/scheduler-plugin-secrets", {"secretName": "prometheus"})


@pytest.mark.parametrize("workload", ["koord-scheduler", "koord-extender"])
@pytest.mark.parametrize("other", [(), ("scheduler.plugin.tokenSecret.name=prometheus",)])
def test_the_extender_keeps_its_measurements_in_a_volume_of_its_pod_if_asked_to(workload, other):
    def kept(*values):
        rendered = chart.render(*values, *other, *WITH_EXTENDER_SERVICE)
        container = rendered.containers()[f"{workload}/scheduler-plugin"]
        chosen = chart.parsed_settings(container, SchedulerPluginSettings, "KOORD_SCHEDULER")
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        volumes = {volume.pop("name"): volume for volume in map(dict, rendered.workloads()[workload]["volumes"])}
        return chosen.measurement_file, mounts, volumes

    file, mounts, volumes = kept("scheduler.plugin.keepMeasurements=true")
    mount = mounts[file.rpartition("/")[0]]
    assert mount["name"] == "measurements"
    assert volumes[mount["name"]] == {"emptyDir": {}}
    assert not mount.get("readOnly")
    file, mounts, volumes = kept()
    assert file is None
    assert "measurements" not in volumes


@pytest.mark.parametrize(
    "value",
    [
        "metricProvider.token=secret",
        "metricProvider.applicationKey=secret",
        "metricProviders[0].token=secret",
        "metricProviderToken=secret",
    ],
)
def test_a_token_in_the_values_is_refused(value):
    values = f"scheduler.plugin.pluginArgs.TargetLoadPacking.{value}"
    ran = chart.run_helm("template", "koord-suite", str(chart.FOLDER), "--set", values)
    assert ran.returncode != 0
    assert f"TargetLoadPacking/{value.partition('=')[0].replace('.', '/').replace('[0]', '/0')}" in ran.stderr


PACKING = "scheduler.plugin.plugins.score.enabled[0].name=TargetLoadPacking"


@pytest.mark.parametrize(
    ("values", "spreads"),
    [
        ((), True),
        ((PACKING,), False),
        ((PACKING, "scheduler.spreadByRequests=true"), True),
        ((PACKING, "scheduler.plugin.enabled=false"), True),
        (("scheduler.spreadByRequests=false",), False),
    ],
)
def test_scores_by_requests_are_off_beside_target_load_packing(values, spreads):
    config = chart.render(*values).of_kind("ConfigMap")["koord-scheduler"]["data"]["kube-scheduler.yaml"]
    (profile,) = yaml.safe_load(config)["profiles"]
    off = [each["name"] for each in (profile["plugins"] or {}).get("score", {}).get("disabled", [])]
    assert off == ([] if spreads else ["NodeResourcesFit", "NodeResourcesBalancedAllocation"])


def test_check_config_has_no_advice_on_spreading_where_the_chart_turned_it_off():
    without_least_used = "scheduler.plugin.plugins.score.disabled[0].name=LoadAwareScheduling"
    config_map = chart.render(PACKING, without_least_used).of_kind("ConfigMap")["koord-scheduler"]
    for document in checking.check(yaml.safe_dump(config_map)):
        assert document.result.effective is not None
        assert document.result.advice == []


def test_the_plugins_run_in_a_sidecar_of_the_scheduler():
    rendered = chart.render(PACKING)
    sidecar = rendered.containers()["koord-scheduler/scheduler-plugin"]
    assert sidecar["restartPolicy"] == "Always"
    data = rendered.of_kind("ConfigMap")["koord-scheduler"]["data"]
    score = yaml.safe_load(data["scheduler-plugin.yaml"])["plugins"]["score"]
    assert "TargetLoadPacking" in [each["name"] for each in score["enabled"]]


def test_nothing_but_scores_is_turned_off_beside_target_load_packing():
    config = chart.render(PACKING).of_kind("ConfigMap")["koord-scheduler"]["data"]["kube-scheduler.yaml"]
    (profile,) = yaml.safe_load(config)["profiles"]
    assert {point for point, chosen in profile["plugins"].items() if chosen.get("disabled")} == {"score"}
