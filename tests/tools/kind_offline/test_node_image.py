"""The image of a kind node: its name follows from what goes in, and it has one version of Kubernetes throughout."""

import pytest

from tools.images import loading
from tools.kind_offline import __main__ as command_line
from tools.kind_offline import engine, node_image
from tools.localcluster import go_binaries
from tools.localcluster.errors import ClusterProblem
from tools.localcluster.providers import local

OTHER = "1.36"


@pytest.fixture(autouse=True)
def _usual_version(monkeypatch):
    """Choose the version that kind has, also while a cluster of another one is up in this checkout."""
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, "1.34")


def test_the_name_has_the_version_of_the_local_cluster_and_is_always_the_same():
    name, _, tag = node_image.reference().partition(":")
    version, _, key = tag.rpartition("-")
    assert (name, version) == ("koord-suite/kind-node", go_binaries.version())
    assert len(key) == 12
    assert node_image.reference() == f"{name}:{tag}"


def test_another_version_is_refused_with_the_pinned_one(monkeypatch):
    pinned = go_binaries.version()
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, OTHER)
    with pytest.raises(ClusterProblem, match=rf"Kubernetes v{OTHER}\.\d+ is chosen, .*{pinned} only"):
        node_image.reference()


def test_run_refuses_another_version_before_it_builds_anything(monkeypatch, capsys):
    monkeypatch.setenv(go_binaries.VERSION_VARIABLE, OTHER)
    monkeypatch.setattr(local, "require_root_on_linux", lambda: None)
    for where, name in ((loading, "build"), (node_image, "prepare"), (engine, "start")):
        monkeypatch.setattr(where, name, lambda *_: pytest.fail("something was begun"))
    assert command_line.main(["run", "--", "true"]) == 1
    assert f"unset {go_binaries.VERSION_VARIABLE}" in capsys.readouterr().err
