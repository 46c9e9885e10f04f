"""Settings that every workload of the chart has: labels, images, service accounts, placement, network and volumes."""

import json
import re
import shutil

import pytest
import yaml

from api_types import names
from manager.settings import ManagerSettings
from tests.charts import chart
from tools.localcluster import go_binaries

pytestmark = pytest.mark.slow

ALL = (
    "loadWatcher.enabled=true",
    "extenderService.enabled=true",
    "extenderService.serverCertificateSecret=a",
    "extenderService.callersAuthoritySecret=b",
)


PARTS = {
    "koordlet": "koordlet",
    "koord-manager": "manager",
    "koord-scheduler": "scheduler",
    "koord-extender": "extenderService",
    "koord-load-watcher": "loadWatcher",
}


"""Workload -> its values."""


REPLICATED = {name: part for name, part in PARTS.items() if name != "koordlet"}


WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")


def render(*values):
    return chart.render(*ALL, *values)


def of_every_part(setting, parts=PARTS):
    return render(*(f"{part}.{setting}" for part in parts.values()))


def workload(rendered, name):
    (found,) = (rendered.of_kind(kind)[name] for kind in WORKLOADS if name in rendered.of_kind(kind))
    return found


def refusal(*values):
    result = chart.run_helm(
        "template", "x", str(chart.FOLDER), *(word for value in values for word in ("--set", value))
    )
    assert result.returncode != 0
    return result.stderr


def test_common_labels_are_on_every_object_and_pod_and_in_no_selector():
    rendered = render("commonLabels.team=a", "admission.mode=webhook", "networkPolicies.create=true")
    for item in rendered.objects:
        assert item["metadata"]["labels"]["team"] == "a", (item["kind"], item["metadata"]["name"])
    for kind in WORKLOADS:
        for item in rendered.of_kind(kind).values():
            assert item["spec"]["template"]["metadata"]["labels"]["team"] == "a"
            assert "team" not in item["spec"]["selector"]["matchLabels"]


def test_labels_of_the_values_never_replace_those_that_selectors_use():
    own = "app\\.kubernetes\\.io"
    places = ["commonLabels", *(f"{part}.podLabels" for part in PARTS.values())]
    rendered = render(*(f"{place}.{own}/{key}=other" for place in places for key in ("name", "instance", "part-of")),
                      *(f"{part}.podLabels.example\\.com/a={part}" for part in PARTS.values()))  # fmt: skip
    for name, part in PARTS.items():
        item = workload(rendered, name)
        labels = item["spec"]["template"]["metadata"]["labels"]
        assert item["spec"]["selector"]["matchLabels"] == {
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/instance": "koord-suite",
        }
        assert item["spec"]["selector"]["matchLabels"].items() <= labels.items(), name
        assert labels["app.kubernetes.io/part-of"] == "koord-suite"
        assert labels["example.com/a"] == part


def test_the_name_override_changes_one_label_and_neither_names_nor_selectors():
    def without_part_of(rendered):
        return yaml.safe_dump_all(rendered.objects).replace("part-of: acme", "part-of: koord-suite")

    acme = chart.render("nameOverride=acme", "scheduler.mode=none")
    assert {
        item["metadata"]["labels"]["app.kubernetes.io/part-of"] for item in acme.objects if "labels" in item["metadata"]
    } == {"acme"}
    assert without_part_of(acme) == without_part_of(chart.render("scheduler.mode=none"))


def test_an_image_without_repository_and_registry_is_refused_with_what_to_set():
    message = refusal("global.imageRegistry=")
    assert "image.repository is not set" in message
    assert "global.imageRegistry" in message


@pytest.mark.parametrize(
    ("repository", "image"),
    [
        ("", "registry.example/koord-suite/manager"),
        ("team/manager", "registry.example/koord-suite/team/manager"),
        ("other.example/manager", "other.example/manager"),
        ("localhost/manager", "localhost/manager"),
        ("host:5000/manager", "host:5000/manager"),
    ],
)
def test_the_registry_precedes_a_repository_that_names_none(repository, image):
    container = chart.render(f"manager.image.repository={repository}").containers()["koord-manager/manager"]
    assert container["image"].rpartition(":")[0] == image


def test_kube_scheduler_comes_from_its_own_registry_or_from_a_mirror():
    def image(*values):
        rendered = chart.render("scheduler.mode=extender", *values)
        return rendered.containers()["koord-scheduler/kube-scheduler"]["image"]

    assert image().startswith("registry.k8s.io/kube-scheduler:v")
    assert image("scheduler.image.repository=kube-scheduler").startswith(f"{chart.REGISTRY}/kube-scheduler:v")


