"""Whether the Mid pods of a node that was closed leave it."""

import datetime as dt

import pytest

from manager.mid_resource.eviction.progress import REMOVED_WITHIN, STUCK_AFTER, Progress
from tests.fakes import cluster
from tests.manager.mid_resource.eviction.test_mid_only_nodes import AT_ONCE, PLENTY, start, texts

START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
HOUR = int(STUCK_AFTER.total_seconds() // 60)
EMPTY = int(REMOVED_WITHIN.total_seconds() // 60)


def stuck_at(*lists):
    """Return the minute at which a node closed with the pods of the first list is stuck; a list is made each minute."""
    progress = Progress()
    progress.begin(lists[0], START)
    for minute in range(5 * HOUR):
        now = START + dt.timedelta(minutes=minute)
        progress.listed(lists[min(minute, len(lists) - 1)], now)
        if lists[min(minute, len(lists) - 1)] and progress.is_stuck(now):
            return minute
    return None


@pytest.mark.parametrize(
    ("lists", "minute"),
    [
        (("ab",), HOUR),
        (("abc", "ab", "b"), 2 + HOUR),
        (("ab", *(["b"] * 50), "a"), 51 + HOUR),
        (("ab", *("bcdefgh" * 20)), 2 + HOUR),
        (("a", *(["", "c", "", "d"] * 40)), 2 + HOUR),
        (("a", ""), None),
    ],
)
def test_only_the_end_of_a_pod_that_was_there_first_is_progress(lists, minute):
    assert stuck_at(*lists) == minute


def test_a_pod_that_comes_to_a_node_that_was_empty_for_long_has_an_hour():
    assert stuck_at("a", *([""] * EMPTY), "", "c") == EMPTY + 2 + HOUR


async def test_a_pod_of_the_mid_band_that_returns_again_and_again_holds_the_turn_for_an_hour(short):
    """It requests no Mid resources, so any scheduler may place it on a closed node."""
    await short.start({"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}},
                      nodes=("n1", "n2"))  # fmt: skip
    made = 0

    def create():
        nonlocal made
        made += 1
        short.add_pod(f"returns-{made}", spec={"containers": [{"resources": {}}]})

    create()
    short.add_pod("waits", node="n2")
    for _ in range(75):
        for node in ("n1", "n2"):
            await short.report(node, **PLENTY)
        for _ in range(6):
            await short.round()
            short.pass_seconds(10)
            if len(short.pods_on("n1", leaving=False)) == 0:
                short.end_pods()
                create()
    assert (short.closed("n1"), short.closed("n2")) == ("", "MidOnly")
    assert "waits" in short.evicted
    assert texts(short, "MidOnlyNodeReopened") == [
        "accepts new Mid pods again: its Mid pods stayed, or others came, for 60 minutes"
    ]
    evictions = len(short.evicted)
    await short.minutes(48, nodes=("n1", "n2"), per_round=30, **PLENTY)
    assert len(short.evicted) == evictions, "it is left alone for an hour"


async def test_a_pod_for_which_the_right_is_missing_makes_the_pods_of_others_leave_once_an_hour_at_most(short):
    """It is placed by `spec.nodeName`, opens the node, and ends once others have come back."""
    await start(short, AT_ONCE, may_evict=("tenant",))
    evicted = []
    for turn in range(3):
        await short.minutes(50, **PLENTY)
        evicted.append(len(short.evicted))
        short.end_pods()
        short.add_pod("foot", 0, 0, namespace="hostile", spec={"containers": [{"resources": {}}]})
        await short.minutes(2, **PLENTY)
        assert short.annotation() is None
        for index in range(0 if turn else 2):
            short.add_pod(f"back-{index}")
        short.server.remove("pods", "foot", "hostile")
    assert evicted == [2, 2, 4]


async def test_a_pod_that_terminates_without_end_holds_the_turn_for_an_hour(short):
    """Its author chooses its grace period."""
    bound, nodes = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}}, ("n1", "n2")
    await start(short, bound, nodes=nodes, pods=0)
    short.add_pod("tiny", 10, namespace="greedy", spec={"terminationGracePeriodSeconds": 10**8})
    short.add_pod("m", node="n2")
    await short.minutes(60, nodes=nodes, per_round=30, **PLENTY)
    assert (short.closed("n1"), short.evicted) == ("MidOnly", ["tiny"])
    await short.minutes(10, nodes=nodes, per_round=30, **PLENTY)
    assert (short.closed("n1"), short.evicted) == ("", ["tiny", "m"])


async def test_a_node_that_cannot_be_closed_takes_no_turn(short):
    """As where its annotations, which a kubelet may write, have the size that the apiserver permits."""
    bound, nodes = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}}, ("n1", "n2")
    await start(short, bound, nodes=nodes, pods=0)
    short.add_pod("tiny", 10)
    short.add_pod("m", node="n2")

    def too_long(request):
        if request.path.endswith("/nodes/n1/status") and b"mid-eviction" in request.body:
            raise cluster.Refusal(422, "Invalid", "n1", "metadata.annotations: Too long")

    short.server.on_write = too_long
    await short.minutes(6, nodes=nodes, **PLENTY)
    assert short.evicted == ["m"]
