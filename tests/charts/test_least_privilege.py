"""Permissions and users of the programs in the chart."""

import pytest

from api_types import names
from tests.charts import chart


def verbs(role):
    """Return the verbs by (group, resource, name or "")."""
    return {
        (group, resource, name): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


READ = {"get", "list", "watch"}
SLO = "slo.koordinator.sh"


def test_an_agent_writes_node_metric_statuses_and_nothing_else():
    rendered = chart.render()
    assert verbs(rendered.of_kind("ClusterRole")["koord-suite-koordlet"]) == {
        ("", "nodes", ""): READ,
        ("", "pods", ""): READ,
        (SLO, "nodemetrics", ""): READ,
        (SLO, "nodemetrics/status", ""): {"update"},
    }


def test_the_extender_may_only_annotate_pods():
    role = chart.render().of_kind("ClusterRole")["koord-suite-scheduler-plugin"]
    writes = {resource: granted - READ for resource, granted in verbs(role).items() if granted - READ}
    assert writes == {
        ("", "pods", ""): {"patch"}
    }  # of which the admission policy koord-suite-extender permits one annotation


def test_the_manager_writes_node_status_and_node_metrics_cluster_wide_and_the_rest_in_its_namespace():
    rendered = chart.render()
    wide = verbs(rendered.of_kind("ClusterRole")["koord-suite-manager"])
    writes = {key: found - READ for key, found in wide.items() if found - READ}
    assert writes == {
        ("", "nodes/status", ""): {"patch"},
        (SLO, "nodemetrics", ""): {"create", "patch", "delete"},
    }


def test_the_manager_changes_only_its_own_config_map_and_the_one_it_annotates():
    rendered = chart.render()
    role = verbs(rendered.of_kind("Role")["koord-manager"])
    assert role["", "configmaps", ""] == READ
    own, users = [name for (_, resource, name) in role if resource == "configmaps" and name]
    assert role["", "configmaps", own] == role["", "configmaps", users] == {"patch"}
    assert users == names.SLO_CONTROLLER_CONFIG
    assert "data" not in rendered.of_kind("ConfigMap")[own]


def test_outside_its_namespace_the_manager_may_only_post_events_about_nodes():
    rendered = chart.render()
    elsewhere = [role for role in rendered.of_kind("Role").values() if role["metadata"]["namespace"] != chart.NAMESPACE]
    (role,) = elsewhere
    assert role["metadata"]["namespace"] == "default"
    assert verbs(role) == {("", "events", ""): {"create", "get", "patch"}}


@pytest.mark.parametrize("role", ["koord-manager", "koord-scheduler"])
def test_a_lease_can_be_changed_only_by_its_name(role):
    leases = {
        name: found
        for (_, resource, name), found in verbs(chart.render().of_kind("Role")[role]).items()
        if resource == "leases"
    }
    assert leases.pop("") == {"create"}
    assert leases == {role: {"get", "update"}}


def test_no_role_has_a_wildcard_or_reads_secrets():
    rendered = chart.render()
    for role in [*rendered.of_kind("ClusterRole").values(), *rendered.of_kind("Role").values()]:
        for (group, resource, _), found in verbs(role).items():
            assert "*" not in {group, resource, *found}
            assert resource != "secrets"


def test_every_binding_names_a_service_account_that_the_chart_creates():
    rendered = chart.render()
    accounts = set(rendered.of_kind("ServiceAccount"))
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in rendered.of_kind(kind).values():
            for subject in binding["subjects"]:
                assert subject["name"] in accounts
                assert subject["namespace"] == chart.NAMESPACE


def test_only_the_state_folder_is_prepared_as_root_with_one_capability():
    for name, container in chart.render().containers().items():
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"]["drop"] == ["ALL"]
        if name == "koordlet/state-folder":
            assert context["runAsUser"] == 0
            assert context["capabilities"]["add"] == ["CHOWN"]
        else:
            assert "runAsUser" not in context
            assert "add" not in context["capabilities"]


def test_pods_run_as_the_user_of_the_images():
    for pod in chart.render().workloads().values():
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not {"hostPID", "hostIPC", "hostNetwork"} & set(pod)


def test_the_agent_mounts_the_host_read_only_except_its_state_folder():
    container = chart.render().containers()["koordlet/koordlet"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/koordlet"]


def test_only_the_agent_mounts_folders_of_the_host():
    for name, pod in chart.render().workloads().items():
        assert name == "koordlet" or not any("hostPath" in volume for volume in pod.get("volumes", []))


HOOKS = {"koord-suite-uninstall", "koord-suite-test"}


def test_hooks_are_as_unprivileged_as_the_manager_and_their_permissions_are_deleted_afterwards():
    rendered = chart.render()
    manager = rendered.workloads()["koord-manager"]
    assert set(rendered.hook_pods()) == {"koord-suite-uninstall"}, (
        "the pod of helm test is rendered only with a cluster"
    )
    for name, pod in rendered.hook_pods().items():
        (container,) = pod["containers"]
        assert pod["securityContext"] == manager["securityContext"]
        assert container["securityContext"] == manager["containers"][0]["securityContext"]
        assert pod["serviceAccountName"] == name
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
        for name in HOOKS:
            annotations = rendered.of_kind(kind)[name]["metadata"]["annotations"]
            assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"


def test_the_uninstallation_may_stop_and_clean_up_and_the_test_may_only_read():
    rendered = chart.render()
    wide = verbs(rendered.of_kind("ClusterRole")["koord-suite-uninstall"])
    assert wide == {
        ("", "nodes", ""): {"list"},
        ("", "nodes/status", ""): {"patch"},
        (SLO, "nodemetrics", ""): {"list", "delete"},
    }
    own = verbs(rendered.of_kind("Role")["koord-suite-uninstall"])
    unnamed = {resource: found for (_, resource, name), found in own.items() if not name}
    assert unnamed == {"pods": {"list"}, "leases": {"create"}}
    assert {name for _, resource, name in own if resource == "deployments/scale"} == {
        "koord-manager",
        "koord-scheduler",
    }
    for kind in ("ClusterRole", "Role"):
        assert set().union(*verbs(rendered.of_kind(kind)["koord-suite-test"]).values()) <= READ


def test_the_uninstallation_never_stops_a_scheduler_of_another_installation():
    rendered = chart.render("scheduler.enabled=false")
    (container,) = rendered.hook_pods()["koord-suite-uninstall"]["containers"]
    assert "--deployments=koord-manager" in container["args"]
    assert "--leases=koord-manager" in container["args"]
    named = {name for _, _, name in verbs(rendered.of_kind("Role")["koord-suite-uninstall"])}
    assert named == {"", "koord-manager", "slo-controller-config", "koord-suite-test"}


def test_secrets_are_referenced_and_never_written():
    rendered = chart.render(
        "loadWatcher.enabled=true",
        "loadWatcher.tokenSecret.name=tokens",
        "koordlet.influxdb.enabled=true",
        "koordlet.influxdb.url=https://i",
        "koordlet.influxdb.org=o",
        "koordlet.influxdb.bucket=b",
    )
    assert not rendered.of_kind("Secret")
    for container in rendered.containers().values():
        assert not [each for each in container.get("args", []) if "token=" in each or "password" in each]
        assert not [each for each in container.get("env", []) if "TOKEN" in each["name"] and "value" in each]


def test_on_openshift_the_cluster_chooses_the_user_of_every_pod_except_the_agent():
    rendered = chart.render("openshift.enabled=true", "loadWatcher.enabled=true")
    for name, pod in {**rendered.workloads(), **rendered.hook_pods()}.items():
        assert ("runAsUser" in pod["securityContext"]) == (name == "koordlet")
        assert pod["securityContext"]["runAsNonRoot"] is True
    (constraints,) = rendered.of_kind("SecurityContextConstraints").values()
    agent = rendered.workloads()["koordlet"]
    assert constraints["users"] == [f"system:serviceaccount:{chart.NAMESPACE}:koordlet"]
    assert {next(key for key in volume if key != "name") for volume in agent["volumes"]} <= set(constraints["volumes"])
    added = {each for c in agent["initContainers"] for each in c["securityContext"]["capabilities"].get("add", [])}
    assert added == set(constraints["allowedCapabilities"])
    assert not constraints["allowPrivilegedContainer"]