DIGEST = f"sha256:{'0a' * 32}"


def test_a_digest_decides_which_image_runs():
    paths = ("koordlet.image", "manager.image", "scheduler.image", "scheduler.plugin.image", "loadWatcher.image")

    def images(*settings):
        values = [f"{path}.{setting}" for path in paths for setting in (f"digest={DIGEST}", *settings)]
        return {container["image"] for container in render(*values).containers().values()}

    assert images("repository=r.example/i") == {f"r.example/i@{DIGEST}"}
    assert images("repository=r.example/i", "tag=v1.34.1") == {f"r.example/i:v1.34.1@{DIGEST}"}


def test_an_image_of_the_release_has_its_digest_and_an_image_of_others_none():
    builds = [f"koord-scheduler-1.{minor}" for minor in go_binaries.plugin_builds()]
    names = ("koordlet", "manager", "scheduler-plugin", "console", *builds)
    digests = {name: f"sha256:{number:064x}" for number, name in enumerate(names)}
    values = [f"global.imageDigests.{name.replace('.', chr(92) + '.')}={digest}" for name, digest in digests.items()]

    def images(*more):
        containers = chart.render(*values, "console.enabled=true", "loadWatcher.enabled=true", *more).containers()
        return {name: container["image"].rpartition("/")[2] for name, container in containers.items()}

    for image in images().values():
        name, _, tag = image.partition("@")[0].partition(":")
        build = re.search(r"-1\.\d+$", tag)
        assert image.endswith(f"@{digests[name + build[0] if build else name]}")
    assert images("koordlet.image.repository=own", "koordlet.image.tag=mine")["koordlet/koordlet"] == "own:mine"
    assert "@" not in images("koordlet.image.repository=own")["koordlet/koordlet"]
    mirrored = images("koordlet.image.repository=mirror.example/koordlet")["koordlet/koordlet"]
    assert mirrored.endswith(f"@{digests['koordlet']}")
    assert not any("@" in image for image in images("global.imageDigests=null").values())


def users(rendered):
    """Return the user names in the conditions of admission policies."""
    return yaml.safe_dump_all(rendered.of_kind("ValidatingAdmissionPolicy").values())


def test_pods_bindings_and_policies_name_the_chosen_service_accounts():
    parts = {**PARTS, "koord-admission": "admission.webhook"}
    values = [f"{part}.serviceAccount.name=own-{name}" for name, part in parts.items()]
    rendered = render(
        "admission.mode=webhook", *values, *(f"{part}.serviceAccount.create=false" for part in parts.values())
    )
    bindings = [*rendered.of_kind("RoleBinding").values(), *rendered.of_kind("ClusterRoleBinding").values()]
    subjects = {subject["name"] for item in bindings for subject in item["subjects"]}
    assert not {name for name in rendered.of_kind("ServiceAccount") if not name.startswith("koord-suite-")}
    assert {name for name in subjects if not name.startswith("koord-suite-")} == {f"own-{name}" for name in parts}
    for name in parts:
        assert rendered.workloads()[name]["serviceAccountName"] == f"own-{name}"
        assert f"system:serviceaccount:{chart.NAMESPACE}:{name}" not in users(rendered)
    for name in ("koordlet", "koord-manager"):
        assert f"system:serviceaccount:{chart.NAMESPACE}:own-{name}" in users(rendered)


def test_a_created_service_account_has_its_name_and_annotations():
    role = "arn:aws:iam::1:role/a"
    own = f"manager.serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn={role}"
    account = chart.render("manager.serviceAccount.name=own", own).of_kind("ServiceAccount")["own"]
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": role}
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["manager.serviceAccount.create=false"], "serviceAccount.create of koord-manager is false"),
        (["manager.serviceAccount.name=koordlet"], "each part needs a ServiceAccount of its own"),
        (["manager.serviceAccount.name=a", "koordlet.serviceAccount.name=a"], "each part needs a ServiceAccount"),
    ],
)
def test_service_accounts_that_rbac_cannot_tell_apart_are_refused(values, words):
    assert words in refusal(*values)


