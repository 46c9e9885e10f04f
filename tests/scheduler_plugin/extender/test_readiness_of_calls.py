"""Calls before and after the caches are synced, and what is counted of each."""

import json

import pytest

from scheduler_plugin.extender import dispatcher, metrics
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

BODY = factories.request(factories.pod_document(), ["n1"])


class Scene:
    """A dispatcher over an extender with one node, and its metrics."""

    def __init__(self, unsynced=()):
        self.unsynced = list(unsynced)
        self.registry = metrics.CollectorRegistry()
        parts = factories.parts()
        parts.cluster.node_changed(factories.node("n1"))
        counted = metrics.RequestMetrics(self.registry)
        self.dispatch = dispatcher.Dispatcher(parts.extender, counted, lambda: self.unsynced, lambda: NOW)

    def call(self, path="/filter", body=BODY):
        response = self.dispatch("POST", path, body)
        response.then()
        return response.status, json.loads(response.body)

    def counts(self):
        found = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name.endswith("_requests_total") and sample.value:
                    found[sample.labels["verb"], sample.labels["outcome"]] = sample.value
        return found

    def seconds(self, verb):
        name = "koord_scheduler_plugin_request_duration_seconds_sum"
        return self.registry.get_sample_value(name, {"verb": verb})


def test_calls_are_answered_once_the_first_lists_are_there_and_from_then_on():
    scene = Scene(unsynced=["nodes", "pods"])
    assert scene.call() == (503, {"Error": "not ready: waiting for the first list of nodes, pods"})
    scene.unsynced = []
    assert scene.call()[0] == 200
    scene.unsynced = ["pods"]
    assert scene.call() == (200, {"NodeNames": ["n1"]})


@pytest.mark.parametrize(
    ("path", "body", "counted"),
    [
        ("/filter", BODY, ("filter", "ok")),
        ("/prioritize", BODY, ("prioritize", "ok")),
        ("/prioritize", b"{", ("prioritize", "bad_request")),
        ("/bind", b"[]", ("bind", "bad_request")),
    ],
)
def test_each_call_is_counted_by_its_verb_and_outcome(path, body, counted):
    scene = Scene()
    scene.call(path, body)
    assert scene.counts() == {counted: 1}


def test_a_call_before_the_first_lists_is_counted_as_not_ready():
    scene = Scene(unsynced=["pods"])
    scene.call()
    assert scene.counts() == {("filter", "not_ready"): 1}


def test_the_duration_of_a_call_is_that_between_its_begin_and_its_end(monkeypatch):
    readings = iter([100.0, 100.25])
    monkeypatch.setattr(dispatcher.time, "perf_counter", lambda: next(readings))
    scene = Scene()
    scene.call()
    assert scene.seconds("filter") == 0.25
    assert scene.seconds("prioritize") == 0
