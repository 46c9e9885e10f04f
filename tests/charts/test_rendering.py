"""Rendered chart: agreement with the programs, and the effect of each value."""

import json

import pytest
import yaml

from api_types import names
from api_types.node_metric import crd_manifest
from e2e.soak.stage import ENVIRONMENTS
from koordlet.settings import KoordletSettings
from manager.settings import ManagerSettings
from scheduler_plugin.config import checking, loader
from scheduler_plugin.settings import SchedulerPluginSettings
from tests.charts import chart
from tools.localcluster import go_binaries

pytestmark = pytest.mark.slow


def test_helm_lint_finds_nothing():
    result = chart.run_helm("lint", "--strict", str(chart.FOLDER))
    assert result.returncode == 0, result.stdout
    assert "WARNING" not in result.stdout


def test_a_misspelt_value_is_named():
    result = chart.run_helm("template", str(chart.FOLDER), "--set", "koordlet.imagge.tag=1")
    assert result.returncode != 0
    assert "imagge" in result.stderr


def test_the_names_agree_with_those_in_the_programs():
    rendered = chart.render()
    config = rendered.of_kind("ConfigMap")[names.SLO_CONTROLLER_CONFIG]
    assert json.loads(config["data"][names.COLOCATION_CONFIG_KEY]) == chart.VALUES["colocationConfig"]
    assert list(rendered.of_kind("CustomResourceDefinition")) == [f"{names.NODE_METRIC_PLURAL}.{names.GROUP}"]
    assert chart.VALUES["scheduler"]["name"] == "koord-scheduler"


def test_priority_classes_carry_the_lowest_value_of_their_band():
    classes = chart.render().of_kind("PriorityClass")
    assert {name: item["value"] for name, item in classes.items()} == {
        "koord-prod": 9000,
        "koord-mid": 7000,
        "koord-batch": 5000,
        "koord-free": 3000,
    }


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("crds.install=false", "CustomResourceDefinition"),
        ("priorityClasses.create=false", "PriorityClass"),
        ("koordlet.enabled=false", "DaemonSet"),
        ("admissionPolicies.create=false", "ValidatingAdmissionPolicy"),
        ("admissionPolicies.create=false", "ValidatingAdmissionPolicyBinding"),
    ],
)
def test_an_object_that_is_switched_off_is_not_created(setting, kind):
    assert chart.render().of_kind(kind)
    assert not chart.render(setting).of_kind(kind)