def test_every_workload_has_volumes_mounts_dns_and_security_context_of_its_values():
    values = []
    for part in PARTS.values():
        values += [f"{part}.extraVolumes[0].name=ca", f"{part}.extraVolumes[0].configMap.name=ca"]
        values += [f"{part}.extraVolumeMounts[0].name=ca", f"{part}.extraVolumeMounts[0].mountPath=/ca"]
        values += [f"{part}.dnsConfig.options[0].name=ndots", f"{part}.podSecurityContext.fsGroup=2000"]
        values += [f"{part}.hostNetwork=true", f"{part}.revisionHistoryLimit=3"]
    rendered = render(*values)
    for name in PARTS:
        pod = rendered.workloads()[name]
        assert {"name": "ca", "configMap": {"name": "ca"}} in pod["volumes"], name
        assert {"name": "ca", "mountPath": "/ca"} in pod["containers"][0]["volumeMounts"], name
        assert pod["dnsConfig"] == {"options": [{"name": "ndots"}]}
        assert pod["dnsPolicy"] == ("Default" if name in ("koordlet", "koord-manager") else "ClusterFirstWithHostNet")
        assert pod["hostNetwork"] is True
        assert pod["securityContext"]["fsGroup"] == 2000
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert workload(rendered, name)["spec"]["revisionHistoryLimit"] == 3


def test_the_security_context_of_the_values_wins_also_with_false():
    context = chart.render("manager.podSecurityContext.runAsNonRoot=false", "manager.podSecurityContext.runAsUser=7")
    assert context.workloads()["koord-manager"]["securityContext"] == {
        "runAsNonRoot": False,
        "runAsUser": 7,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_state_folder_belongs_to_the_user_of_the_agent_also_if_the_values_choose_it():
    pod = chart.render("koordlet.podSecurityContext.runAsUser=7").workloads()["koordlet"]
    assert pod["securityContext"]["runAsUser"] == 7
    assert pod["initContainers"][0]["command"][-1] == "7"


def test_a_spread_constraint_counts_the_pods_of_its_workload_unless_it_says_which():
    zone = "topologySpreadConstraints[0]"
    values = [
        f"{part}.{zone}.{setting}"
        for part in REPLICATED.values()
        for setting in ("maxSkew=1", "topologyKey=topology.kubernetes.io/zone", "whenUnsatisfiable=ScheduleAnyway")
    ]
    rendered = render(*values)
    for name in REPLICATED:
        (constraint,) = rendered.workloads()[name]["topologySpreadConstraints"]
        assert constraint["labelSelector"] == workload(rendered, name)["spec"]["selector"], name
    own = render(*values, f"manager.{zone}.labelSelector.matchLabels.a=b").workloads()["koord-manager"]
    assert own["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": {"a": "b"}}


def test_every_deployment_has_the_strategy_of_its_values():
    rendered = of_every_part("strategy.type=Recreate", REPLICATED)
    for name in REPLICATED:
        assert workload(rendered, name)["spec"]["strategy"] == {"type": "Recreate"}
    agent = chart.render("koordlet.updateStrategy.type=OnDelete").of_kind("DaemonSet")["koordlet"]
    assert agent["spec"]["updateStrategy"] == {"type": "OnDelete"}
    set_of_its_own = render("loadWatcher.database.volumeSize=1Gi", "loadWatcher.strategy.type=OnDelete")
    assert workload(set_of_its_own, "koord-load-watcher")["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_the_port_of_the_manager_is_that_of_its_flag_probes_annotation_and_policy():
    rendered = chart.render("manager.httpPort=9999", "prometheusAnnotations=true", "networkPolicies.create=true",
                            "networkPolicies.metricsFrom[0].podSelector.matchLabels.a=b")  # fmt: skip
    container = rendered.containers()["koord-manager/manager"]
    pod = rendered.of_kind("Deployment")["koord-manager"]["spec"]["template"]
    (rule,) = rendered.of_kind("NetworkPolicy")["koord-manager"]["spec"]["ingress"]
    assert "--http-port=9999" in container["args"]
    assert container["ports"] == [{"name": "http", "containerPort": 9999}]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == "9999"
    assert rule["ports"] == [{"port": 9999, "protocol": "TCP"}]


def test_the_replicas_of_the_extender_service_are_evicted_one_at_a_time():
    budget = render().of_kind("PodDisruptionBudget")["koord-extender"]["spec"]
    assert budget["selector"] == workload(render(), "koord-extender")["spec"]["selector"]
    assert budget["maxUnavailable"] == 1
    assert "koord-extender" not in render("extenderService.replicas=1").of_kind("PodDisruptionBudget")


def test_the_chosen_name_of_the_config_map_is_that_of_flags_rbac_and_policies():
    rendered = chart.render("sloControllerConfig.name=own-config", "admission.mode=none")
    assert "--config-map=own-config" in rendered.containers()["koord-manager/manager"]["args"]
    assert "--config-map=own-config" in rendered.hook_pods()["koord-suite-uninstall"]["containers"][0]["args"]
    assert "own-config" in rendered.of_kind("ConfigMap")
    texts = [yaml.safe_dump(item) for item in rendered.objects if item["kind"] in ("Role", "ValidatingAdmissionPolicy")]
    assert sum("own-config" in text for text in texts) == 7
    assert not any("slo-controller-config" in text for text in texts)


def test_a_name_that_rbac_and_policies_know_cannot_be_changed_by_an_argument():
    refused = chart.SCHEMA["properties"]["manager"]["properties"]["extraArgs"]["items"]["not"]["pattern"]
    assert "extraArgs" in refusal("manager.extraArgs={--lease=a}")
    for flag in ("config-map", "last-good-config-map", "lease", "namespace", "http-port"):
        assert flag.replace("-", "_") in ManagerSettings.model_fields
        assert re.search(refused, f"--{flag}=a")
        assert re.search(refused, f"--{flag}")


NODES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "pool", "operator": "In", "values": ["system"]}]}]}}  # fmt: skip


