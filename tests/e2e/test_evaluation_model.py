"""The reference model of the live evaluation agrees with the agent on given usage, across a restart."""

import json

import pytest

from e2e.support.evaluation_model import Recording
from koordlet.metrics import debug_pages
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

HORIZON = 900
PREDICTORS = ("n-sigma-v2", "borg-default")


def node():
    policy = {"coldStartPeriodSeconds": 0, "horizonSeconds": HORIZON, "evaluatedPredictors": list(PREDICTORS)}
    return FedNode(StaticCluster(bound_pod("a"), bound_pod("b"), spec={"predictPolicy": policy}))


def usage(step):
    seldom = UsageSample(1.2 if step // 63 % 2 else 0.1, 0.9 * GIB if step > 150 else 0.2 * GIB)
    return {"a": seldom, "b": UsageSample(0.1 * (step % 5), GIB / 4)}, UsageSample(0.6, 1.1 * GIB)


def page(of):
    return json.loads(b"".join(debug_pages.pieces(debug_pages.inputs(of.reports))))


def test_the_model_agrees_with_the_agent():
    recording = Recording()
    first = node()
    for step in first.run(1500, usage):
        if step % 60 == 59:
            recording.add(page(first))
    recording.add(page(first))
    second = node()
    second.now, second.boot_seconds = first.now + 20, first.boot_seconds + 20
    second.observer.server.restore(first.observer.server.export())
    stored = first.observer.evaluation.export(first.now, first.boot_seconds)
    second.observer.evaluation.restore(stored, second.now, second.boot_seconds)
    for step in second.run(1500, lambda step: usage(step + 150)):
        if step % 60 == 59:
            recording.add(page(second))
    recording.add(page(second))
    assert len(recording.closed) == 3
    published = second.report()["prediction"]["evaluation"]
    assert [each["predictor"] for each in published] == list(PREDICTORS)
    for entry in published:
        for resource in ("cpu", "memory"):
            expected = recording.scores(entry["predictor"], resource)
            assert entry[resource].keys() == expected.keys()
            assert entry[resource]["forecasts"] == pytest.approx(expected.pop("forecasts"), abs=0.06)
            for name, value in expected.items():
                assert entry[resource][name] == pytest.approx(value, abs=0.02), (entry["predictor"], resource, name)
    assert {entry["cpu"]["violationPercent"] > 0 for entry in published} == {True, False}
