"""Command lines and configuration of the local cluster's programs."""

import re
from pathlib import Path

import pytest

from tools.localcluster import control_plane, go_binaries, layout, node
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
def test_a_folder_of_another_version_pins_the_programs_of_that_version(folder):
    go_mod = (folder / "go.mod").read_text()
    assert go_binaries.kubernetes_version(go_mod).startswith(f"v{folder.name}.")
    flags = go_binaries.linker_flags(go_mod)
    assert f"-X k8s.io/component-base/version.gitMinor={folder.name.partition('.')[2]}" in flags
    staged = set(re.findall(r"k8s.io/\S+ => k8s.io/\S+ (v\S+)", go_mod))
    assert staged == {go_binaries.kubernetes_version(go_mod).replace("v1.", "v0.")}


def test_a_go_mod_without_kubernetes_is_refused_by_name():
    with pytest.raises(ClusterProblem, match=r"no version of k8s.io/kubernetes is required"):
        go_binaries.linker_flags("module x\n\nrequire helm.sh/helm/v3 v3.19.5\n")


@pytest.mark.parametrize("go_mod", sorted(go_binaries.MODULE.rglob("go.mod")), ids=lambda file: file.parent.name)
def test_every_binary_is_a_tool_of_each_module(go_mod):
    text = go_mod.read_text()
    for package in go_binaries.PACKAGES.values():
        assert f"\t{package}\n" in text


def test_nothing_listens_beyond_loopback_and_the_bridge():
    kubelet = node.kubelet_configuration(PLACES)
    assert {kubelet["address"], kubelet["healthzBindAddress"]} == {layout.HOST_ADDRESS, "127.0.0.1"}
    for program in PROGRAMS:
        for word in program.argv:
            name, _, value = word.partition("=")
            if name.endswith(("bind-address", "listen-client-urls", "listen-peer-urls")):
                assert "127.0.0.1" in value or value == layout.HOST_ADDRESS, word
