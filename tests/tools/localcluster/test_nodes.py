"""The cluster of several nodes beside a local cluster: other addresses, ports and folders, and nothing left of it.

A cluster that was killed is ended in a network and a mount namespace of its own: this machine is not touched.
"""

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from tools.localcluster import content_cache, control_plane, layout
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import leftovers
from tools.localcluster.nodes import network
from tools.localcluster.nodes.machine import Machine
from tools.localcluster.providers.nodes import PLACES, Nodes

LOCAL = layout.Layout()
KILLED = """
import subprocess, sys
from pathlib import Path
from dataclasses import replace
from tools.localcluster.host import processes
from tools.localcluster.nodes import network
from tools.localcluster.providers.nodes import PLACES, Nodes

for folder in ("/run", sys.argv[1]):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
places = replace(PLACES, state=Path(sys.argv[1]) / "state")
places.state.mkdir()
places.kubernetes_version.write_text("v1.36.0")
(places.state / "node-count").write_text("2")
network.make()
network.connect(1, "n1")
parent = "import subprocess as s; s.Popen(['sleep', '60'], env={}); s.run(['sleep', '60'])"
processes.start(processes.Program("n1", network.enter(sys.executable, "-c", parent), {}), places.processes)
while len(inside := processes.find("n1", places.processes).children()) < 2:
    pass
assert Nodes(places).down() == []
assert not network.exists() and not places.state.exists()
assert not any(process.is_running() and process.status() != "zombie" for process in inside)
"""


def test_networks_and_ports_are_others_than_those_of_a_local_cluster():
    used = [network.PODS, network.SERVICES, f"{network.HOST}/18", layout.CLUSTER_SUBNET, layout.SERVICE_SUBNET]
    networks = [ipaddress.ip_network(each, strict=False) for each in used]
    assert not any(one.overlaps(other) for one in networks for other in networks if one is not other)
    assert all(ipaddress.ip_network(network.pods(n)).subnet_of(networks[0]) for n in (1, network.MOST_NODES))
    assert not set(PLACES.addresses.ports()) & set(LOCAL.ports)
    assert {PLACES.state, PLACES.run}.isdisjoint({LOCAL.state, LOCAL.run})


def test_a_local_cluster_does_not_count_the_link_of_the_nodes_among_its_leftovers():
    before = leftovers.Machine([], [], [], [], {}, {}, {})
    assert leftovers.differences(before, replace(before, links=[layout.NODES_LINK])) == []


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_a_node_is_described_by_an_identity_and_a_subnet_of_its_own(tmp_path):
    places = replace(PLACES, state=tmp_path)
    control_plane.make_identities(places)
    machines = [Machine(places, number) for number in (1, 2)]
    for machine in machines:
        machine.describe(2)
    files = [machine.folder / "files" for machine in machines]
    assert [json.loads((each / "kubelet.json").read_text())["cgroupDriver"] for each in files] == ["systemd"] * 2
    assert f"route replace {network.pods(2)} via {network.address(2)}" in (files[0] / "routes").read_text()
    assert network.pods(1) in (files[0] / "cni.conflist").read_text()
    assert len({(each / "kubelet.kubeconfig").read_text() for each in files}) == 2


def test_fewer_nodes_than_there_are_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.localcluster.providers.local.require_root_on_linux", lambda: None)
    places = replace(PLACES, state=tmp_path)
    places.kubernetes_version.write_text("v1.36.0")
    (tmp_path / "node-count").write_text("3")
    with pytest.raises(ClusterProblem, match="--nodes 2: want 3 to"):
        Nodes(places).up(2)


@pytest.mark.skipif(os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip"))), reason="needs root and ip")
def test_down_ends_what_a_killed_up_has_started(tmp_path):
    words = ["unshare", "--net", "--mount", sys.executable, "-c", KILLED, str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=content_cache.REPOSITORY, check=False)
    assert ended.returncode == 0, ended.stderr
