"""Permissions and users of the programs in the chart."""

import os
import re
import subprocess
import sys

import pytest

from api_types import names
from apiserver_client import resources
from component_base import clock
from koordctl.check import reading
from tests.charts import chart
from tests.fakes import cluster
from tests.manager.conftest import NAMESPACE
from tests.manager.test_leader import add_node, configure, leader, mid_cpu, report, until
from tools.images import recipes

pytestmark = pytest.mark.slow


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


METRICS_SERVER = "scheduler.plugin.pluginArgs.TargetLoadPacking.metricProvider.type=KubernetesMetricsServer"


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ((), {}),
        (("scheduler.mode=extender",), {("", "pods", ""): READ}),
        ((METRICS_SERVER,), {("metrics.k8s.io", "nodes", ""): {"list"}}),
    ],
)
def test_the_scheduler_plugin_writes_nothing_and_reads_what_its_mode_and_its_providers_need(values, more):
    role = chart.render(*values).of_kind("ClusterRole")["koord-suite-scheduler-plugin"]
    always = {("", "nodes", ""): READ, ("", "namespaces", ""): {"list", "watch"}, (SLO, "nodemetrics", ""): READ}
    assert verbs(role) == always | more


def test_the_manager_writes_node_status_and_node_metrics_cluster_wide_and_the_rest_in_its_namespace():
    rendered = chart.render()
    wide = verbs(rendered.of_kind("ClusterRole")["koord-suite-manager"])
    writes = {key: found - READ for key, found in wide.items() if found - READ}
    assert writes == {
        ("", "nodes/status", ""): {"patch"},
        (SLO, "nodemetrics", ""): {"create", "patch", "delete"},
        ("authorization.k8s.io", "selfsubjectaccessreviews", ""): {"create"},  # a question, which changes nothing
    }


def test_the_manager_reads_and_changes_only_its_own_config_map_and_the_one_it_annotates():
    rendered = chart.render()
    role = verbs(rendered.of_kind("Role")["koord-manager"])
    found = {name: allowed for (_, resource, name), allowed in role.items() if resource == "configmaps"}
    own = "koord-manager-last-good-config"
    histories = {"list", "create", "patch"}  # whose names no role can state; a policy does
    assert found == {names.SLO_CONTROLLER_CONFIG: {*READ, "patch"}, own: {"get", "patch"}, "": histories}
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
    contexts = {name: container["securityContext"] for name, container in chart.render().containers().items()}
    for context in contexts.values():
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"]["drop"] == ["ALL"]
    preparing = contexts.pop("koordlet/state-folder")
    assert preparing["runAsUser"] == 0
    assert preparing["capabilities"]["add"] == ["CHOWN"]
    assert not any("runAsUser" in context or "add" in context["capabilities"] for context in contexts.values())


def test_pods_run_as_the_users_of_the_images():
    of_images = {recipe.name: recipe.user for recipe in recipes.COMPONENTS}
    for name, pod in chart.render("loadWatcher.enabled=true").workloads().items():
        context = dict(pod["securityContext"])
        assert f"{context.pop('runAsUser')}:{context.pop('runAsGroup')}" == of_images.get(name, recipes.USER)
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert not {"hostPID", "hostIPC", "hostNetwork"} & set(pod)


def test_only_the_agent_runs_as_the_user_of_the_agent_on_openshift_too():
    for values in ((), ("openshift.enabled=true",)):
        rendered = chart.render(*values, "loadWatcher.enabled=true")
        users = {name: pod["securityContext"].get("runAsUser") for name, pod in rendered.workloads().items()}
        agent = users.pop("koordlet")
        assert agent not in {None, 0, 65532, *users.values()}


@pytest.mark.skipif(os.geteuid() != 0, reason="changes owners, which takes root")
def test_the_state_folder_of_an_earlier_release_becomes_the_agents_without_following_links(tmp_path):
    container = chart.render().containers()["koordlet/state-folder"]
    _, option, program, _, user = container["command"]
    state, foreign = tmp_path / "state", tmp_path / "foreign"
    state.mkdir(mode=0o700)
    foreign.write_text("of somebody else")
    (state / "checkpoint").write_text("history")
    (state / "link").symlink_to(foreign)
    for path in (state, state / "checkpoint", foreign):
        os.chown(path, 65532, 65532)
    as_in_the_container = ("setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all")
    subprocess.run([*as_in_the_container, sys.executable, option, program, state, user], check=True)
    owners = {path.name: path.lstat().st_uid for path in (state, *state.iterdir(), foreign)}
    assert owners == {"state": int(user), "checkpoint": int(user), "link": int(user), "foreign": 65532}


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
    assert unnamed == {"pods": {"list"}, "configmaps": {"list", "delete"}, "leases": {"create"}}
    assert {name for _, resource, name in own if resource == "deployments/scale"} == {
        "koord-manager",
        "koord-scheduler",
    }
    for kind in ("ClusterRole", "Role"):
        assert set().union(*verbs(rendered.of_kind(kind)["koord-suite-test"]).values()) <= READ


