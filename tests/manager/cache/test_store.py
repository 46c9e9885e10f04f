from manager.cache.store import ClusterStore, NodeMetricStore


def node(version, uid="u1", **labels):
    return {"metadata": {"name": "n1", "uid": uid, "resourceVersion": str(version), "labels": labels}}


def test_an_older_version_never_replaces_a_newer_one():
    nodes = ClusterStore().nodes
    nodes.update(nodes.decode(node(10, a="new")))
    nodes.update(nodes.decode(node(9, a="old")))
    assert nodes.get("n1").metadata.labels == {"a": "new"}


def test_the_deletion_of_an_earlier_object_of_the_same_name_is_ignored():
    nodes = ClusterStore().nodes
    nodes.update(nodes.decode(node(10, uid="u2")))
    nodes.remove("n1", "u1")
    assert nodes.get("n1") is not None
    nodes.remove("n1", "u2")
    assert nodes.get("n1") is None


def test_an_object_is_stored_until_its_deletion_whatever_its_version():
    nodes = ClusterStore().nodes
    answer = nodes.decode(node(11))
    nodes.update(nodes.decode(node(10)))
    assert nodes.update(answer, only_known=True)
    nodes.remove("n1", "u1")
    assert not nodes.update(answer, only_known=True)
    nodes.update(nodes.decode(node(9, uid="u2")))
    assert not nodes.update(answer, only_known=True)


def test_equal_specs_are_one_object_and_other_ones_stay_apart():
    def stored(name, interval):
        metrics.update(metrics.decode({"metadata": {"name": name}, "spec": {"a": {"interval": interval, "also": [1]}}}))
        return metrics.get(name).spec

    metrics = ClusterStore().node_metrics
    first, second, other = stored("n1", 60), stored("n2", 60), stored("n3", 61)
    assert first is second
    assert (first, other) == ({"a": {"interval": 60, "also": [1]}}, {"a": {"interval": 61, "also": [1]}})
    large = "x" * 20_000
    assert stored("n4", large) == stored("n5", large)
    assert stored("n4", large) is not stored("n5", large)


def evaluated(name, version, predictor="max", **fields):
    scores = {"forecasts": 4.0, "violationPercent": 25.0, "savingsPercent": 50.0}
    status = {"prediction": {"evaluation": [{"predictor": predictor, "cpu": scores}]}}
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return NodeMetricStore().decode({"metadata": metadata, "status": status, **fields})


def test_the_evaluation_of_a_node_metric_is_that_of_its_newest_version_and_ends_with_it():
    def predictors():
        return [each.predictors for each in metrics.evaluations()]

    metrics = NodeMetricStore()
    assert metrics.update(evaluated("n1", 5))
    assert not metrics.update(evaluated("n1", 4, "percentile"))
    assert predictors() == [("max",)]
    assert metrics.get("n1").status.prediction is None, "packed"
    metrics.update(evaluated("n1", 6, status={"updateTime": "2026-11-21T12:00:00Z"}))
    assert predictors() == []
    metrics.update(evaluated("n1", 7))
    metrics.remove("n1", "of another object")
    assert predictors() == [("max",)]
    metrics.remove("n1", "uid-n1")
    assert predictors() == []
    metrics.update(evaluated("n1", 8))
    metrics.replace([evaluated("n2", 1, "percentile")])
    assert predictors() == [("percentile",)]
