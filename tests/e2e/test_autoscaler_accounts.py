"""The sums of a run beside an autoscaler, and its schedule of Prod."""

from e2e.autoscaler import day
from e2e.autoscaler.accounting import Accounts, Endings, Seen
from e2e.support.names import MID_CPU

LOAD = "0/4 nodes are available: 4 node(s) cpu usage exceed threshold."
MIXED = "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) cpu usage exceed threshold."
FULL = "0/4 nodes are available: 4 Insufficient cpu."


def node(name):
    return {"metadata": {"name": name}}


def pod(uid, *, node=None, phase="Running", message="", deleted=False):
    container = {"resources": {"requests": {MID_CPU: "500"}}}
    return {
        "metadata": {"uid": uid, **({"deletionTimestamp": "now"} if deleted else {})},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "conditions": [{"type": "PodScheduled", "message": message}]},
    }


def claim(uid, **requests):
    return {"metadata": {"uid": uid}, "spec": {"resources": {"requests": requests}}}


def test_adds_the_time_of_nodes_and_the_work_of_running_mid_pods():
    accounts = Accounts()
    mid = [pod("a", node="n1"), pod("b", node="n1", phase="Pending"), pod("c", node="n2", deleted=True)]
    accounts.observe(Seen([node("n1"), node("n2")], mid, [], []), 100.0)
    accounts.observe(Seen([node("n1"), node("n2")], mid, [], []), 110.0)
    accounts.observe(Seen([node("n1")], [], [], []), 114.0)
    assert accounts.node_seconds == 2 * 10 + 4
    assert accounts.mid_core_seconds == 0.5 * 10
    assert accounts.most_nodes == 2


def test_a_claim_that_requests_mid_was_made_for_mid():
    accounts = Accounts()
    accounts.observe(Seen([], [], [], [claim("x", cpu="3"), claim("y", **{MID_CPU: "500"})]), 0.0)
    assert accounts.claims == {"x": False, "y": True}


def test_a_wait_is_for_load_where_load_alone_keeps_the_pod_off_some_node():
    accounts = Accounts()
    waiting = [pod("load", message=LOAD), pod("mixed", message=MIXED), pod("full", message=FULL)]
    for now in (0.0, 121.0):
        accounts.observe(Seen([], [], waiting, []), now)
    assert accounts.long_waits() == {True: 2, False: 1}
    accounts.observe(Seen([], [], [pod("load", node="n1"), pod("later", message=LOAD)], []), 400.0)
    assert accounts.long_waits() == {True: 2, False: 1}
    assert accounts.longest_wait() == 121.0


def test_a_pod_deleted_before_its_node_went_was_warned():
    endings = Endings()
    nodes = [node("n1"), node("n2")]
    quick, stays = pod("ended between two observations", node="n1"), pod("stays", node="n2")
    endings.observe(nodes, [pod("warned", node="n1"), quick, pod("killed", node="n1"), stays], 0.0)
    endings.observe(nodes, [pod("warned", node="n1", deleted=True), pod("killed", node="n1")], 5.0)
    endings.observe([node("n2")], [pod("killed", node="n1", deleted=True), pod("stays", node="n2")], 8.0)
    assert endings.counts() == (2, 1)
    assert endings.removed_nodes == 1


def test_the_schedule_is_that_of_its_seed_and_reaches_from_night_to_day():
    waves = day.waves(50, 1)
    assert waves == day.waves(50, 1) != day.waves(50, 2)
    cores = [sum(wave.cores * day.replicas(wave, step, 1) for wave in waves) for step in range(day.STEPS)]
    assert 0.25 * 50 * 8 < cores[0] < 0.35 * 50 * 8 * 0.9
    assert 0.78 * 50 * 8 < max(cores) < 0.92 * 50 * 8
