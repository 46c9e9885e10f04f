"""Cluster state: the node of each pod, as shown or assumed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state.pod_info import pod_digest
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

FOUR_CORES = {"cpu": "4", "memory": "1Gi"}


@pytest.fixture
def clock():
    return factories.Clock()


@pytest.fixture
def cluster(clock):
    cluster = factories.parts(monotonic=clock).cluster
    for name in ("n1", "n2"):
        cluster.node_changed(factories.node(name))
        cluster.metric_changed(factories.metric(name, usage={"cpu": "10", "memory": "1Gi"}))
    return cluster


def keep_all(slices):
    for _slice in slices:
        pass


def cpu(cluster, node="n1"):
    return cluster.entries[node].load.plain()[0]


def held_on(cluster):
    return {pod.uid: name for name, entry in cluster.entries.items() for pod in entry.load.pods.values()}


def bound(node="n1", **more):
    return factories.pod(node=node, requests=FOUR_CORES, **{"scheduled": -10, "phase": "Running", **more})


def waiting():
    return factories.pod(requests=FOUR_CORES)


def test_an_assumed_pod_counts_immediately(cluster):
    assert cluster.assume_pod(waiting(), "n1", NOW)
    assert cpu(cluster) == 10_000 + 3_400


def test_the_watch_confirms_an_assumed_pod_without_counting_twice(cluster, clock):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.pod_changed(bound(), NOW + 1)
    assert cpu(cluster) == 10_000 + 3_400
    clock.seconds = 10_000
    cluster.expire_assumed()
    assert held_on(cluster) == {"uid-web-1": "n1"}


def test_the_watch_moves_a_pod_that_was_bound_elsewhere(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.pod_changed(bound("n2"), NOW + 1)
    assert (cpu(cluster, "n1"), cpu(cluster, "n2")) == (10_000, 13_400)


def test_an_assumption_does_not_override_the_watch(cluster):
    cluster.pod_changed(bound("n2"), NOW)
    assert not cluster.assume_pod(waiting(), "n1", NOW + 1)
    assert held_on(cluster) == {"uid-web-1": "n2"}


def test_an_unconfirmed_assumed_pod_expires(cluster, clock):
    cluster.assume_pod(waiting(), "n1", NOW, 120)
    clock.seconds = 119
    cluster.expire_assumed()
    assert held_on(cluster) == {"uid-web-1": "n1"}
    clock.seconds = 120
    cluster.expire_assumed()
    assert cpu(cluster) == 10_000


def test_forgets_an_assumed_pod_but_not_an_observed_one(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.stop_assuming("default/web-1", "uid-web-1")
    assert held_on(cluster) == {}
    cluster.pod_changed(bound(), NOW)
    cluster.stop_assuming("default/web-1", "uid-web-1")
    assert held_on(cluster) == {"uid-web-1": "n1"}


def test_a_reservation_placeholder_does_not_count(cluster):
    cluster.pod_changed(bound(annotations={"scheduling.koordinator.sh/reserve-pod": "true"}), NOW)
    assert held_on(cluster) == {}


def test_a_list_drops_missing_pods_but_not_assumed_ones(cluster):
    cluster.pod_changed(bound(name="a"), NOW)
    cluster.pod_changed(bound(name="b"), NOW)
    cluster.assume_pod(factories.pod(name="c"), "n1", NOW)
    keep_all(cluster.keep_pods({pod_digest("default", "b")}))
    assert held_on(cluster) == {"uid-b": "n1", "uid-c": "n1"}


def test_a_pod_re_created_during_a_watch_outage_replaces_the_old_one(cluster):
    cluster.pod_changed(bound(uid="old"), NOW)
    cluster.pod_changed(bound("n2", uid="new"), NOW)
    keep_all(cluster.keep_pods({pod_digest("default", "web-1")}))
    assert held_on(cluster) == {"new": "n2"}


def test_handles_absurd_amounts(cluster):
    for name in "abc":
        absurd = {"cpu": "1e999", "memory": "8Ei", "kubernetes.io/mid-cpu": "9E", "kubernetes.io/mid-memory": "1e300"}
        cluster.pod_changed(factories.pod(name, node="n1", requests=absurd, limits=absurd), NOW)
    cluster.node_changed(factories.node("n1", cpu="1e999", memory="9E", **{"kubernetes.io/mid-cpu": "1e999"}))
    assert set(held_on(cluster)) == {"uid-a", "uid-b", "uid-c"}
    for name in "abc":
        cluster.pod_deleted("default", name, f"uid-{name}")
    assert cpu(cluster) == 10_000


def test_a_late_deletion_of_an_older_pod_leaves_the_newer_one_of_that_name_alone(cluster):
    cluster.pod_changed(bound(uid="old"), NOW)
    cluster.pod_changed(bound("n2", uid="new"), NOW)
    cluster.pod_deleted("default", "web-1", "old")
    assert held_on(cluster) == {"new": "n2"}
    cluster.pod_deleted("default", "web-1", "new")
    assert held_on(cluster) == {}


def test_a_repeated_choice_renews_the_expiry_and_a_clock_that_was_set_does_not(cluster, clock):
    cluster.assume_pod(factories.pod("a"), "n1", NOW, 120)
    clock.seconds = 50
    cluster.assume_pod(factories.pod("b"), "n1", NOW + 5_000, 120)
    clock.seconds = 100
    cluster.assume_pod(factories.pod("a"), "n2", NOW - 5_000, 120)
    clock.seconds = 170
    cluster.expire_assumed()
    assert held_on(cluster) == {"uid-a": "n2"}


pod_names, generations = st.sampled_from(["a", "b", "c"]), st.integers(0, 2)


nodes = st.sampled_from(["n1", "n2", "n3"])


events = st.lists(
    st.tuples(st.just("watch"), pod_names, generations, nodes, st.sampled_from(["Running", "Succeeded"]))
    | st.tuples(st.sampled_from(["assume", "retry", "delete", "delete name", "time"]), pod_names, generations, nodes),
    max_size=25,
)


@given(events)
def test_after_any_events_a_pod_counts_on_one_node_at_most_and_the_watch_decides(taken):
    """Compare with a plain model: `shown` and `assumed` have for each name the UID of the pod that counts, its node."""
    clock = factories.Clock()
    cluster = factories.parts(monotonic=clock).cluster
    now, shown, assumed = NOW, {}, {}
    for what, name, generation, node, *phase in taken:
        now += 1
        clock.seconds = now
        uid = f"{name}-{generation}"
        if what == "watch":
            cluster.pod_changed(factories.pod(name, uid=uid, node=node, phase=phase[0]), now)
            shown.pop(name, None)
            assumed.pop(name, None)
            if phase == ["Running"]:
                shown[name] = uid, node
        elif what == "assume":
            cluster.assume_pod(factories.pod(name, uid=uid), node, now, 10)
            if shown.get(name, ("", ""))[0] != uid:
                shown.pop(name, None)
                assumed[name] = uid, node, now + 10
        elif what == "retry":
            cluster.stop_assuming(f"default/{name}", uid)
            if assumed.get(name, ("",))[0] == uid:
                del assumed[name]
        elif what == "time":
            clock.seconds = now = now + 5
            cluster.expire_assumed()
            assumed = {name: value for name, value in assumed.items() if value[2] > now}
        else:
            cluster.pod_deleted("default", name, uid if what == "delete" else None)
            for known in (shown, assumed):
                if name in known and (what == "delete name" or known[name][0] == uid):
                    del known[name]
        counted = [(pod.uid, name) for name, entry in cluster.entries.items() for pod in entry.load.pods.values()]
        assert sorted(counted) == sorted(value[:2] for value in (*shown.values(), *assumed.values()))
        assert cluster.counts() == {
            "nodes": 0,
            "node_metrics": 0,
            "pods": len(counted),
            "unconfirmed_pods": len(assumed),
        }
    clock.seconds = now + 20
    cluster.expire_assumed()
    assert held_on(cluster) == dict(shown.values())


def test_holds_no_annotation_that_is_too_long(cluster):
    long = {"node.koordinator.sh/reservation": "x" * 2**18, "scheduling.koordinator.sh/usage-thresholds": "{}"}
    cluster.node_changed(factories.node("n1", annotations=long))
    assert cluster.entries["n1"].node.metadata.annotations == {"scheduling.koordinator.sh/usage-thresholds": "{}"}


def test_pods_of_absurd_amounts_without_number_stop_no_event_of_their_node():
    """The sum of 1,300 amounts, each within 2^53, does not fit 64 bits."""
    clock = factories.Clock()
    parts = factories.parts(monotonic=clock)
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "10", "memory": "1Gi"}))
    assert parts.cluster.assume_pod(factories.pod("mine"), "n1", NOW, 5)
    absurd = {"cpu": "9007199254740", "kubernetes.io/mid-cpu": "9007199254740992"}
    for index in range(1300):
        pod = factories.pod(f"x{index}", node="n1", requests={"cpu": "1m", **absurd}, limits=absurd)
        parts.cluster.pod_changed(pod, NOW)
    clock.seconds += 6
    parts.cluster.expire_assumed()
    body = factories.request(factories.pod_document("web", requests={"cpu": "1"}), ["n1"])
    assert json.loads(parts.extender.filter(body, NOW))["NodeNames"] == []
    for index in range(1300):
        parts.cluster.pod_deleted("default", f"x{index}")
    assert json.loads(parts.extender.filter(body, NOW))["NodeNames"] == ["n1"]


def test_pods_whose_authors_scale_estimates_below_nothing_stop_no_event_of_their_node():
    parts = factories.parts({"allowCustomizeEstimation": True})
    parts.cluster.node_changed(factories.node("n1"))
    factors = {"scheduling.koordinator.sh/load-estimated-scaling-factors": json.dumps({"cpu": -(2**62)})}
    for index in range(1100):
        pod = factories.pod(f"x{index}", node="n1", requests={"cpu": "1"}, annotations=factors)
        parts.cluster.pod_changed(pod, NOW)
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "90", "memory": "1Gi"}))
    body = factories.request(factories.pod_document("web", requests={"cpu": "1"}), ["n1"])
    assert json.loads(parts.extender.filter(body, NOW))["NodeNames"] == []