MANAGER = {"matchLabels": {"app.kubernetes.io/name": "koord-manager"}}


APART = {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": MANAGER}]}  # fmt: skip


ONLY_IN_A_CLUSTER = {
    "manager/restore-limits-hook.yaml": 'if include "koord-suite.endsSuppression" .',
    "tests/installation.yaml": 'if lookup "v1" "Namespace" "" "kube-system"',
}


"""Conditions that no rendering without a cluster meets, by template."""


@pytest.fixture
def complete(tmp_path):
    """Return a folder with the chart, with the objects that only a cluster gets."""
    folder = shutil.copytree(chart.FOLDER, tmp_path / "chart")
    for name, condition in ONLY_IN_A_CLUSTER.items():
        template = folder / "templates" / name
        text = template.read_text(encoding="utf-8")
        assert text.count(condition) == 1
        template.write_text(text.replace(condition, "if true"), encoding="utf-8")
    return folder


def affinities(folder, affinity):
    """Return the affinity of each pod with the manager's image, by its workload."""
    values = ["--set", "admission.mode=webhook", "--set-json", f"manager.affinity={json.dumps(affinity)}"]
    result = chart.run_helm("template", "koord-suite", str(folder), "--namespace", chart.NAMESPACE, *values)
    assert result.returncode == 0, result.stderr
    rendered = chart.Rendered(tuple(item for item in yaml.safe_load_all(result.stdout) if item))
    pods = {**rendered.workloads(), **rendered.hook_pods()}
    return {name: pod.get("affinity") for name, pod in pods.items() if "/manager:" in pod["containers"][0]["image"]}


def test_the_webhook_the_hooks_and_the_test_run_on_the_nodes_of_the_manager(complete):
    found = affinities(complete, {"nodeAffinity": NODES, "podAntiAffinity": APART})
    assert found.pop("koord-manager") == {"nodeAffinity": NODES, "podAntiAffinity": APART}
    webhook = found.pop("koord-admission")
    assert webhook["nodeAffinity"] == NODES
    assert list(webhook["podAntiAffinity"]) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    hooks = ("koord-suite-restore-limits", "koord-suite-test", "koord-suite-uninstall")
    assert found == {name: {"nodeAffinity": NODES} for name in hooks}


def test_a_hook_without_an_affinity_of_nodes_runs_on_any_node(complete):
    """A rule about other pods, such as "not beside a manager", would keep it from the only node."""
    found = affinities(complete, {"podAntiAffinity": APART})
    assert {name for name, affinity in found.items() if affinity} == {"koord-manager", "koord-admission"}
    assert "nodeAffinity" not in found["koord-admission"]


def test_the_agent_is_not_for_nodes_that_run_no_daemon_set():
    node_affinity = chart.render().of_kind("DaemonSet")["koordlet"]["spec"]["template"]["spec"]["affinity"][
        "nodeAffinity"
    ]
    (term,) = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    excluded = {item["key"]: item["values"] for item in term["matchExpressions"] if item["operator"] == "NotIn"}
    without = {key: [text] for key, text in names.LABELS_WITHOUT_DAEMON_SETS.items()}
    assert excluded == {**without, "koord-suite.io/fake": ["true"]}
