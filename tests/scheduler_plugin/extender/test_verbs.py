"""Verbs of the extender: bytes in and bytes out."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.extender.verbs import BadExtenderCall
from scheduler_plugin.plugins.load_aware.plugin import LoadAware
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

HOT = "node(s) cpu usage exceed threshold"


POD = factories.pod_document(requests={"cpu": "1", "memory": "1Gi"})


def populated():
    parts = factories.parts()
    for name, cpu in (("cool", "10"), ("warm", "40"), ("hot", "90")):
        parts.cluster.node_changed(factories.node(name))
        parts.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "10Gi"}))
    return parts


parts = pytest.fixture(populated, name="parts")


def call(verb, pod, names, now=NOW):
    return json.loads(verb(factories.request(pod, names), now))


def bind(parts, node, uid="uid-web-1", now=NOW):
    binding = {"PodName": "web-1", "PodNamespace": "default", "PodUID": uid, "Node": node}
    return json.loads(parts.extender.bind(json.dumps(binding).encode(), now))


def scores(parts, names=("cool", "warm"), now=NOW):
    return {entry["Host"]: entry["Score"] for entry in call(parts.extender.prioritize, POD, list(names), now)}


def test_filter_returns_unresolvable_reasons_if_no_node_passes(parts):
    answer = call(parts.extender.filter, POD, ["hot"])
    assert answer == {"NodeNames": [], "FailedAndUnresolvableNodes": {"hot": HOT}}


def test_the_nominated_node_is_resolvable_so_that_kube_scheduler_waits_for_the_victims_there(parts):
    parts.cluster.metric_changed(factories.metric("warm", usage={"cpu": "90", "memory": "1Gi"}))
    nominated = {**POD, "status": {"nominatedNodeName": "hot"}}
    answer = call(parts.extender.filter, nominated, ["hot", "warm"])
    assert answer["FailedNodes"] == {"hot": HOT}
    assert answer["FailedAndUnresolvableNodes"].keys() == {"warm"}


def test_an_unknown_node_passes_without_a_score_and_does_not_shift_the_others(parts):
    names = ["nowhere", "cool", "hot", "warm"]
    assert call(parts.extender.filter, POD, names) == {"NodeNames": ["nowhere", "cool", "warm"]}
    assert scores(parts, ["nowhere", "warm", "cool"]).keys() == {"warm", "cool"}


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_whole_nodes_are_refused_with_the_setting_to_change(parts, verb):
    body = json.dumps({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "hot"}}]}, "NodeNames": None}).encode()
    with pytest.raises(BadExtenderCall, match="nodeCacheCapable: true"):
        getattr(parts.extender, verb)(body, NOW)


def preempt(parts, pod, candidates):
    """Return the nodes that stay candidates; `candidates` maps a node to the UIDs of its victims."""
    victims = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 2} for name, uids in candidates.items()
    }
    body = json.dumps({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}).encode()
    left = json.loads(parts.extender.preempt(body, NOW))["NodeNameToMetaVictims"]
    assert all(left[name] == victims[name] for name in left)
    return list(left)


def test_preemption_removes_the_nodes_that_filter_rejects_whoever_the_victims_are(parts):
    victim = factories.pod("victim", node="hot", requests={"cpu": "80", "memory": "1Gi"}, scheduled=-1000)
    parts.cluster.pod_changed(victim, NOW)
    candidates = {"hot": ["uid-victim"], "cool": ["any"], "nowhere": ["any"]}
    assert preempt(parts, POD, candidates) == ["cool", "nowhere"]
    assert parts.extender.preemption_candidates == {"kept": 2, "removed": 1}


def offer_mid(parts, name):
    """Add a node with 8 cores of Mid."""
    status = {
        "allocated": {"prod": {"cpu": "0", "memory": "0"}, "mid": {}},
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "8", "memory": "8Gi"}}},
    }
    usage, policy = {"cpu": "10", "memory": "10Gi"}, {"midColocationPolicy": {"enable": True}}
    parts.cluster.node_changed(factories.node(name))
    parts.cluster.metric_changed(factories.metric(name, usage=usage, status=status, spec=policy))


@pytest.mark.parametrize(("count", "victims", "kept"), [(1100, 1100, []), (200, 100, []), (200, 200, ["n1"])])
def test_preemption_withstands_victims_of_absurd_amounts(parts, count, victims, kept):
    """Any number of pods may name a node; the sum of 1,100 of the largest amounts does not fit 64 bits."""
    offer_mid(parts, "n1")
    for index in range(count):
        mid = {"kubernetes.io/mid-cpu": str(2**53)}
        parts.cluster.pod_changed(factories.pod(f"x{index}", node="n1", requests=mid, priority=7000), NOW)
    unlimited = {"koordinator.sh/skip-load-aware": "true"}
    pod = factories.pod_document("new", requests={"kubernetes.io/mid-cpu": "4000"}, priority=7999, labels=unlimited)
    assert preempt(parts, pod, {"n1": [f"uid-x{index}" for index in range(victims)]}) == kept


def test_the_prepared_response_equals_a_computed_one(parts):
    fresh = scores(parts)
    call(parts.extender.filter, POD, ["cool", "warm"])
    parts.extender.prepare()
    prepared, _placement = parts.extender._pending.response_to(
        factories.request(POD, ["cool", "warm"]), parts.vectors, NOW
    )
    assert {entry["Host"]: entry["Score"] for entry in json.loads(prepared)} == fresh
    assert scores(parts) == fresh


@given(st.lists(st.integers(0, 60), min_size=1, max_size=30), st.integers(1, 12))
def test_a_short_list_has_the_best_nodes_in_their_order(cpus, size):
    parts = factories.parts(short_list=size)
    names = [f"n{index}" for index in range(len(cpus))]
    for name, cpu in zip(names, cpus, strict=True):
        parts.cluster.node_changed(factories.node(name))
        parts.cluster.metric_changed(factories.metric(name, usage={"cpu": str(cpu), "memory": "10Gi"}))
    found = scores(parts, names)
    passed = call(parts.extender.filter, POD, names)["NodeNames"]
    assert passed == [name for name in names if name in passed]
    assert sorted(found[name] for name in passed) == sorted(found.values())[-size:]


def test_bind_is_recorded_and_left_to_kube_scheduler(parts):
    call(parts.extender.filter, POD, ["cool", "warm"])
    before = scores(parts)["cool"]
    error = "binding recorded; kube-scheduler binds the pod (this extender is ignorable)"
    assert bind(parts, "cool") == {"Error": error}
    twin = call(
        parts.extender.prioritize, factories.pod_document("twin", requests={"cpu": "1", "memory": "1Gi"}), ["cool"]
    )
    assert twin[0]["Score"] < before


def test_filtering_a_pod_again_forgets_the_assumed_one(parts):
    call(parts.extender.filter, POD, ["cool"])
    bind(parts, "cool")
    call(parts.extender.filter, POD, ["cool"])
    assert parts.cluster.counts()["unconfirmed_pods"] == 0


def test_a_plugin_that_fails_on_a_node_does_not_break_the_response(parts, monkeypatch):
    def fail(_plugin, _entry):
        raise OverflowError

    monkeypatch.setattr(LoadAware, "write", fail)
    with pytest.raises(OverflowError):
        parts.cluster.node_changed(factories.node("odd"))
    assert call(parts.extender.filter, POD, ["cool", "odd"]) == {"NodeNames": ["cool", "odd"]}
    assert {entry["Host"] for entry in call(parts.extender.prioritize, POD, ["cool", "odd"])} == {"cool", "odd"}


def test_a_burst_spreads_over_equal_nodes_because_assumed_pods_count():
    parts = factories.parts()
    names = [f"n{index}" for index in range(5)]
    for name in names:
        parts.cluster.node_changed(factories.node(name, cpu="20"))
        parts.cluster.metric_changed(factories.metric(name, usage={"cpu": "1", "memory": "1Gi"}))
    placed = dict.fromkeys(names, 0)
    for index in range(20):
        pod = factories.pod_document(f"burst-{index}", requests={"cpu": "1", "memory": "1Gi"})
        passing = call(parts.extender.filter, pod, names)["NodeNames"]
        best = max(call(parts.extender.prioritize, pod, passing), key=lambda entry: entry["Score"])["Host"]
        bind(parts, best, uid=pod["metadata"]["uid"])
        placed[best] += 1
    assert set(placed.values()) == {4}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"Pod": 5}',
        b'{"Pod": {"spec": {"containers": 5}}}',
        b'{"Pod": {}, "NodeNames": [1]}',
        b"\xff\xfe",
        b'{"x":' * 50_000 + b"1" + b"}" * 50_000,
    ],
)
def test_refuses_a_malformed_body_with_a_message(parts, body):
    with pytest.raises(BadExtenderCall, match="cannot decode the request body"):
        parts.extender.filter(body, NOW)


def test_a_pod_with_malformed_quantities_is_filtered_without_its_own_load(parts):
    broken = factories.pod_document(requests={"cpu": "lots"})
    assert call(parts.extender.filter, broken, ["cool", "hot"]) == {"NodeNames": ["cool"]}
    assert call(parts.extender.prioritize, broken, ["cool"]) == [{"Host": "cool", "Score": 0}]


FUZZED = populated()


REQUEST = factories.request(POD, ["cool", "warm", "hot", "nowhere"])


damage = st.lists(st.tuples(st.integers(0, len(REQUEST)), st.integers(0, 40), st.binary(max_size=8)), max_size=3)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


def damaged(cuts):
    body = REQUEST
    for at, length, inserted in cuts:
        body = body[:at] + inserted + body[at + length :]
    return body


@settings(max_examples=300)
@given(
    st.binary(max_size=200) | damage.map(damaged) | json_values.map(lambda value: json.dumps({"Pod": value}).encode())
)
def test_any_bytes_give_json_or_are_refused(body):
    extender = FUZZED.extender
    for verb in (extender.filter, extender.prioritize, extender.bind):
        with contextlib.suppress(BadExtenderCall):
            json.loads(verb(body, NOW))
        extender.prepare()