RESTORES = {("", "pods", ""): {"list"}, ("", "pods/resize", ""): {"patch"}, ("", "events", ""): {"create"}}


def test_agents_lower_limits_where_they_have_the_right_to():
    for values, may in ((), False), (("koordlet.suppression.enabled=true",), True):
        rendered = chart.render(*values)
        assert (("", "pods/resize", "") in verbs(rendered.of_kind("ClusterRole")["koord-suite-koordlet"])) is may
        container = rendered.containers()["koordlet/koordlet"]
        assert ("--enable-suppression" in container["args"]) is may


def test_the_uninstallation_may_resize_pods_only_where_agents_may_and_then_does():
    for values, may in ((), False), (("koordlet.suppression.enabled=true",), True):
        rendered = chart.render(*values)
        wide = verbs(rendered.of_kind("ClusterRole")["koord-suite-uninstall"])
        assert {key: wide.get(key) for key in RESTORES} == (RESTORES if may else dict.fromkeys(RESTORES))
        (container,) = rendered.hook_pods()["koord-suite-uninstall"]["containers"]
        assert ("--restore-limits" in container["args"]) is may
        assert ("--no-restore-limits" in container["args"]) is not may


def test_the_uninstallation_never_stops_a_scheduler_of_another_installation():
    rendered = chart.render("scheduler.mode=none")
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


def test_the_right_to_evict_is_granted_by_value_only_and_only_where_it_is_named():
    granted = ("", "pods/eviction", "")

    def holders(rendered):
        return {
            (kind, binding["metadata"].get("namespace", ""))
            for kind in ("RoleBinding", "ClusterRoleBinding")
            for binding in rendered.of_kind(kind).values()
            for role in [rendered.of_kind(binding["roleRef"]["kind"]).get(binding["roleRef"]["name"])]
            if role is not None and granted in verbs(role)
        }

    assert holders(chart.render()) == set()
    assert holders(chart.render("manager.eviction.namespaces={jobs}")) == {("RoleBinding", "jobs")}
    assert holders(chart.render("manager.eviction.namespaces={*}")) == {("ClusterRoleBinding", "")}
    variables = chart.render("manager.eviction.namespaces={jobs,more}").containers()["koord-manager/manager"]["env"]
    assert {"name": "MANAGER_EVICTION_NAMESPACES", "value": "jobs,more"} in variables
    role = chart.render("manager.eviction.namespaces={jobs}").of_kind("ClusterRole")["koord-suite-manager-eviction"]
    assert verbs(role) == {granted: {"create"}, ("", "events", ""): {"create", "get", "patch"}}


def test_the_extender_reads_one_config_map():
    role = chart.render().of_kind("Role")["koord-suite-scheduler-plugin"]
    assert verbs(role) == {("", "configmaps", "koord-manager-last-good-config"): READ}


def test_the_page_names_every_resource_that_a_token_may_read_or_write():
    on = ("admission.mode=webhook", "console.enabled=true", "loadWatcher.enabled=true", "extenderService.enabled=true")
    secrets = ("extenderService.serverCertificateSecret=a", "extenderService.callersAuthoritySecret=b")
    rights = ("koordlet.suppression.enabled=true", "manager.eviction.namespaces={batch}")
    rendered = chart.render(*on, *secrets, *rights)
    page = (chart.ROOT / "docs" / "how-to" / "least-privilege.md").read_text(encoding="utf-8")
    parts = [part.lower() for part in re.split(r"\n(?=[-|] |\n)", page)]
    words = {"selfsubjectaccessreviews": "whether it may evict", "deployments/scale": "may scale"}
    for account, (kind, name) in bound(rendered):
        if (role := rendered.of_kind(kind).get(name)) is None:
            continue  # one of the cluster's own kube-scheduler
        text = " ".join(part for part in parts if f"`{account}`" in part)
        for rule in role["rules"]:
            for resource in rule["resources"]:
                assert words.get(resource, re.sub("s$", "", resource)) in text, (account, resource)


def bound(rendered):
    """Yield the name of each service account with the kind and the name of each of its roles."""
    bindings = [*rendered.of_kind("ClusterRoleBinding").values(), *rendered.of_kind("RoleBinding").values()]
    for binding in bindings:
        for subject in binding["subjects"]:
            yield subject["name"], (binding["roleRef"]["kind"], binding["roleRef"]["name"])


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


_GROUPS = {each.plural: each.group for each in vars(resources).values() if isinstance(each, resources.Resource)}


