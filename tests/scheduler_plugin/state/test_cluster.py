"""Where pods count, as watches and bind notices tell it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state.pod_info import pod_digest
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

FOUR_CORES = {"cpu": "4", "memory": "1Gi"}


@pytest.fixture
def cluster():
    cluster = factories.parts().cluster
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


def test_a_bind_notice_counts_at_once(cluster):
    assert cluster.assume_pod(waiting(), "n1", NOW)
    assert cpu(cluster) == 10_000 + 3_400


def test_the_watch_confirms_a_notice_without_counting_twice(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.pod_changed(bound(), NOW + 1)
    assert cpu(cluster) == 10_000 + 3_400
    cluster.expire_assumed(NOW + 10_000)
    assert held_on(cluster) == {"uid-web-1": "n1"}


def test_the_watch_moves_a_pod_that_was_bound_elsewhere(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.pod_changed(bound("n2"), NOW + 1)
    assert (cpu(cluster, "n1"), cpu(cluster, "n2")) == (10_000, 13_400)


def test_a_notice_does_not_overrule_the_watch(cluster):
    cluster.pod_changed(bound("n2"), NOW)
    assert not cluster.assume_pod(waiting(), "n1", NOW + 1)
    assert held_on(cluster) == {"uid-web-1": "n2"}


def test_a_notice_nobody_confirms_is_let_go(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    assert cluster.expire_assumed(NOW + 119) == 0
    assert cluster.expire_assumed(NOW + 120) == 1
    assert cpu(cluster) == 10_000


def test_a_pod_asked_about_again_was_not_bound(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.forget_assumed(waiting())
    assert held_on(cluster) == {}
    cluster.pod_changed(bound(), NOW)
    cluster.forget_assumed(waiting())
    assert held_on(cluster) == {"uid-web-1": "n1"}


def test_the_same_notice_twice_counts_once(cluster):
    cluster.assume_pod(waiting(), "n1", NOW)
    cluster.assume_pod(waiting(), "n1", NOW)
    assert cpu(cluster) == 13_400


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_counts_no_more(cluster, phase):
    cluster.pod_changed(bound(), NOW)
    cluster.pod_changed(bound(phase=phase), NOW)
    assert held_on(cluster) == {}


def test_a_pod_whose_phase_is_unknown_still_counts(cluster):
    cluster.pod_changed(bound(phase="Unknown"), NOW)
    assert held_on(cluster) == {"uid-web-1": "n1"}


def test_a_reservation_placeholder_does_not_count(cluster):
    cluster.pod_changed(bound(annotations={"scheduling.koordinator.sh/reserve-pod": "true"}), NOW)
    assert held_on(cluster) == {}


def test_a_repeated_update_does_not_renew_the_timestamp(cluster):
    cluster.pod_changed(bound(scheduled=None), NOW)
    cluster.pod_changed(bound(scheduled=None, labels={"new": "label"}), NOW + 500)
    assert cluster.entries["n1"].load.pods["default/web-1"].timestamp == NOW


def test_a_new_condition_renews_the_record(cluster):
    cluster.pod_changed(bound(scheduled=None), NOW)
    cluster.pod_changed(bound(scheduled=-7), NOW + 500)
    assert cluster.entries["n1"].load.pods["default/web-1"].timestamp == NOW - 7


def test_a_deletion_ends_a_pod_wherever_it_counts(cluster):
    cluster.pod_changed(bound("n2"), NOW)
    cluster.pod_deleted("default", "web-1", "uid-web-1")
    cluster.pod_deleted("default", "web-1", "uid-web-1")
    assert held_on(cluster) == {}


def test_a_list_drops_what_it_does_not_hold_but_not_what_was_only_noticed(cluster):
    cluster.pod_changed(bound(name="a"), NOW)
    cluster.pod_changed(bound(name="b"), NOW)
    cluster.assume_pod(factories.pod(name="c"), "n1", NOW)
    keep_all(cluster.keep_pods({pod_digest("default", "b")}))
    assert held_on(cluster) == {"uid-b": "n1", "uid-c": "n1"}


def test_a_pod_that_came_back_under_its_name_while_we_were_away_replaces_the_old_one(cluster):
    cluster.pod_changed(bound(uid="old"), NOW)
    cluster.pod_changed(bound("n2", uid="new"), NOW)
    keep_all(cluster.keep_pods({pod_digest("default", "web-1")}))
    assert held_on(cluster) == {"new": "n2"}


def test_a_deletion_may_tell_the_name_only(cluster):
    cluster.pod_changed(bound(name="a"), NOW)
    cluster.pod_changed(bound(name="b"), NOW)
    cluster.pod_deleted("default", "a")
    assert held_on(cluster) == {"uid-b": "n1"}


def test_absurd_amounts_break_nothing(cluster):
    for name in "abc":
        absurd = {"cpu": "1e999", "memory": "8Ei", "kubernetes.io/mid-cpu": "9E", "kubernetes.io/mid-memory": "1e300"}
        cluster.pod_changed(factories.pod(name, node="n1", requests=absurd, limits=absurd), NOW)
    cluster.node_changed(factories.node("n1", cpu="1e999", memory="9E", **{"kubernetes.io/mid-cpu": "1e999"}))
    assert set(held_on(cluster)) == {"uid-a", "uid-b", "uid-c"}
    for name in "abc":
        cluster.pod_deleted("default", name, f"uid-{name}")
    assert cpu(cluster) == 10_000


def test_pods_wait_for_the_first_report_of_their_node():
    cluster = factories.parts().cluster
    cluster.pod_changed(bound(), NOW)
    cluster.metric_changed(factories.metric("n1", usage={"cpu": "1", "memory": "0"}))
    assert cpu(cluster) == 1_000 + 3_400


def test_nothing_is_left_of_a_node_once_object_report_and_pods_are_gone(cluster):
    cluster.pod_changed(bound(), NOW)
    cluster.node_deleted("n1")
    cluster.metric_deleted("n1")
    assert "n1" in cluster.entries
    cluster.pod_deleted("default", "web-1", "uid-web-1")
    assert "n1" not in cluster.entries
    assert cluster.counts() == {"nodes": 1, "node_metrics": 1, "pods": 0, "unconfirmed_pods": 0}


def test_lists_of_nodes_and_reports_drop_what_is_gone(cluster):
    keep_all(cluster.keep_nodes(["n2"]))
    keep_all(cluster.keep_metrics(["n2"]))
    assert list(cluster.entries) == ["n2"]


def test_a_row_is_used_again_by_another_node(cluster):
    row = cluster.entries["n1"].row
    keep_all(cluster.keep_nodes(["n2"]))
    keep_all(cluster.keep_metrics(["n2"]))
    cluster.node_changed(factories.node("n3"))
    assert cluster.entries["n3"].row == row
    assert list(cluster.vectors.find(["n1", "n3"])) == [-1, row]


def test_a_late_deletion_of_an_older_pod_leaves_the_newer_one_of_that_name_alone(cluster):
    cluster.pod_changed(bound(uid="old"), NOW)
    cluster.pod_changed(bound("n2", uid="new"), NOW)
    cluster.pod_deleted("default", "web-1", "old")
    assert held_on(cluster) == {"new": "n2"}
    cluster.pod_deleted("default", "web-1", "new")
    assert held_on(cluster) == {}


def test_a_pod_of_that_name_in_another_namespace_is_another_pod(cluster):
    cluster.pod_changed(bound(uid="one"), NOW)
    cluster.pod_changed(bound("n2", uid="two", namespace="other"), NOW)
    cluster.pod_deleted("other", "web-1")
    assert held_on(cluster) == {"one": "n1"}


def test_a_notice_for_the_next_pod_of_a_name_ends_the_one_before(cluster):
    cluster.pod_changed(bound(uid="old"), NOW)
    assert cluster.assume_pod(factories.pod(uid="new", requests=FOUR_CORES), "n2", NOW)
    assert held_on(cluster) == {"new": "n2"}
    assert (cpu(cluster, "n1"), cpu(cluster, "n2")) == (10_000, 13_400)


def test_only_the_very_pod_that_was_noticed_takes_its_notice_back(cluster):
    cluster.assume_pod(factories.pod(uid="new"), "n1", NOW)
    cluster.forget_assumed(factories.pod(uid="old"))
    assert held_on(cluster) == {"new": "n1"}
    cluster.forget_assumed(factories.pod(uid="new"))
    assert held_on(cluster) == {}


def test_a_notice_that_was_renewed_waits_as_long_again(cluster):
    cluster.assume_pod(factories.pod("a"), "n1", NOW)
    cluster.assume_pod(factories.pod("b"), "n1", NOW + 50)
    cluster.assume_pod(factories.pod("a"), "n2", NOW + 100)
    assert cluster.expire_assumed(NOW + 170) == 1
    assert held_on(cluster) == {"uid-a": "n2"}


pod_names, generations = st.sampled_from(["a", "b", "c"]), st.integers(0, 2)
nodes = st.sampled_from(["n1", "n2", "n3"])
events = st.lists(
    st.tuples(st.just("watch"), pod_names, generations, nodes, st.sampled_from(["Running", "Succeeded"]))
    | st.tuples(st.sampled_from(["notice", "retry", "delete", "delete name", "time"]), pod_names, generations, nodes),
    max_size=25,
)


@given(events)
def test_whatever_happens_a_pod_counts_on_one_node_at_most_and_the_watch_has_the_last_word(taken):
    """`shown` and `noticed` are the plain model: of each name, the pod that counts, and where."""
    cluster = factories.parts(assumed_ttl_seconds=10).cluster
    now, shown, noticed = NOW, {}, {}
    for what, name, generation, node, *phase in taken:
        now += 1
        uid = f"{name}-{generation}"
        if what == "watch":
            cluster.pod_changed(factories.pod(name, uid=uid, node=node, phase=phase[0]), now)
            shown.pop(name, None)
            noticed.pop(name, None)
            if phase == ["Running"]:
                shown[name] = uid, node
        elif what == "notice":
            cluster.assume_pod(factories.pod(name, uid=uid), node, now)
            if shown.get(name, ("", ""))[0] != uid:
                shown.pop(name, None)
                noticed[name] = uid, node, now + 10
        elif what == "retry":
            cluster.forget_assumed(factories.pod(name, uid=uid))
            if noticed.get(name, ("",))[0] == uid:
                del noticed[name]
        elif what == "time":
            now += 5
            cluster.expire_assumed(now)
            noticed = {name: notice for name, notice in noticed.items() if notice[2] > now}
        else:
            cluster.pod_deleted("default", name, uid if what == "delete" else None)
            for known in (shown, noticed):
                if name in known and (what == "delete name" or known[name][0] == uid):
                    del known[name]
        counted = [(pod.uid, name) for name, entry in cluster.entries.items() for pod in entry.load.pods.values()]
        assert sorted(counted) == sorted(value[:2] for value in (*shown.values(), *noticed.values()))
        assert cluster.counts() == {
            "nodes": 0,
            "node_metrics": 0,
            "pods": len(counted),
            "unconfirmed_pods": len(noticed),
        }
    cluster.expire_assumed(now + 20)
    assert held_on(cluster) == dict(shown.values())