@pytest.mark.parametrize(
    ("kind", "value"), [("CustomResourceDefinition", "crds.keep"), ("PriorityClass", "priorityClasses.keep")]
)
def test_helm_never_deletes_what_others_depend_on_unless_a_value_says_so(kind, value):
    def policies(rendered):
        found = rendered.of_kind(kind).values()
        return [item["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for item in found]

    assert set(policies(chart.render())) == {"keep"}
    assert set(policies(chart.render(f"{value}=false"))) == {None}


def test_the_crd_is_the_generated_one():
    (rendered,) = chart.render("crds.keep=false").of_kind("CustomResourceDefinition").values()
    (kept,) = chart.render().of_kind("CustomResourceDefinition").values()
    labels = rendered["metadata"].pop("labels")
    assert rendered == crd_manifest.manifest()
    assert labels["app.kubernetes.io/part-of"] == "koord-suite"
    assert kept["metadata"]["labels"] == labels
    assert {**kept, "metadata": {"name": rendered["metadata"]["name"]}} == rendered


@pytest.mark.parametrize("value", ["koordlet.enabled=false", "manager.enabled=false", "scheduler.mode=none"])
def test_a_component_that_is_switched_off_has_no_objects(value):
    part, left = value.partition(".")[0], chart.render(value).objects
    assert not [
        item for item in left if part in item["metadata"]["name"] and item["kind"] != "CustomResourceDefinition"
    ]


def test_every_object_of_a_namespace_names_it():
    cluster_wide = {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "PriorityClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    elsewhere = {item["metadata"]["namespace"] for item in chart.render().objects if item["kind"] not in cluster_wide}
    assert elsewhere == {chart.NAMESPACE, "kube-system", "default"}


def test_every_container_has_requests_and_only_a_memory_limit():
    for container in chart.render().containers().values():
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert set(container["resources"]["limits"]) == {"memory"}


def test_every_long_running_container_has_probes():
    containers = chart.render().containers()
    del containers["koordlet/state-folder"]
    assert "koordlet/koordlet" in containers
    for name, container in containers.items():
        assert {"livenessProbe", "readinessProbe"} <= set(container), name
        ports = {port["name"] for port in container["ports"]}
        assert container["livenessProbe"]["httpGet"]["port"] in ports


def test_the_agent_parses_its_arguments_and_finds_its_folders():
    container = chart.render("koordlet.httpPort=9999", "logFormat=json").containers()["koordlet/koordlet"]
    chosen = chart.parsed_settings(container, KoordletSettings, "KOORDLET")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert not chosen.required_for_run()
    seen = {f"{chosen.host_root}/{folder}" for folder in ("proc", "sys/fs/cgroup", "sys/devices/system")}
    assert seen | {chosen.state_dir} == mounts
    assert chosen.http_port == container["ports"][0]["containerPort"] == 9999
    assert chosen.log_format == "json"


INFLUXDB = [
    f"koordlet.influxdb.{value}"
    for value in ("enabled=true", "url=https://influx:8086", "org=o", "bucket=b", "queuePoints=77", "tokenSecret.key=t")
]


def test_the_agent_finds_the_token_and_the_authorities_of_influxdb():
    rendered = chart.render(*INFLUXDB, "koordlet.influxdb.caConfigMap.name=ca")
    chosen = chart.parsed_settings(rendered.containers()["koordlet/koordlet"], KoordletSettings, "KOORDLET")
    (volume,) = (each for each in rendered.workloads()["koordlet"]["volumes"] if each["name"] == "influxdb")
    secret, config_map = (next(iter(source.values())) for source in volume["projected"]["sources"])
    (mount,) = (m for m in rendered.containers()["koordlet/koordlet"]["volumeMounts"] if m["name"] == "influxdb")
    assert not chosen.required_for_run()
    assert (chosen.influxdb_url, chosen.influxdb_queue_points) == ("https://influx:8086", 77)
    assert secret["items"] == [{"key": "t", "path": chosen.influxdb_token_file.removeprefix(f"{mount['mountPath']}/")}]
    assert config_map["items"][0]["path"] == chosen.influxdb_ca_file.removeprefix(f"{mount['mountPath']}/")
    assert mount["readOnly"]


def test_text_with_yaml_syntax_reaches_the_agent_unchanged():
    odd = ("koordlet.influxdb.org=R: D #1", "koordlet.influxdb.url=https://i:", "koordlet.stateHostPath=/srv/a\\, b")
    rendered = chart.render(*INFLUXDB, *odd)
    chosen = chart.parsed_settings(rendered.containers()["koordlet/koordlet"], KoordletSettings, "KOORDLET")
    (state,) = (each for each in rendered.workloads()["koordlet"]["volumes"] if each["name"] == "state")
    assert (chosen.influxdb_org, chosen.influxdb_url) == ("R: D #1", "https://i:")
    assert state["hostPath"]["path"] == "/srv/a, b"


def test_names_of_digits_stay_strings():
    names_of_digits = ("--set-string", "scheduler.name=123", "--set-string", "scheduler.priorityClassName=456")
    result = chart.run_helm("template", "789", str(chart.FOLDER), *names_of_digits)
    objects = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(result.stdout) if item}
    config = yaml.safe_load(objects["ConfigMap", "koord-scheduler"]["data"]["kube-scheduler.yaml"])
    deployment = objects["Deployment", "koord-scheduler"]["spec"]
    assert config["profiles"][0]["schedulerName"] == "123"
    assert deployment["template"]["spec"]["priorityClassName"] == "456"
    assert deployment["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "789"


def test_the_agent_starts_without_the_influxdb_secret():
    (volume,) = (
        each for each in chart.render(*INFLUXDB).workloads()["koordlet"]["volumes"] if each["name"] == "influxdb"
    )
    assert [source["secret"]["optional"] for source in volume["projected"]["sources"]] == [True]


def test_the_manager_parses_its_arguments_and_may_write_the_objects_they_name():
    rendered = chart.render("logLevel=debug")
    container = rendered.containers()["koord-manager/manager"]
    chosen = chart.parsed_settings(container, ManagerSettings, "MANAGER")
    allowed = {
        name for rule in rendered.of_kind("Role")["koord-manager"]["rules"] for name in rule.get("resourceNames", [])
    }
    assert chosen.namespace == "from-the-pod"
    assert chosen.http_port == container["ports"][0]["containerPort"]
    assert chosen.log_level == "debug"
    assert chosen.config_map in rendered.of_kind("ConfigMap")
    assert allowed == {chosen.lease, chosen.last_good_config_map, chosen.config_map}


def test_the_extender_parses_its_arguments_and_listens_on_the_address_kube_scheduler_calls():
    rendered = chart.render(EXTENDER)
    container = rendered.containers()["koord-scheduler/scheduler-plugin"]
    chosen = chart.parsed_settings(container, SchedulerPluginSettings, "KOORD_SCHEDULER")
    (extender,) = scheduler_config(EXTENDER)["extenders"]
    (mount,) = container["volumeMounts"]
    folder, _, file = chosen.config.rpartition("/")
    assert folder == mount["mountPath"]
    assert file in rendered.of_kind("ConfigMap")["koord-scheduler"]["data"]
    assert extender["urlPrefix"] == f"http://{chosen.extender_address}:{chosen.extender_port}"
    assert chosen.http_port == container["ports"][0]["containerPort"]


def test_kube_scheduler_asks_the_plugin_over_a_socket_that_only_both_containers_reach():
    rendered = chart.render("scheduler.plugin.weight=3")
    config = scheduler_config("scheduler.plugin.weight=3")
    (profile,) = config["profiles"]
    assert profile["plugins"] == {"multiPoint": {"enabled": [{"name": "KoordSuite", "weight": 3}]}}
    ((name, args),) = [(each["name"], each["args"]) for each in profile["pluginConfig"]]
    containers = rendered.containers()
    sidecar = containers["koord-scheduler/scheduler-plugin"]
    chosen = chart.parsed_settings(sidecar, SchedulerPluginSettings, "KOORD_SCHEDULER")
    assert (name, args) == ("KoordSuite", {"socket": chosen.plugin_socket, "deadlineMilliseconds": 50})
    assert "extenders" not in config
    folder = args["socket"].rpartition("/")[0]
    for container in (sidecar, containers["koord-scheduler/kube-scheduler"]):
        (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == folder]
        assert not mount.get("readOnly")
        assert "runAsUser" not in container["securityContext"]
    volumes = {each["name"]: each for each in rendered.workloads()["koord-scheduler"]["volumes"]}
    assert "emptyDir" in volumes[mount["name"]]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("scheduler.enabled=true", ("scheduler.enabled", "scheduler.mode to plugin (or to extender")),
        ("scheduler.enabled=false", ("scheduler.enabled", "scheduler.mode to none")),
        ("scheduler.queue.maxBackoffSeconds=3", ("scheduler.queue", "remove it")),
        ("scheduler.mode=null", ("scheduler.mode", "want plugin, extender or none")),
        ("scheduler.image.repository=mirror.example/kube-scheduler", ("has no plugin", "scheduler.mode to extender")),
    ],
)
def test_values_of_an_earlier_release_are_refused_with_the_new_ones(value, texts):
    result = chart.run_helm("template", str(chart.FOLDER), "--set", value)
    assert result.returncode != 0
    assert [text for text in texts if text not in result.stderr] == []


def test_the_extender_accepts_its_plugin_configuration():
    text = chart.render().of_kind("ConfigMap")["koord-scheduler"]["data"]["scheduler-plugin.yaml"]
    args = loader.parse(yaml.safe_load(text)).args["LoadAwareScheduling"]
    assert args.usage_thresholds == {"cpu": 65, "memory": 95}


def test_the_weight_of_a_plugin_is_a_value():
    rendered = chart.render(
        "scheduler.plugin.plugins.score.enabled[0].name=LoadAwareScheduling",
        "scheduler.plugin.plugins.score.enabled[0].weight=3",
    )
    text = rendered.of_kind("ConfigMap")["koord-scheduler"]["data"]["scheduler-plugin.yaml"]
    assert loader.parse(yaml.safe_load(text)).score_weights == {"LoadAwareScheduling": 3}


@pytest.mark.parametrize("mode", ["plugin", "extender"])
def test_check_config_reports_nothing_for_the_rendered_config_map(mode):
    config_map = chart.render(f"scheduler.mode={mode}").of_kind("ConfigMap")["koord-scheduler"]
    documents = checking.documents(yaml.safe_dump(config_map))
    findings = [checking.check_document(content) for _where, content in documents]
    assert [(finding.problems, finding.advice) for finding in findings] == [([], []), ([], [])]


def test_the_agent_runs_on_tainted_nodes():
    pod = chart.render().workloads()["koordlet"]
    assert pod["tolerations"] == [{"operator": "Exists"}]


EXTENDER = "scheduler.mode=extender"


def scheduler_config(*set_values):
    return yaml.safe_load(
        chart.render(*set_values).of_kind("ConfigMap")["koord-scheduler"]["data"]["kube-scheduler.yaml"]
    )


@pytest.mark.parametrize(
    ("plugins", "filters"),
    [
        ({}, True),
        ({"filter.disabled[0].name": "MidGuard"}, True),
        ({"filter.disabled[0].name": "*"}, False),
        ({"filter.disabled[0].name": "*", "filter.enabled[0].name": "MidGuard"}, True),
        ({"filter.disabled[0].name": "*", "multiPoint.enabled[0].name": "LoadAwareScheduling"}, True),
    ],
)
def test_kube_scheduler_calls_filter_where_a_plugin_can_reject(plugins, filters):
    values = [f"scheduler.plugin.plugins.{key}={value}" for key, value in plugins.items()]
    maps = chart.render(EXTENDER, *values).of_kind("ConfigMap")["koord-scheduler"]["data"]
    (extender,) = yaml.safe_load(maps["kube-scheduler.yaml"])["extenders"]
    verbs = {value for key, value in extender.items() if key.endswith("Verb")}
    assert verbs == {"prioritize", *(("filter", "preempt") if filters else ())}
    assert bool(loader.parse(yaml.safe_load(maps["scheduler-plugin.yaml"])).filters) is filters


def test_the_extender_counts_as_a_plugin_of_its_weight():
    config = scheduler_config(EXTENDER, "scheduler.plugin.weight=3")
    (profile,) = config["profiles"]
    (extender,) = config["extenders"]
    weights = {plugin["name"]: plugin["weight"] for plugin in profile["plugins"]["multiPoint"]["enabled"]}
    # the default weights of kube-scheduler times ten, because kube-scheduler multiplies an extender's score by ten
    assert weights == {
        "TaintToleration": 30,
        "NodeAffinity": 20,
        "NodeResourcesFit": 10,
        "PodTopologySpread": 20,
        "InterPodAffinity": 20,
        "NodeResourcesBalancedAllocation": 10,
        "ImageLocality": 10,
    }
    assert extender["weight"] == 3


def test_an_unreachable_or_slow_extender_does_not_block_scheduling():
    (extender,) = scheduler_config(EXTENDER)["extenders"]
    assert extender["ignorable"] is True
    assert extender["httpTimeout"] == "300ms"
    assert extender["nodeCacheCapable"] is True
    assert "managedResources" not in extender


def test_the_scheduler_uses_a_lease_of_this_namespace():
    election = scheduler_config()["leaderElection"]
    assert (election["resourceNamespace"], election["resourceName"]) == (chart.NAMESPACE, "koord-scheduler")


def test_the_extender_is_a_sidecar_that_starts_before_kube_scheduler():
    pod = chart.render().workloads()["koord-scheduler"]
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert "startupProbe" in sidecar


@pytest.mark.parametrize("mode", ["plugin", "extender"])
def test_without_the_plugin_no_object_refers_to_it(mode):
    off = ("scheduler.plugin.enabled=false", f"scheduler.mode={mode}")
    pod, config = chart.render(*off).workloads()["koord-scheduler"], scheduler_config(*off)
    assert "initContainers" not in pod
    assert "KoordSuite" not in str(config)
    assert "extenders" not in config
    assert [volume["name"] for volume in pod["volumes"]] == ["config"]


def test_plugin_arguments_reach_the_extender_as_a_plugin_config():
    rendered = chart.render("scheduler.plugin.pluginArgs.LoadAwareScheduling.usageThresholds.cpu=50")
    config = yaml.safe_load(rendered.of_kind("ConfigMap")["koord-scheduler"]["data"]["scheduler-plugin.yaml"])
    assert config["pluginConfig"] == [
        {"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 50, "memory": 95}}}
    ]


def test_a_changed_scheduler_configuration_restarts_the_pods():
    def checksum(*set_values):
        deployment = chart.render(*set_values).of_kind("Deployment")["koord-scheduler"]
        return deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum() != checksum("scheduler.plugin.weight=2")
    assert checksum() == checksum("koordlet.image.tag=other")


def test_kube_scheduler_has_the_version_of_the_cluster_without_its_vendor_suffix():
    words = ("template", str(chart.FOLDER), "--kube-version", "v1.35.7-gke.100", "--set", EXTENDER)
    result = chart.run_helm(*words)
    assert 'image: "registry.k8s.io/kube-scheduler:v1.35.7"' in result.stdout


BUILDS = sorted(go_binaries.plugin_builds())


@pytest.mark.parametrize("minor", range(34, 41))
def test_the_newest_build_with_the_plugin_that_is_not_newer_than_the_cluster_runs(minor):
    result = chart.run_helm("template", str(chart.FOLDER), "--kube-version", f"v1.{minor}.3-gke.100")
    version = yaml.safe_load((chart.FOLDER / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    build = max(each for each in BUILDS if each <= minor)
    assert f'image: "{chart.REGISTRY}/koord-scheduler:{version}-1.{build}"' in result.stdout


def test_an_unsupported_kubernetes_version_is_rejected():
    result = chart.run_helm("template", str(chart.FOLDER), "--kube-version", "v1.33.9")
    assert result.returncode != 0
    assert "1.34.0" in result.stderr


def test_prometheus_annotations_name_the_port_of_each_part():
    rendered = chart.render("prometheusAnnotations=true", "koordlet.podAnnotations.team=a")
    ports = {
        name: item["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]
        for kind in ("DaemonSet", "Deployment")
        for name, item in rendered.of_kind(kind).items()
    }
    assert ports == {"koordlet": "9316", "koord-manager": "9317", "koord-scheduler": "10262"}
    assert rendered.of_kind("DaemonSet")["koordlet"]["spec"]["template"]["metadata"]["annotations"]["team"] == "a"


def test_a_pod_without_a_port_of_metrics_has_no_prometheus_annotations():
    rendered = chart.render("prometheusAnnotations=true", "scheduler.plugin.enabled=false")
    template = rendered.of_kind("Deployment")["koord-scheduler"]["spec"]["template"]
    assert list(template["metadata"]["annotations"]) == ["checksum/config"]


def test_the_soak_runs_every_program_with_the_environment_of_its_container():
    containers = chart.render().containers()
    for name, program in {
        "koordlet/koordlet": "koordlet",
        "koord-manager/manager": "manager",
        "koord-scheduler/scheduler-plugin": "scheduler_plugin",
    }.items():
        fixed = {each["name"]: each["value"] for each in containers[name]["env"] if "value" in each}
        assert fixed == ENVIRONMENTS[program]


EVERYTHING = (
    "admission.mode=webhook",
    "admission.nativeLimits=false",
    "admission.webhook.replicas=2",
    "console.enabled=true",
    "extenderService.enabled=true",
    "extenderService.serverCertificateSecret=extender-tls",
    "extenderService.callersAuthoritySecret=scheduler-ca",
    "koordlet.suppression.enabled=false",
    "loadWatcher.enabled=true",
    "loadWatcher.replicas=2",
    "monitoring.dashboards.enabled=true",
    "monitoring.podMonitors.enabled=true",
    "monitoring.rules.enabled=true",
    "networkPolicies.create=true",
    "viewer.create=true",
)


def namespaces(item):
    """Yield each value of a key `namespace` of an object."""
    if isinstance(item, dict):
        yield from (value for key, value in item.items() if key == "namespace" and not isinstance(value, dict))
        item = list(item.values())
    if isinstance(item, list):
        for each in item:
            yield from namespaces(each)


@pytest.mark.parametrize("namespace", ["2024", "1e3", "on", "null"])
def test_a_namespace_is_text(namespace):
    rendered = chart.render_in(namespace, *EVERYTHING)
    usual = {"default", "kube-system"}
    assert set(namespaces(list(rendered.objects))) == {namespace, *usual}
    config = rendered.of_kind("ConfigMap")["koord-scheduler"]["data"]["kube-scheduler.yaml"]
    assert yaml.safe_load(config)["leaderElection"]["resourceNamespace"] == namespace


def test_the_namespaces_that_values_name_are_text():
    words = ["--set-json", 'manager.eviction.namespaces=["2024", "1e3"]']
    on = [word for value in EVERYTHING for word in ("--set", value)]
    result = chart.run_helm("template", str(chart.FOLDER), "--namespace", "default", *on, *words)
    assert result.returncode == 0, result.stderr
    objects = [item for item in yaml.safe_load_all(result.stdout) if item]
    assert set(namespaces(objects)) == {"default", "kube-system", "2024", "1e3"}


def test_objects_that_only_a_cluster_gets_have_a_namespace_in_quotes():
    files = (chart.FOLDER / "templates").rglob("*.*")
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if "amespace: {{" in line and "| quote }}" not in line] == []


class Strict(yaml.SafeLoader):
    """Loader that refuses a mapping with a key twice, which helm and the API server read in their own ways."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise AssertionError(f"twice, from line {node.start_mark.line}: {twice}")
        return super().construct_mapping(node, deep)


def test_no_key_occurs_twice_and_the_label_of_one_kind_decides():
    keys = ["release", "app\\.kubernetes\\.io/name", "pod-security\\.kubernetes\\.io/enforce"]
    kinds = [f"monitoring.{kind}.labels" for kind in ("dashboards", "podMonitors", "rules")]
    common = [f"commonLabels.{key}=common" for key in [*keys, "rbac\\.authorization\\.k8s\\.io/aggregate-to-view"]]
    settings = [*EVERYTHING, *common, *(f"{kind}.{key}=own" for kind in kinds for key in keys)]
    on = [word for value in settings for word in ("--set", value)]
    result = chart.run_helm("template", str(chart.FOLDER), "--namespace", chart.NAMESPACE, *on)
    assert result.returncode == 0, result.stderr
    objects = [item for item in yaml.load_all(result.stdout, Strict) if item]
    monitoring = [item for item in objects if item["kind"] in ("PodMonitor", "PrometheusRule")]
    assert {item["metadata"]["labels"]["release"] for item in monitoring} == {"own"}
    assert not {item["metadata"]["labels"]["app.kubernetes.io/name"] for item in objects} & {"own", "common"}