def rules():
    """Return (namespace or "", rule) of every rule of the manager."""
    rendered = chart.render()
    wide = [("", rule) for rule in rendered.of_kind("ClusterRole")["koord-suite-manager"]["rules"]]
    roles = [rendered.of_kind("Role")[name] for name in ("koord-manager", "koord-suite-manager-node-events")]
    return wide + [(role["metadata"]["namespace"], rule) for role in roles for rule in role["rules"]]


def attributes(request):
    """Return namespace, group, resource, verb and name of a request, as kube-apiserver hands them to RBAC.

    Of a list or watch the name is that of the field selector metadata.name.
    """
    plural, namespace, name, subresource = cluster._address(request.path)
    if request.method in {"GET", "WATCH"}:
        verb = "watch" if request.method == "WATCH" else "get" if name else "list"
        name = name or request.query.get("fieldSelector", "").partition("metadata.name=")[2]
    else:
        verb = _VERBS[request.method]
    return namespace, _GROUPS[plural], "/".join(filter(None, (plural, subresource))), verb, name


def is_granted(request):
    namespace, group, resource, verb, name = attributes(request)
    return any(
        of in {"", namespace}
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and name in rule.get("resourceNames", [name])
        for of, rule in rules()
    )


def test_the_manager_has_no_permission_for_crds_and_can_only_get_a_namespace():
    for _, rule in rules():
        assert "customresourcedefinitions" not in rule["resources"]
        assert "namespaces" not in rule["resources"] or rule["verbs"] == ["get"]


@pytest.mark.parametrize("resource", ["configmaps", "secrets", "leases"])
def test_objects_of_its_namespace_are_granted_by_name(resource):
    unnamed = {
        verb for _, rule in rules() if resource in rule["resources"] and "resourceNames" not in rule
        for verb in rule["verbs"]
    }  # fmt: skip
    assert unnamed == {"leases": {"create"}, "configmaps": {"list", "create", "patch"}}.get(resource, set())


def named(request):
    """Check whether a request is about a resource, not for the documents of discovery."""
    return not cluster.discovery(request.path) and "/openapi/" not in request.path


async def test_the_roles_of_the_chart_grant_every_request_of_a_leader():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0)
        add_node(server, "n1")
        server.add("nodemetrics", {"metadata": {"name": "of-a-node-that-is-gone"}})
        configure(server, {"enable": True, "midEviction": {"mode": "evict"}})
        stored = {"metadata": {"name": "koord-manager-last-good-config"}}  # created by the chart
        server.add("configmaps", stored, NAMESPACE)
        async with leader(server):
            await until(lambda: server.get("nodemetrics", "n1"))
            report(server, "n1", "2")
            await until(lambda: mid_cpu(server, "n1"))
            configure(server, {"enable": "broken"})
            await until(lambda: server.all("events"))
            await until(lambda: len(server.all("nodemetrics")) == 1)
            watched = ("configmaps", "watch")
            await until(lambda: any(attributes(each)[2:4] == watched for each in server.requests if named(each)))
    # Every authenticated client may read the documents of discovery (system:discovery).
    sent = [each for each in server.requests if named(each)]
    assert [each for each in sent if not is_granted(each)] == []
    assert {attributes(each)[2:4] for each in sent} >= {
        ("configmaps", "list"),
        ("configmaps", "watch"),
        ("nodes/status", "patch"),
        ("nodemetrics", "delete"),
        ("selfsubjectaccessreviews", "create"),
    }


def granted(role):
    """Return (verb, resource, group, name) of each right."""
    return {
        (verb, resource, group, name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    }


def wanted(*, in_namespace):
    return {
        (each.verb, each.resource, each.group, each.name)
        for each in reading.VIEWER
        if each.in_namespace is in_namespace
    }


def test_the_roles_have_what_koordctl_checks_and_no_more():
    rendered = chart.render()
    assert granted(rendered.of_kind("ClusterRole")["koord-viewer"]) == wanted(in_namespace=False)
    assert granted(rendered.of_kind("Role")["koord-viewer"]) == wanted(in_namespace=True)


def test_the_role_view_gets_node_metrics_only():
    aggregated = [
        role
        for role in chart.render().of_kind("ClusterRole").values()
        if "rbac.authorization.k8s.io/aggregate-to-view" in role["metadata"]["labels"]
    ]
    (role,) = aggregated
    assert {resource for _, resource, _, _ in granted(role)} == {"nodemetrics"}


def test_nobody_has_the_roles_unless_they_are_bound():
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert "koord-viewer" not in chart.render().of_kind(kind)
        bound = chart.render("viewer.subjects[0].kind=User", "viewer.subjects[0].name=ann").of_kind(kind)
        assert bound["koord-viewer"]["subjects"] == [{"kind": "User", "name": "ann"}]


def test_the_roles_can_be_left_out():
    assert not any("koord-viewer" in name for name in chart.render("viewer.create=false").of_kind("ClusterRole"))
