"""A tenant whose workload idles for a day, is rolled out, and then uses its whole request; agent and manager are real.

`python -m pytest -s` on this file prints what its pods are charged.
"""

import datetime as dt

import pytest

from api_types.kubernetes import quantities
from api_types.node_metric import types as node_metric
from koordlet.prediction.allocation import Owner
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import StaticCluster, bound_pod
from tests.manager.node_metric.workload_history.test_lending import Leader

GIB = 2**30
STEP_SECONDS = 60
PODS, CORES = 4, 2
REQUESTED = PODS * CORES * 1000
IDLE_CORES, SYSTEM_CORES = 0.02, 0.1
COLD_MINUTES = 120


def pods(revision):
    owner = Owner("shop", "ReplicaSet", revision)
    return [bound_pod(f"{revision}-{n}", cpu_request_millis=1000 * CORES, owner=owner) for n in range(PODS)]


class Node:
    """A node with the pods of the tenant alone: its peak is what they are charged."""

    def __init__(self, now, spec=None):
        self.fed = FedNode(StaticCluster(*pods("old"), spec=spec), STEP_SECONDS)
        self.fed.now = now
        self.names = [pod.uid for pod in pods("old")]

    def roll_out(self):
        table, new = self.fed.cluster.pods, pods("new")
        for pod in new:
            table.put(pod)
        table.keep_only([(pod.namespace, pod.name) for pod in new])
        self.names = [pod.uid for pod in new]

    def live(self, minutes, cores):
        usage = dict.fromkeys(self.names, UsageSample(cores, GIB / 4))
        for _ in self.fed.run(minutes * 60, lambda _: (usage, UsageSample(SYSTEM_CORES, GIB))):
            pass

    def charged(self):
        return quantities.resource_units("cpu", self.fed.report()["prodPeakMetric"]["resource"]["resources"]["cpu"])


async def lend(world, leader, node):
    """Write the report of a node, and let it have what the manager answers."""
    world.now = dt.datetime.fromtimestamp(node.fed.now, dt.UTC)
    world.server.patch("nodemetrics", "n1", {"status": node.fed.report()})
    await leader.reconcile("n1")
    node.fed.cluster.spec = node_metric.NodeMetricSpec.model_validate(leader.spec("n1"))


@pytest.mark.slow
@pytest.mark.parametrize("idle_minutes", [180, pytest.param(20, marks=pytest.mark.long)])
async def test_a_workload_that_idles_and_then_uses_its_requests_is_bounded_by_them_for_two_hours(world, idle_minutes):
    world.configure({"enable": True})
    owner = [{"kind": "Deployment", "name": "web", "uid": "deployment", "controller": True}]
    world.server.add("deployments", {"metadata": {"name": "web", "namespace": "shop", "uid": "deployment"}}, "shop")
    for name in ("old", "new"):
        metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owner}
        world.server.add("replicasets", {"metadata": metadata}, "shop")
    world.add_node("n1", cpu="16", memory="16Gi")
    leader = await Leader(world).start()
    await leader.reconcile("n1")
    lent = Node(world.now.timestamp())
    strict = Node(world.now.timestamp(), {"predictPolicy": {"coldStart": "strict"}})
    for _ in range(24):
        for node in (lent, strict):
            node.live(60, IDLE_CORES)
        await lend(world, leader, lent)
    assert lent.charged() == strict.charged() < REQUESTED / 10
    for node in (lent, strict):
        node.roll_out()
        node.live(1, IDLE_CORES)
    await lend(world, leader, lent)
    rows = []
    for minute in range(1, 6 * 60):
        cores = IDLE_CORES if minute <= idle_minutes else CORES
        for node in (lent, strict):
            node.live(1, cores)
        used, with_history, without = round(1000 * cores * PODS), lent.charged(), strict.charged()
        rows.append((minute, used, with_history, without))
        assert without - with_history <= REQUESTED, minute
        assert minute == idle_minutes + 1 or with_history >= used, minute
        assert minute <= COLD_MINUTES or with_history >= min(without, REQUESTED), minute
    print("\nminutes since the roll-out | used | charged with history | charged without")
    for row in rows:
        if row[0] in (1, 11, idle_minutes, idle_minutes + 1, idle_minutes + 2, COLD_MINUTES + 1) or row[0] % 60 == 0:
            print(*row, sep=" | ")
