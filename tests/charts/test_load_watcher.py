"""Load watcher as installed by the chart."""

import pytest
import yaml

from scheduler_plugin.load_watcher.settings import LoadWatcherSettings, provider_specs
from tests.charts import chart

pytestmark = pytest.mark.slow

ON = "loadWatcher.enabled=true"
WATCHER = "koord-load-watcher"


def container(rendered):
    return rendered.containers()[f"{WATCHER}/load-watcher"]


def watcher_settings(rendered):
    return chart.parsed_settings(container(rendered), LoadWatcherSettings, "KOORD_LOAD_WATCHER")


def test_it_is_not_installed_by_default():
    assert not [item for item in chart.render().objects if "load-watcher" in item["metadata"]["name"]]


def test_it_parses_its_arguments_and_listens_on_the_port_of_the_service():
    rendered = chart.render(ON, "loadWatcher.port=2021", "loadWatcher.intervalSeconds=30")
    chosen = watcher_settings(rendered)
    service = rendered.of_kind("Service")[WATCHER]["spec"]
    (port,) = service["ports"]
    pod = rendered.of_kind("Deployment")[WATCHER]["spec"]["template"]
    assert chosen.http_port == port["port"] == 2021
    assert container(rendered)["ports"] == [{"name": port["targetPort"], "containerPort": 2021}]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert chosen.interval_seconds == 30


def test_it_accepts_its_providers_and_finds_the_token_of_the_secret(tmp_path):
    rendered = chart.render(
        ON,
        "loadWatcher.providers[0].type=Prometheus",
        "loadWatcher.providers[0].tokenFile=/etc/load-watcher-secrets/token",
        "loadWatcher.tokenSecret.name=prometheus",
    )
    chosen = watcher_settings(rendered)
    folder, _, file = chosen.providers_file.rpartition("/")
    (tmp_path / file).write_text(rendered.of_kind("ConfigMap")[WATCHER]["data"][file])
    (spec,) = provider_specs(chosen.model_copy(update={"providers_file": str(tmp_path / file)}))
    mounts = {mount["mountPath"]: mount["name"] for mount in container(rendered)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in rendered.workloads()[WATCHER]["volumes"]}
    assert folder in mounts
    assert volumes[mounts[spec.token_file.rpartition("/")[0]]] == {
        "name": "secrets",
        "secret": {"secretName": "prometheus"},
    }


def test_without_providers_it_uses_the_environment_variables_of_upstream():
    rendered = chart.render(ON, "loadWatcher.providers=null", "loadWatcher.extraEnv[0].name=METRICS_PROVIDER_NAME")
    assert watcher_settings(rendered).providers_file == ""
    assert WATCHER not in rendered.of_kind("ConfigMap")


@pytest.mark.parametrize(
    ("setting", "volume"),
    [
        ("claimName=windows", {"persistentVolumeClaim": {"claimName": "windows"}}),
        ("hostPath=/srv/windows", {"hostPath": {"path": "/srv/windows", "type": "Directory"}}),
    ],
)
def test_its_windows_survive_a_restart_with_a_database(setting, volume):
    rendered = chart.render(ON, f"loadWatcher.database.{setting}")
    folder, _, _ = watcher_settings(rendered).database_file.rpartition("/")
    (name,) = [mount["name"] for mount in container(rendered)["volumeMounts"] if mount["mountPath"] == folder]
    assert {"name": name, **volume} in rendered.workloads()[WATCHER]["volumes"]
    # two replicas must not share one file
    assert rendered.of_kind("Deployment")[WATCHER]["spec"]["strategy"] == {"type": "Recreate"}


