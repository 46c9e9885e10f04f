"""The image of a kind node: its name follows from what goes in, and it has one version of Kubernetes throughout."""

import pathlib
import tarfile

import pytest

from tools.images import loading
from tools.kind_offline import __main__ as command_line
from tools.kind_offline import engine, node_image
from tools.localcluster import go_binaries, pause_image
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.providers import kind, local

OTHER = "1.36"


@pytest.fixture(autouse=True)
def _usual_version(monkeypatch):
    monkeypatch.delenv(go_binaries.VERSION_VARIABLE, raising=False)


def test_the_name_has_the_version_of_the_local_cluster_and_is_always_the_same():
    name, _, tag = node_image.reference().partition(":")
    version, _, key = tag.rpartition("-")
    assert (name, version) == ("koord-suite/kind-node", go_binaries.version())
    assert len(key) == 12
    assert node_image.reference() == f"{name}:{tag}"


def test_the_name_is_another_one_when_something_else_goes_in(monkeypatch, tmp_path):
    names = {node_image.reference()}
    for where, attribute, value in (
        (kind, "VERSION", "v0.0.1"),
        (node_image, "SUITE", "another"),
        (node_image, "PACKAGES", (*node_image.PACKAGES, "one-more")),
        (node_image, "FILES", tmp_path),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(where, attribute, value)
            names.add(node_image.reference())
    assert len(names) == 5


def test_the_pinned_version_may_be_named(monkeypatch):
    usual = node_image.reference()
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, go_binaries.version().removeprefix("v").rpartition(".")[0])
    assert node_image.reference() == usual


def test_another_version_is_refused_with_the_pinned_one(monkeypatch):
    pinned = go_binaries.version()
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, OTHER)
    with pytest.raises(ClusterProblem, match=rf"Kubernetes v{OTHER}\.\d+ is chosen, .*{pinned} only"):
        node_image.reference()


def test_run_refuses_another_version_before_it_builds_anything(monkeypatch, capsys):
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, OTHER)
    monkeypatch.setattr(local, "require_root_on_linux", lambda: None)
    for where, name in ((loading, "prepare"), (node_image, "prepare"), (engine, "start")):
        monkeypatch.setattr(where, name, lambda *_: pytest.fail("something was begun"))
    assert command_line.main(["run", "--", "true"]) == 1
    assert f"unset {go_binaries.VERSION_VARIABLE}" in capsys.readouterr().err


def test_programs_and_images_have_the_version_of_the_name(monkeypatch, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in (*go_binaries.PACKAGES, "kubeadm", "coredns", "pause"):
        (programs / name).write_text(name)
    with tarfile.open(tmp_path / "root.tar", "w"):
        pass
    monkeypatch.setattr(go_binaries, "everything", lambda: programs)
    monkeypatch.setattr(node_image, "kubeadm", lambda: programs / "kubeadm")
    monkeypatch.setattr(node_image, "coredns", lambda: programs / "coredns")
    monkeypatch.setattr(node_image, "root_file_system", lambda: tmp_path / "root.tar")
    monkeypatch.setattr(node_image, "_names_in_kind", lambda file: [f"docker.io/kindest/{pathlib.Path(file).stem}:1"])
    monkeypatch.setattr(pause_image, "program", lambda: programs / "pause")
    written = []
    monkeypatch.setattr(
        node_image.image_archives,
        "write",
        lambda file, images: (file.touch(), written.extend(each.reference for each in images)),
    )
    (folder := tmp_path / "server").mkdir()
    node_image._write_server(folder)
    version = node_image.reference().partition(":")[2].rpartition("-")[0]
    components = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    assert {f"registry.k8s.io/{name}:{version}" for name in components} <= set(written)
    with tarfile.open(folder / "kubernetes.tar.gz") as server:
        assert server.extractfile("kubernetes/version").read().decode() == version
        assert {f"kubernetes/server/bin/{name}" for name in ("kubeadm", "kubelet", "kubectl")} <= set(server.getnames())
