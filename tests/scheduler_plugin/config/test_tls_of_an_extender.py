"""Advice on the TLS settings of an extender, and on the weights beside it."""

import pytest

from scheduler_plugin.config import kube_scheduler

DEFAULTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


OWN = [{"urlPrefix": "http://127.0.0.1:10261"}]


def found(last, **document):
    return [each for each in kube_scheduler.problems(document) if each.path[-1] == last]


@pytest.mark.parametrize(
    ("tls", "is_advised"),
    [
        (None, True),
        ({}, True),
        ({"serverName": "x"}, True),
        ({"insecure": False}, True),
        ({"caFile": "/ca.crt"}, False),
        ({"caData": "Y2E="}, False),
        ({"insecure": True}, False),
    ],
)
def test_any_way_to_choose_the_trusted_server_is_enough(tls, is_advised):
    extender = {"urlPrefix": "https://x:1", "enableHTTPS": True, "tlsConfig": tls}
    assert bool(found("tlsConfig", extenders=[extender])) is is_advised
    assert not found("tlsConfig", extenders=[{**extender, "enableHTTPS": False}])


def weighted(factor, names=DEFAULTS, point="multiPoint"):
    entries = [{"name": name, "weight": factor * DEFAULTS[name]} for name in names]
    return {"plugins": {point: {"enabled": entries}}}


@pytest.mark.parametrize("point", ["multiPoint", "score"])
def test_weights_of_ten_times_the_default_need_no_advice(point):
    assert found("plugins", profiles=[weighted(10, point=point)], extenders=OWN) == []


@pytest.mark.parametrize("point", ["multiPoint", "score"])
def test_default_weights_that_are_written_out_are_named(point):
    (problem,) = found("plugins", profiles=[weighted(1, point=point)], extenders=OWN)
    assert problem.wanted.startswith("ten times the default weights: ")


def test_weights_that_are_left_at_their_default_are_named_with_ten_times_that():
    written = [name for name in DEFAULTS if name not in ("TaintToleration", "NodeAffinity")]
    (problem,) = found("plugins", profiles=[weighted(10, written)], extenders=OWN)
    assert problem.wanted.startswith("ten times the default weights (TaintToleration 30, NodeAffinity 20): ")


def test_a_plugin_without_a_weight_is_at_its_default_and_a_disabled_one_has_none():
    plugins = {
        "multiPoint": {"enabled": [{"name": name} for name in DEFAULTS]},
        "score": {"disabled": [{"name": name} for name in DEFAULTS if name != "NodeAffinity"]},
    }
    (problem,) = found("plugins", profiles=[{"plugins": plugins}], extenders=OWN)
    assert problem.wanted.startswith("ten times the default weights (NodeAffinity 20): ")
    assert found("plugins", profiles=[{"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}], extenders=OWN) == []
