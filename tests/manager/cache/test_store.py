import msgspec
import pytest

from manager.cache.store import ClusterStore


def node(version, uid="u1", **labels):
    return {"metadata": {"name": "n1", "uid": uid, "resourceVersion": str(version), "labels": labels}}


def test_an_older_version_never_replaces_a_newer_one():
    nodes = ClusterStore().nodes
    nodes.see(node(10, a="new"))
    nodes.see(node(9, a="old"))
    assert nodes.get("n1").metadata.labels == {"a": "new"}


def test_the_deletion_of_a_namesake_is_not_its_own():
    nodes = ClusterStore().nodes
    nodes.see(node(10, uid="u2"))
    nodes.forget("n1", "u1")
    assert nodes.get("n1") is not None
    nodes.forget("n1", "u2")
    assert nodes.get("n1") is None


def test_what_cannot_be_read_is_not_remembered():
    metrics = ClusterStore().node_metrics
    with pytest.raises(msgspec.ValidationError):
        metrics.see({"metadata": {"name": "n1"}, "status": {"updateTime": 7}})
    assert metrics.get("n1") is None
    assert len(metrics) == 0
