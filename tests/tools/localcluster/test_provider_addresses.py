"""What a provider knows of this machine and of its apiserver: the address for pods, and the audit log."""

import json

import pytest

from tools.localcluster import access, layout
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.host import commands
from tools.localcluster.providers import existing, kind
from tools.localcluster.providers.registry import PROVIDERS


def answer(monkeypatch, *gateways):
    configuration = [{"Subnet": "s", **({"Gateway": each} if each else {})} for each in gateways]
    text = json.dumps([{"Name": kind.NETWORK, "IPAM": {"Config": configuration}}])
    monkeypatch.setattr(commands, "run", lambda words: text if words[-1] == kind.NETWORK else pytest.fail(str(words)))


def test_pods_of_a_local_cluster_reach_the_bridge():
    assert PROVIDERS["local"].host_address() == layout.HOST_ADDRESS


def test_pods_of_kind_reach_the_gateway_of_its_network_by_ipv4(monkeypatch):
    answer(monkeypatch, "fc00:f853:ccd:e793::1", "", "172.18.0.1")
    assert PROVIDERS["kind"].host_address() == "172.18.0.1"


def test_a_network_of_kind_without_a_gateway_is_named(monkeypatch):
    answer(monkeypatch, "fc00:f853:ccd:e793::1")
    with pytest.raises(ClusterProblem, match="docker network kind has no IPv4 gateway"):
        PROVIDERS["kind"].host_address()


def test_the_address_for_pods_of_an_existing_cluster_is_named_by_the_environment(monkeypatch):
    monkeypatch.delenv(existing.HOST_ADDRESS_VARIABLE, raising=False)
    with pytest.raises(ClusterProblem, match=f"set {existing.HOST_ADDRESS_VARIABLE}"):
        PROVIDERS["existing"].host_address()
    monkeypatch.setenv(existing.HOST_ADDRESS_VARIABLE, "192.0.2.7")
    assert PROVIDERS["existing"].host_address() == "192.0.2.7"


@pytest.fixture
def kubeconfig(monkeypatch, tmp_path):
    file = tmp_path / "kubeconfig"
    file.touch()
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr(access.go_binaries, "client", lambda name: tmp_path / name)
    monkeypatch.delenv(existing.AUDIT_LOG_VARIABLE, raising=False)
    return file


def test_an_existing_cluster_has_the_audit_log_that_the_environment_names(monkeypatch, tmp_path, kubeconfig):
    assert PROVIDERS["existing"].cluster().audit_log is None
    log = tmp_path / "audit.log"
    log.touch()
    monkeypatch.setenv(existing.AUDIT_LOG_VARIABLE, str(log))
    cluster = PROVIDERS["existing"].cluster()
    assert (cluster.kubeconfig, cluster.audit_log) == (kubeconfig, log)


@pytest.mark.usefixtures("kubeconfig")
def test_an_audit_log_that_does_not_exist_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(existing.AUDIT_LOG_VARIABLE, str(tmp_path / "no.log"))
    with pytest.raises(ClusterProblem, match=f"{existing.AUDIT_LOG_VARIABLE}=.*no.log: no such file"):
        PROVIDERS["existing"].cluster()
