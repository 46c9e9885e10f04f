"""Cluster state: the node of each pod, from watches and bind calls."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state import blindness
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


def test_a_bind_call_does_not_override_the_watch(cluster):
    cluster.pod_changed(bound("n2"), NOW)
    assert not cluster.assume_pod(waiting(), "n1", NOW + 1)
    assert held_on(cluster) == {"uid-web-1": "n2"}


def test_an_unconfirmed_assumed_pod_expires(cluster, clock):
    cluster.assume_pod(waiting(), "n1", NOW)
    clock.seconds = 119
    assert cluster.expire_assumed() == 0
    clock.seconds = 120
    assert cluster.expire_assumed() == 1
    assert cpu(cluster) == 10_000


def test_forgets_an_assumed_pod_but_not_an_observed_one(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.forget_assumed(waiting())
    assert held_on(cluster) == {}
    cluster.pod_changed(bound(), NOW)
    cluster.forget_assumed(waiting())
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


def test_a_repeated_bind_call_renews_the_expiry_and_a_clock_that_was_set_does_not(cluster, clock):
    cluster.assume_pod(factories.pod("a"), "n1", NOW)
    clock.seconds = 50
    cluster.assume_pod(factories.pod("b"), "n1", NOW + 5_000)
    clock.seconds = 100
    cluster.assume_pod(factories.pod("a"), "n2", NOW - 5_000)
    clock.seconds = 170
    assert cluster.expire_assumed() == 1
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
    """Compare with a plain model: `shown` and `assumed` have for each name the UID of the pod that counts, its node.

    Late events of the pod whose place an assumed one took (`replaced`) change nothing.
    """
    clock = factories.Clock()
    cluster = factories.parts(assumed_ttl_seconds=10, monotonic=clock).cluster
    now, shown, assumed, replaced = NOW, {}, {}, {}
    for what, name, generation, node, *phase in taken:
        now += 1
        clock.seconds = now
        uid = f"{name}-{generation}"
        if what == "watch":
            is_late = name in assumed and replaced.get(name) == uid
            cluster.pod_changed(factories.pod(name, uid=uid, node=node, phase=phase[0]), now)
            if is_late:
                continue
            shown.pop(name, None)
            assumed.pop(name, None)
            if phase == ["Running"]:
                shown[name] = uid, node
        elif what == "assume":
            cluster.assume_pod(factories.pod(name, uid=uid), node, now)
            if shown.get(name, ("", ""))[0] != uid:
                counted_before = (shown.get(name) or assumed.get(name) or (uid,))[0]
                if counted_before != uid:
                    replaced[name] = counted_before
                elif name not in assumed:
                    replaced.pop(name, None)
                shown.pop(name, None)
                assumed[name] = uid, node, now + 10
        elif what == "retry":
            cluster.forget_assumed(factories.pod(name, uid=uid))
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


def test_late_events_of_a_statefulsets_last_pod_do_not_remove_its_assumed_successor():
    cluster = factories.parts().cluster
    for name in ("a", "b"):
        cluster.node_changed(factories.node(name))

    def counted():
        return [(entry.name, pod.uid) for entry in cluster.entries.values() for pod in entry.load.pods.values()]

    def last(**fields):
        return factories.pod("db-0", uid="old", node="a", requests={"cpu": "8"}, phase="Running", **fields)

    successor = factories.pod("db-0", uid="new", requests={"cpu": "8"})
    cluster.pod_changed(last(), NOW)
    cluster.assume_pod(successor, "a", NOW, ttl_seconds=5)
    cluster.assume_pod(successor, "b", NOW)
    cluster.pod_changed(last(scheduled=-5), NOW)
    cluster.pod_deleted("default", "db-0", "old")
    assert counted() == [("b", "new")]
    cluster.pod_changed(factories.pod("db-0", uid="third", node="a"), NOW)
    assert counted() == [("a", "third")]


def test_pods_that_a_served_scheduler_bound_without_a_filter_call_are_counted():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))

    def bound(name, scheduler, at):
        pod = factories.pod(name, node="n1", scheduled=at)
        spec = msgspec.structs.replace(pod.spec, scheduler_name=scheduler)
        parts.cluster.pod_changed(msgspec.structs.replace(pod, spec=spec), NOW)

    document = factories.pod_document("asked")
    document["spec"]["schedulerName"] = "koord-scheduler"
    bound("before-any-call", "koord-scheduler", -1)
    parts.extender.filter(factories.request(document, ["n1"]), NOW)
    parts.extender.reserve(NOW, 0.0)
    bound("asked", "koord-scheduler", 0)
    bound("another", "default-scheduler", 0)
    bound("long-ago", "koord-scheduler", -60)
    assert parts.cluster.unfiltered_pods == 0
    bound("skipped", "koord-scheduler", 0)
    assert parts.cluster.unfiltered_pods == 1


def test_pods_of_absurd_amounts_without_number_stop_no_event_of_their_node():
    """The sum of 1,300 amounts, each within 2^53, does not fit 64 bits."""
    clock = factories.Clock()
    parts = factories.parts(monotonic=clock)
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "10", "memory": "1Gi"}))
    assert parts.cluster.assume_pod(factories.pod("mine"), "n1", NOW, ttl_seconds=5)
    absurd = {"cpu": "9007199254740", "kubernetes.io/mid-cpu": "9007199254740992"}
    for index in range(1300):
        pod = factories.pod(f"x{index}", node="n1", requests={"cpu": "1m", **absurd}, limits=absurd)
        parts.cluster.pod_changed(pod, NOW)
    clock.seconds += 6
    assert parts.cluster.expire_assumed() == 1
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


MID = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}


TTL_SECONDS = 60


CATCH_UP_SECONDS = 30


@pytest.fixture
def cluster_of_a_quota(clock):
    made = factories.parts(monotonic=clock, assumed_ttl_seconds=TTL_SECONDS).cluster
    made.node_changed(factories.node("n1"))
    made.vectors.mid_quotas.namespace_changed("shop", '{"cpu": "20"}')
    return made


def assume(cluster_of_a_quota, name="batch", namespace="shop"):
    assert cluster_of_a_quota.assume_pod(factories.pod(name, namespace=namespace, requests=MID), "n1", NOW)


def test_a_pod_expires_once_a_silent_watch_had_time_to_catch_up(cluster_of_a_quota, clock):
    assume(cluster_of_a_quota)
    clock.seconds = 1_000
    assert cluster_of_a_quota.expire_assumed(blindness.SILENT_SECONDS + 1) == 0
    clock.seconds = 1_000 + CATCH_UP_SECONDS - 1
    assert cluster_of_a_quota.expire_assumed() == 0
    clock.seconds = 1_000 + CATCH_UP_SECONDS
    assert cluster_of_a_quota.expire_assumed() == 1


def test_a_pod_that_was_bound_after_the_last_event_does_not_expire(cluster_of_a_quota, clock):
    clock.seconds = 1_000
    assume(cluster_of_a_quota)
    clock.seconds = 1_000 + TTL_SECONDS
    assert cluster_of_a_quota.expire_assumed(TTL_SECONDS + 1) == 0
    assert cluster_of_a_quota.expire_assumed(TTL_SECONDS) == 1


LAST, NEXT = factories.pod("db-0", uid="last", node="a", phase="Running"), factories.pod("db-0", uid="next")


@pytest.fixture
def with_successor():
    with_successor = factories.parts().cluster
    with_successor.pod_changed(LAST, NOW)
    with_successor.assume_pod(NEXT, "b", NOW)
    return with_successor


def counted(with_successor):
    return [(entry.name, pod.uid) for entry in with_successor.entries.values() for pod in entry.load.pods.values()]


def retry(with_successor):
    with_successor.forget_assumed(NEXT)
    assert counted(with_successor) == []
    with_successor.assume_pod(NEXT, "c", NOW)


def test_a_retry_of_the_successor_keeps_late_events_of_the_last_pod_out(with_successor):
    for _ in range(2):
        retry(with_successor)
        with_successor.pod_changed(LAST, NOW)
        assert counted(with_successor) == [("c", "next")]
    with_successor.pod_deleted("default", "db-0", "last")
    assert counted(with_successor) == [("c", "next")]