def test_replicas_are_spread_and_may_be_evicted_one_at_a_time():
    rendered = chart.render(ON, "loadWatcher.replicas=2")
    assert rendered.of_kind("Deployment")[WATCHER]["spec"]["replicas"] == 2
    labels = rendered.of_kind("Deployment")[WATCHER]["spec"]["template"]["metadata"]["labels"]
    affinity = rendered.workloads()[WATCHER]["affinity"]["podAntiAffinity"]
    (spread,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    budget = rendered.of_kind("PodDisruptionBudget")[WATCHER]["spec"]
    assert budget["maxUnavailable"] == 1
    for selector in (spread["podAffinityTerm"]["labelSelector"], budget["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    alone = chart.render(ON)
    assert WATCHER not in alone.of_kind("PodDisruptionBudget")


def test_each_replica_has_a_volume_of_its_own():
    values = ("loadWatcher.replicas=2", "loadWatcher.database.volumeSize=1Gi", "loadWatcher.database.hours=2")
    rendered = chart.render(ON, *values, "loadWatcher.database.storageClassName=fast")
    assert WATCHER not in rendered.of_kind("Deployment")
    spec = rendered.of_kind("StatefulSet")[WATCHER]["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")  # for Argo CD
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    folder, _, _ = watcher_settings(rendered).database_file.rpartition("/")
    mounts = {mount["mountPath"]: mount["name"] for mount in container(rendered)["volumeMounts"]}
    assert mounts[folder] == claim["metadata"]["name"]
    assert "persistentVolumeClaimRetentionPolicy" not in spec
    page = (chart.ROOT / "docs" / "how-to" / "uninstall.md").read_text(encoding="utf-8")
    assert f"`{claim['metadata']['name']}-{WATCHER}-0`" in page.partition("## What stays")[2]
    assert spec["serviceName"] in rendered.of_kind("Service")
    assert watcher_settings(rendered).database_hours == 2


@pytest.mark.parametrize("setting", ["claimName=windows", "hostPath=/srv/windows"])
def test_replicas_cannot_share_a_database(setting):
    flags = [
        word for value in (ON, "loadWatcher.replicas=2", f"loadWatcher.database.{setting}") for word in ("--set", value)
    ]
    result = chart.run_helm("template", "koord-suite", str(chart.FOLDER), *flags)
    assert result.returncode != 0
    assert "database.volumeSize" in result.stderr


def test_labels_and_analysers_are_passed_on():
    chosen = watcher_settings(
        chart.render(ON, "loadWatcher.tagLabels={zone,team}", "loadWatcher.analysers={seasonal-forecast}")
    )
    assert chosen.tag_labels == "zone,team"
    assert chosen.analysers == "seasonal-forecast"


def test_it_reads_three_kinds_and_writes_nothing():
    role = chart.render(ON).of_kind("ClusterRole")["koord-suite-load-watcher"]
    assert {
        (group, resource) for rule in role["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
    } == {
        ("", "nodes"),
        ("slo.koordinator.sh", "nodemetrics"),
        ("metrics.k8s.io", "nodes"),
    }
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_a_change_of_its_providers_restarts_it():
    def checksum(*values):
        template = chart.render(ON, *values).of_kind("Deployment")[WATCHER]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() != checksum("loadWatcher.providers[0].type=KubernetesMetricsServer")


def test_it_has_probes_a_memory_limit_and_the_usual_security_context():
    rendered = chart.render(ON)
    one = container(rendered)
    assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert one["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert set(one["resources"]["limits"]) == {"memory"}
    assert rendered.workloads()[WATCHER]["securityContext"] == rendered.workloads()["koord-manager"]["securityContext"]
    assert one["securityContext"] == rendered.containers()["koord-manager/manager"]["securityContext"]


def test_all_its_objects_name_the_namespace():
    rendered = chart.render(ON)
    for kind in ("Deployment", "Service", "ServiceAccount", "ConfigMap"):
        assert rendered.of_kind(kind)[WATCHER]["metadata"]["namespace"] == chart.NAMESPACE


def test_the_providers_are_yaml_in_the_order_of_preference():
    rendered = chart.render(ON, "loadWatcher.providers[0].type=NodeMetric", "loadWatcher.providers[1].type=Prometheus")
    text = rendered.of_kind("ConfigMap")[WATCHER]["data"]["providers.yaml"]
    assert [each["type"] for each in yaml.safe_load(text)] == ["NodeMetric", "Prometheus"]
