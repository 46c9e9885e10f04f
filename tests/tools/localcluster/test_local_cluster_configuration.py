"""Command lines and configuration of the local cluster's programs."""

import json
import re
import shutil
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import yaml

from tools.localcluster import control_plane, fake_nodes, go_binaries, layout, node
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.layout import Layout

PLACES = Layout(state=Path("/state"), run=Path("/run/x"))
BINARIES = Path("/bin")
PROGRAMS = [*control_plane.programs(PLACES, BINARIES), *node.programs(PLACES, BINARIES)]


def test_kubernetes_is_the_version_that_go_mod_requires():
    flags = go_binaries.linker_flags((go_binaries.MODULE / "go.mod").read_text())
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in flags
    assert "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34" in flags
    assert "-X helm.sh/helm/v3/internal/version.version=v3.19.5" in flags


@pytest.mark.parametrize(
    "folder", [file.parent for file in go_binaries.MODULE.glob("*/go.mod")], ids=lambda at: at.name
)
def test_a_folder_of_another_version_pins_the_apiserver_of_that_version(folder):
    go_mod = (folder / "go.mod").read_text()
    assert go_binaries.kubernetes_version(go_mod).startswith(f"v{folder.name}.")
    tools = re.findall(r"^(?:tool |\t)(k8s\.io/kubernetes/cmd/\S+)$", go_mod, re.MULTILINE)
    assert go_binaries.PACKAGES["kube-apiserver"] in tools
    flags = go_binaries.linker_flags(go_mod)
    assert f"-X k8s.io/component-base/version.gitMinor={folder.name.partition('.')[2]}" in flags
    assert "helm" not in flags
    staged = set(re.findall(r"k8s.io/\S+ => k8s.io/\S+ (v\S+)", go_mod))
    assert staged == {go_binaries.kubernetes_version(go_mod).replace("v1.", "v0.")}


def test_a_go_mod_without_kubernetes_is_refused_by_name():
    with pytest.raises(ClusterProblem, match=r"no version of k8s.io/kubernetes is required"):
        go_binaries.linker_flags("module x\n\nrequire helm.sh/helm/v3 v3.19.5\n")


def test_every_binary_is_a_tool_of_the_module():
    go_mod = (go_binaries.MODULE / "go.mod").read_text()
    for package in go_binaries.PACKAGES.values():
        assert f"\t{package}\n" in go_mod


def test_every_port_of_a_command_line_is_checked_before_the_start():
    words = [word for program in PROGRAMS for word in program.argv]
    used = {int(port) for word in words for port in re.findall(r"(?::|-port=)(\d+)$", word)}
    assert used
    assert used <= set(PLACES.ports)


def test_a_second_control_plane_shares_no_port_and_no_file_with_the_first():
    addresses = layout.ControlPlaneAddresses("127.0.0.1", *range(20001, 20006))
    elsewhere = Layout(state=Path("/elsewhere"), run=Path("/elsewhere"), addresses=addresses)
    words = [word for program in control_plane.programs(elsewhere, BINARIES) for word in program.argv]
    assert not [word for word in words if str(PLACES.state) in word or layout.HOST_ADDRESS in word]
    used = {int(port) for word in words for port in re.findall(r"(?::|-port=)(\d+)$", word)}
    assert used == set(addresses.ports())


def test_every_certificate_of_the_apiservers_command_line_is_made(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command")
    places = Layout(state=tmp_path, run=tmp_path)
    control_plane.make_identities(places)
    values = [word.partition("=")[2] for word in control_plane.kube_apiserver(places, BINARIES).argv]
    named = [Path(value) for value in values if value.startswith(str(tmp_path))]
    assert len(named) >= 10
    assert [file for file in named if not file.exists()] == []


def test_nothing_listens_beyond_loopback_and_the_bridge():
    kubelet = node.kubelet_configuration(PLACES)
    assert {kubelet["address"], kubelet["healthzBindAddress"]} == {layout.HOST_ADDRESS, "127.0.0.1"}
    for program in PROGRAMS:
        for word in program.argv:
            name, _, value = word.partition("=")
            if name.endswith(("bind-address", "listen-client-urls", "listen-peer-urls")):
                assert "127.0.0.1" in value or value == layout.HOST_ADDRESS, word


def test_the_kubelet_and_cadvisor_use_the_same_containerd():
    endpoint = node.kubelet_configuration(PLACES)["containerRuntimeEndpoint"]
    assert f"--containerd={endpoint.removeprefix('unix://')}" in node.kubelet(PLACES, BINARIES).argv


def test_pods_get_addresses_of_the_bridges_subnet():
    network = node.pod_network(PLACES)
    (pods,) = network["plugins"][0]["ipam"]["ranges"][0]
    assert ip_address(pods["gateway"]) in ip_network(pods["subnet"])
    assert pods["gateway"] == layout.HOST_ADDRESS
    assert ip_network(pods["subnet"]).subnet_of(ip_network(layout.CLUSTER_SUBNET))
    assert ip_address(layout.APISERVER_SERVICE_ADDRESS) == ip_network(layout.SERVICE_SUBNET)[1]


def test_pods_use_the_name_server_of_the_cluster():
    kubelet = node.kubelet_configuration(PLACES)
    (server,) = [program for program in node.programs(PLACES, BINARIES) if program.name == "dnsmasq"]
    assert kubelet["clusterDNS"] == [layout.HOST_ADDRESS]
    assert f"--listen-address={layout.HOST_ADDRESS}" in server.argv
    assert f"--local=/{kubelet['clusterDomain']}/" in server.argv


def test_a_socket_path_is_within_the_limit_of_unix():
    assert len(str(Layout().containerd_socket) + ".ttrpc") <= 107


def audit_level(verb, group, resource, user="system:serviceaccount:koordinator-system:koord-manager", groups=()):
    """Return the level of the first rule that applies, as the apiserver decides."""
    for rule in yaml.safe_load(control_plane.AUDIT_POLICY.read_text())["rules"]:
        subjects = rule.get("users", []) + rule.get("userGroups", [])
        if "nonResourceURLs" in rule or (subjects and not {user, *groups} & set(subjects)):
            continue
        if "verbs" in rule and verb not in rule["verbs"]:
            continue
        named = rule.get("resources")
        if named is None or any(
            each["group"] == group and ("resources" not in each or resource in each["resources"]) for each in named
        ):
            return rule["level"]
    return "None"


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("patch", "", "nodes/status"),
        ("update", "slo.koordinator.sh", "nodemetrics/status"),
        ("create", "slo.koordinator.sh", "nodemetrics"),
        ("patch", "", "configmaps"),
        ("patch", "", "pods"),
    ],
)
def test_the_audit_log_has_the_body_of_the_suites_writes(verb, group, resource):
    assert audit_level(verb, group, resource) == "Request"


def test_the_audit_log_names_other_requests_without_their_body():
    assert audit_level("list", "", "pods") == "Metadata"
    assert audit_level("create", "", "secrets") == "Metadata"
    assert audit_level("watch", "", "nodes", user="system:kube-scheduler") == "None"


def test_a_fake_node_is_tainted_labelled_and_ready():
    import datetime as dt

    made = fake_nodes.node(7, dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    assert made["metadata"]["name"] == "fake-7"
    assert made["metadata"]["labels"]["koord-suite.io/fake"] == "true"
    assert made["spec"]["taints"] == [{"key": "koord-suite.io/fake", "value": "true", "effect": "NoSchedule"}]
    assert [c["status"] for c in made["status"]["conditions"] if c["type"] == "Ready"] == ["True"]
    assert json.dumps(made)
