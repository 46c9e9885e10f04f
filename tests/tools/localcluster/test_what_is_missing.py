"""Problems of the machine: each is one line that names the cause and the fix."""

import os
import socket
from pathlib import Path

import pytest

from tools.images import __main__ as images_command
from tools.localcluster import __main__ as command_line
from tools.localcluster import go_binaries, layout, remembered
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands, debian_packages, ports
from tools.localcluster.image_archives import Archive
from tools.localcluster.providers import existing, local


def test_missing_packages_are_listed_with_their_missing_files():
    absent = {"runc", "/usr/lib/cni/portmap"}
    assert debian_packages.missing(lambda wanted: wanted not in absent) == {
        "runc": ["runc"],
        "containernetworking-plugins": ["/usr/lib/cni/portmap"],
    }


def test_a_taken_port_is_reported_with_its_process():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterProblem, match=rf"port {port} \(etcd\) is used by .*\(pid {os.getpid()}\)"):
            ports.require_free({port: "etcd"})


def test_free_ports_differ_and_are_none_that_an_outgoing_connection_may_take():
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    found = ports.free_ports(50)
    assert len(set(found)) == 50
    assert max(found) < first_outgoing
    with socket.create_server(("127.0.0.1", found[0])):
        assert found[0] not in ports.free_ports(50)


def test_without_root_the_two_other_providers_are_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(
        ClusterProblem, match=r"needs root: run it with sudo, or .*--provider kind.*--provider existing"
    ):
        local.Local().up()


def test_a_kubeconfig_that_does_not_exist_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(ClusterProblem, match=r"nowhere: no such kubeconfig"):
        existing.Existing().up()


def test_the_images_that_nodes_of_an_existing_cluster_lack_are_named(tmp_path):
    one, two = (Archive(name, f"koord-suite/{name}:dev-1", tmp_path / name) for name in ("one", "two"))
    both = {
        "images": [
            {"names": [f"docker.io/{one.reference}", "docker.io/x@sha256:1"]},
            {"names": [f"docker.io/{two.reference}"]},
        ]
    }
    nodes = [
        {"metadata": {"name": "a"}, "status": both},
        {"metadata": {"name": "b"}, "status": {"images": both["images"][:1]}},
        {"metadata": {"name": "c"}, "status": {}},
    ]
    assert existing.missing([one, two], nodes) == {"b": [two.reference], "c": [one.reference, two.reference]}
    assert existing.missing([one, two], nodes[:1]) == {}


NO_CLUSTER = "error: no cluster is up; start one with `python -m tools.localcluster up`\n"


@pytest.mark.parametrize("verb", ["status", "env"])
def test_without_a_cluster_a_command_reports_how_to_start_one(monkeypatch, tmp_path, capsys, verb):
    monkeypatch.setattr(remembered, "FILE", tmp_path / "cluster-provider")
    assert command_line.main([verb]) == 1
    assert capsys.readouterr().err == NO_CLUSTER


def test_without_a_cluster_images_are_not_built(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(remembered, "FILE", tmp_path / "cluster-provider")
    assert images_command.main(["load"]) == 1
    assert capsys.readouterr().err == NO_CLUSTER


def test_another_provider_than_the_one_that_is_up_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(remembered, "FILE", tmp_path / "cluster-provider")
    remembered.remember("local")
    assert command_line.main(["up", "--provider", "existing"]) == 1
    assert "a local cluster is up; end it first" in capsys.readouterr().err


def test_a_failing_program_is_reported_with_its_exit_code_and_last_errors():
    with pytest.raises(ClusterProblem, match=r"`sh -c .*` exit 3: first \| no space left"):
        commands.run(["sh", "-c", "echo first >&2; echo no space left >&2; exit 3"])


def test_the_version_is_that_of_the_main_module_of_the_cluster_or_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(remembered, "FILE", tmp_path / "cluster-provider")
    monkeypatch.delenv(go_binaries.VERSION_VARIABLE, raising=False)
    usual = go_binaries.version()
    remembered.remember("nodes")
    assert go_binaries.version().startswith("v1.36.")
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, usual.removeprefix("v").rpartition(".")[0])
    assert go_binaries.version() == usual
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, "1.37")
    assert go_binaries.version().startswith("v1.37.")


def test_a_version_without_a_module_is_named_with_those_there_are(monkeypatch):
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, "1.2")
    with pytest.raises(ClusterProblem, match=r"KUBERNETES_VERSION=1\.2: no module .*; there are 1\.36"):
        go_binaries.version()


def test_up_refuses_a_running_cluster_of_another_version(monkeypatch, tmp_path):
    places = layout.Layout(state=tmp_path / "state", run=tmp_path / "run")
    places.state.mkdir()
    places.machine_before.touch()
    places.kubernetes_version.write_text("v1.2.3")
    monkeypatch.setattr(local, "require_root_on_linux", lambda: None)
    with pytest.raises(ClusterProblem, match=r"Kubernetes v1\.2\.3 is up, and v.* is wanted; end it first: .* down"):
        local.Local(places).up()
