"""What is taken of a running cluster: samples of README.md, the choice of a node, and the sentence that says so."""

import re

import pytest

from e2e.console import running_cluster
from e2e.console.running_cluster import NotSuitable
from tests.koordctl import samples
from tests.koordctl.serving import kubeconfig_of

pytestmark = pytest.mark.slow

VERSION = "Kubernetes 1.34.4, koord-suite "


def node(name, mid, requested, age=5.0):
    return {"name": name, "mid": {"cpuMillis": mid}, "midRequests": {"cpuMillis": requested}, "sampleAgeSeconds": age}


def without_times(text):
    return re.sub(r"\d\d:\d\d:\d\d UTC", "", text)


def test_the_samples_of_the_readme_come_from_the_cluster_and_say_so(tmp_path, monkeypatch):
    readme = tmp_path / "README.md"
    readme.write_text(samples.README.read_text("utf-8"), encoding="utf-8")
    monkeypatch.setattr(running_cluster, "README", readme)
    with kubeconfig_of(tmp_path, **samples.routes()) as file:
        running_cluster.take(file, "a cluster of three nodes", None, None)
        once = readme.read_text("utf-8")
        running_cluster.take(file, "a cluster of three nodes", None, None)
    assert without_times(readme.read_text("utf-8")) == without_times(once)
    assert f"This is a cluster of three nodes ({VERSION}" in once
    assert samples.OF_TESTS not in once
    shown = dict(samples.samples(readme))
    assert list(shown) == ["koordctl status", "koordctl top nodes", "koordctl explain node worker-1"]
    assert shown["koordctl explain node worker-1"].startswith("worker-1 has 9.42 cores of Mid CPU")
    assert "SEVERITY" not in shown["koordctl status"]
    before, after = samples.README.read_text("utf-8"), once
    assert before.partition("<!-- samples -->")[0] == after.partition("<!-- samples -->")[0]
    assert before.partition("<!-- /samples -->")[2] == after.partition("<!-- /samples -->")[2]


def test_a_cluster_that_cannot_be_read_changes_no_page(tmp_path, monkeypatch):
    readme = tmp_path / "README.md"
    monkeypatch.setattr(running_cluster, "README", readme)
    with kubeconfig_of(tmp_path, nodes=None) as file, pytest.raises(NotSuitable, match="koordctl status: exit code 3"):
        running_cluster.take(file, "x", None, None)
    assert not readme.exists()


def test_the_measured_node_with_the_most_requested_mid_is_shown():
    nodes = [node("a", 9_000, 0), node("b", 2_000, 1_000), node("c", 3_000, 1_000), node("fake", 99_000, 9_000, None)]
    assert running_cluster.node_of(nodes) == "c"
    with pytest.raises(NotSuitable, match="no node of 2 has a report and Mid resources"):
        running_cluster.node_of([node("a", 0, 0), node("b", None, None)])


def test_the_page_of_the_console_says_of_what_its_pictures_are():
    text = running_cluster.PAGE.read_text("utf-8")
    changed = running_cluster.with_origin(text, "my cluster")
    assert "The pictures are of my cluster." in changed
    assert len(changed.splitlines()) == len(text.splitlines())
    with pytest.raises(NotSuitable, match="<!-- pictures -->"):
        running_cluster.with_origin("no block", "x")
