"""Verbs of the extender: bytes in and bytes out."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.extender.verbs import BadExtenderCall
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

HOT = "node(s) cpu usage exceed threshold"


POD = factories.pod_document(requests={"cpu": "1", "memory": "1Gi"})


def populated(clock=None):
    parts = factories.parts(monotonic=clock)
    for name, cpu in (("cool", "10"), ("warm", "40"), ("hot", "90")):
        parts.cluster.node_changed(factories.node(name))
        parts.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "10Gi"}))
    return parts


@pytest.fixture
def clock():
    return factories.Clock()


@pytest.fixture
def parts():
    return populated()


def call(verb, pod, names, now=NOW):
    return json.loads(verb(factories.request(pod, names), now))


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


def test_a_pod_counts_on_its_expected_node_until_it_is_shown_asked_about_again_or_its_time_is_over(clock):
    parts = populated(clock)

    def counted():
        return [name for name, entry in parts.cluster.entries.items() if entry.load.pods]

    scores(parts)
    assert counted() == ["cool"]
    parts.extender.shown(factories.pod(node="warm", phase="Running"), NOW)
    assert counted() == ["warm"]
    parts.cluster.pod_deleted("default", "web-1")
    assert call(parts.extender.filter, POD, ["warm"]) == {"NodeNames": ["warm"]}
    assert counted() == ["warm"]
    call(parts.extender.filter, POD, ["hot"])
    assert counted() == []
    scores(parts)
    clock.seconds += 31
    parts.cluster.expire_assumed()
    assert counted() == []


def test_the_record_of_a_decision_has_the_node_on_which_the_watch_shows_the_pod(parts):
    call(parts.extender.filter, POD, ["cool", "warm"])
    scores(parts)
    for _ in range(2):
        parts.extender.shown(factories.pod(node="warm", phase="Running"), NOW)
    assert parts.records.decisions("default/web-1")[0].node == "warm"
    assert sum(parts.records.choices.values()) == parts.records.choices["other"] == 1


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
    for verb in (extender.filter, extender.prioritize, extender.preempt):
        with contextlib.suppress(BadExtenderCall):
            json.loads(verb(body, NOW))
