"""What nodes state comes back to the nodes on which it helps, over a cluster in memory."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from api_types.kubernetes import times
from api_types.node_metric.workloads import pod_hash
from manager import assembly
from manager.node_metric.workload_history import stored
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigStep
from tests.manager.conftest import NAMESPACE, allocated, worked_off
from tests.manager.conftest import amounts as resources
from tests.manager.in_process import posted

GIB = 2**30
CONFIG = {"enable": True}


class Leader:
    """A leader over the cluster of a test."""

    def __init__(self, world, **settings):
        self.world = world
        self.parts = assembly.Components(
            world.api, ManagerSettings(workers=1, **settings), world.telemetry, clock=world.clock
        )
        world.cache = self.parts.cache

    async def start(self):
        """Read the configuration, what an earlier leader stored, and the controllers."""
        self.world.sync_config()
        await self.parts.config.work(ConfigStep.DECIDE)
        watching = asyncio.create_task(self.parts.histories.watches.run())
        async with asyncio.timeout(10):
            while not self.parts.histories.watches.are_ready():
                await asyncio.sleep(0.01)
        watching.cancel()
        await self.parts.histories.store.read()
        await posted(self.parts.events)
        return self

    async def reconcile(self, *nodes):
        for node in nodes:
            self.world.sync_cache()
            await self.parts.reconciler.reconcile(node)
            await worked_off(self.parts.spec_queue)
        self.world.sync_cache()

    def spec(self, node):
        return self.world.server.get("nodemetrics", node)["spec"]


@pytest.fixture
async def cluster(world):
    world.configure(CONFIG)
    world.server.add("namespaces", {"metadata": {"name": "shop"}})
    controller = [{"kind": "Deployment", "name": "web", "uid": "deployment", "controller": True}]
    world.server.add("deployments", {"metadata": {"name": "web", "namespace": "shop", "uid": "deployment"}}, "shop")
    for name in ("old", "new"):
        metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": controller}
        world.server.add("replicasets", {"metadata": metadata}, "shop")
    world.add_node("n1")
    world.add_node("n2")
    return world


def usage(mean, scale=1.0, **more):
    return {"mean": mean * scale, "m2": 0.0, "startPeak": scale, "request": 2.0 * scale, **more}


def workload(*, uid="old", hours=30.0, mean=0.5, kind="ReplicaSet", **more):
    return {
        "namespace": "shop", "kind": kind, "uid": uid, "podHours": hours, "cpu": usage(mean),
        "memory": usage(mean, GIB, rise=1024.0), **more,
    }  # fmt: skip


def stated(world, *workloads, minutes_ago=1):
    time = times.format_rfc3339(world.now - dt.timedelta(minutes=minutes_ago))
    return {"workloads": list(workloads), "workloadsTime": time}


def cold(uid="pod", controller="new", kind="ReplicaSet", **more):
    return {"pod": pod_hash(uid), "namespace": "shop", "kind": kind, "uid": controller, **more}


async def leader_with(world, **settings):
    leader = await Leader(world, **settings).start()
    await leader.reconcile("n1", "n2")
    return leader


async def test_a_new_pod_of_a_rolled_out_deployment_gets_the_usage_of_its_old_pods(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    cluster.report("n2", coldPods=[cold()])
    await leader.reconcile("n1", "n2")
    assert leader.spec("n2")["workloadHistory"] == [{
        "pod": pod_hash("pod"), "updateTime": times.format_rfc3339(cluster.now - dt.timedelta(minutes=1)),
        "podHours": 30.0, "cpu": {"mean": 0.5, "stdev": 0.0, "startPeak": 1.0, "request": 2.0},
        "memory": {
            "mean": pytest.approx(GIB / 2, rel=1e-3), "stdev": 0.0, "startPeak": pytest.approx(GIB, rel=1e-3),
            "request": pytest.approx(2 * GIB, rel=1e-3), "rise": 1024.0,
        },
    }]  # fmt: skip
    assert "workloadHistory" not in leader.spec("n1")
    cluster.report("n2")
    cluster.server.patch("nodemetrics", "n2", {"status": {"coldPods": None}})
    await leader.reconcile("n2")
    assert "workloadHistory" not in leader.spec("n2")


AMOUNTS = {"allocated": allocated(prod_cpu="8"), "prodPeakMetric": resources("2", "1k")}


async def leader_that_offers(cluster):
    """Return a leader that knows a workload, and the Mid that it offers on the other node."""
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    cluster.report("n2", **AMOUNTS)
    await leader.reconcile("n1", "n2")
    return leader, cluster.mid_of("n2")


async def test_mid_stays_until_a_report_follows_the_history_of_its_new_pods(cluster):
    leader, before = await leader_that_offers(cluster)
    charged = {**AMOUNTS, "prodPeakMetric": resources("8", "16k"), "observedGeneration": 1}
    cluster.report("n2", coldPods=[cold()], **charged)
    await leader.reconcile("n2")
    cluster.server.patch("nodemetrics", "n2", {"metadata": {"generation": 2}})
    cluster.now += dt.timedelta(seconds=29)
    cluster.report("n2", coldPods=[cold()], **charged)
    await leader.reconcile("n2")
    assert cluster.mid_of("n2") == before
    cluster.report("n2", coldPods=[cold()], **charged | {"observedGeneration": 2})
    await leader.reconcile("n2")
    assert cluster.mid_of("n2") < before


async def test_mid_stays_for_new_pods_after_others_ended_before_a_report_followed(cluster):
    leader, before = await leader_that_offers(cluster)
    charged = {**AMOUNTS, "prodPeakMetric": resources("8", "16k")}
    cluster.report("n2", coldPods=[cold("first")], **charged)
    await leader.reconcile("n2")
    cluster.report("n2", coldPods=[], **AMOUNTS)
    await leader.reconcile("n2")
    cluster.now += dt.timedelta(hours=1)
    cluster.report("n2", coldPods=[cold("second")], **charged)
    await leader.reconcile("n2")
    assert cluster.mid_of("n2") == before


async def test_mid_of_a_node_whose_pods_change_all_the_time_follows_in_turns(cluster):
    leader, before = await leader_that_offers(cluster)
    seen = []
    for number in range(6):
        charged = {**AMOUNTS, "prodPeakMetric": resources(str(3 + number), "1k")}
        cluster.report("n2", coldPods=[cold(str(number))], **charged)
        await leader.reconcile("n2")
        seen.append(cluster.mid_of("n2"))
        cluster.now += dt.timedelta(seconds=20)
    assert seen[:2] == [before, before]
    assert before > seen[2] == seen[3] == seen[4] > seen[5]


async def test_a_spec_is_rewritten_only_when_the_pods_change(cluster):
    leader = await leader_with(cluster)
    cluster.report("n2", coldPods=[cold()])
    for minutes_ago in (5, 3, 1):
        cluster.report("n1", **stated(cluster, workload(mean=minutes_ago / 10), minutes_ago=minutes_ago))
        await leader.reconcile("n1", "n2")
    writes = [path for method, path, body in cluster.server.writes if "workloadHistory" in str(body)]
    assert len(writes) == 1
    cluster.report("n2", coldPods=[cold(), cold("another")])
    await leader.reconcile("n2")
    assert len(leader.spec("n2")["workloadHistory"]) == 2


@pytest.mark.parametrize(
    ("workloads", "pods"),
    [
        ([workload(uid="never created")], [cold(controller="never created")]),
        ([workload()], [cold(controller="never created")]),
        ([workload()], [cold() | {"namespace": "another"}]),
        ([workload(kind="StatefulSet", uid="set", ordinal=0)], [cold(kind="StatefulSet", controller="set", ordinal=1)]),
    ],
)
async def test_only_pods_of_the_same_workload_get_its_history(cluster, workloads, pods):
    cluster.server.add("statefulsets", {"metadata": {"name": "set", "namespace": "shop", "uid": "set"}}, "shop")
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, *workloads))
    cluster.report("n2", coldPods=pods)
    await leader.reconcile("n1", "n2")
    assert "workloadHistory" not in leader.spec("n2")


@pytest.mark.parametrize(
    ("controller", "kind"),
    [("set", "StatefulSet"), ("rollout", "Rollout"), ("agents", "DaemonSet"), ("lone", "ReplicaSet")],
)
async def test_controllers_of_other_kinds_are_workloads_too(cluster, controller, kind):
    for name, plural in (("set", "statefulsets"), ("lone", "replicasets")):
        cluster.server.add(plural, {"metadata": {"name": name, "namespace": "shop", "uid": name}}, "shop")
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload(kind=kind, uid=controller)))
    cluster.report("n2", coldPods=[cold(controller=controller, kind=kind)])
    await leader.reconcile("n1", "n2")
    assert len(leader.spec("n2")["workloadHistory"]) == 1


async def test_the_old_pods_of_a_cron_job_help_its_new_ones(cluster):
    owner = [{"kind": "CronJob", "name": "nightly", "uid": "cron", "controller": True}]
    cluster.server.add("cronjobs", {"metadata": {"name": "nightly", "namespace": "shop", "uid": "cron"}}, "shop")
    for name in ("monday", "tuesday"):
        metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owner}
        cluster.server.add("jobs", {"metadata": metadata}, "shop")
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload(kind="Job", uid="monday")))
    cluster.report("n2", coldPods=[cold(kind="Job", controller="tuesday")])
    await leader.reconcile("n1", "n2")
    assert len(leader.spec("n2")["workloadHistory"]) == 1


async def test_a_new_leader_continues_and_counts_no_statement_again(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    await leader.reconcile("n1", "n1")
    await leader.parts.histories.store.write()
    cluster.now += dt.timedelta(minutes=10)
    cluster.report("n2", coldPods=[cold()], **stated(cluster, workload(hours=12.0), minutes_ago=1))
    for _ in range(2):
        successor = await leader_with(cluster)
        (entry,) = successor.spec("n2")["workloadHistory"]
        assert entry["podHours"] == 42.0
        cluster.server.patch("nodemetrics", "n2", {"spec": {"workloadHistory": None}})


async def test_a_leader_that_cannot_read_the_history_leaves_what_nodes_have(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    cluster.report("n2", coldPods=[cold()])
    await leader.reconcile("n1", "n2")
    successor = await leader_with(cluster)
    successor.parts.histories.workloads.is_read = False
    successor.parts.histories.workloads.namespaces.clear()
    await successor.reconcile("n1", "n2")
    assert len(successor.spec("n2")["workloadHistory"]) == 1


async def test_an_unreadable_history_begins_again_with_an_event(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    await leader.reconcile("n1")
    await leader.parts.histories.store.write()
    name = stored.name_of("shop")
    cluster.server.patch("configmaps", name, {"data": {stored.KEY: "{"}}, NAMESPACE)
    cluster.now += dt.timedelta(hours=2)
    cluster.report("n1", **stated(cluster, workload(hours=7.0)))
    successor = await leader_with(cluster)
    assert (name, "Warning", "WorkloadHistoryUnreadable") in cluster.events()
    await successor.parts.histories.store.write()
    assert '"podHours":7.0' in cluster.server.get("configmaps", name, NAMESPACE)["data"][stored.KEY]


async def test_a_namespace_takes_its_history_with_it(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    await leader.reconcile("n1")
    await leader.parts.histories.store.write()
    assert cluster.server.get("configmaps", stored.name_of("shop"), NAMESPACE)
    cluster.server.remove("namespaces", "shop")
    cluster.now += dt.timedelta(hours=2)
    cluster.report("n1", **stated(cluster, workload()))
    await leader.reconcile("n1")
    await leader.parts.histories.store.write()
    with pytest.raises(KeyError):
        cluster.server.get("configmaps", stored.name_of("shop"), NAMESPACE)


async def test_a_history_is_written_at_most_once_an_hour(cluster):
    leader = await leader_with(cluster)
    for _ in range(90):
        cluster.now += dt.timedelta(minutes=1)
        cluster.report("n1", **stated(cluster, workload(), minutes_ago=0))
        await leader.reconcile("n1")
        await leader.parts.histories.store.write()
    written = [method for method, _, body in cluster.server.writes if stored.KEY in str(body)]
    assert written == ["PATCH", "POST", "PATCH"]  # the first one finds nothing to patch


@pytest.mark.parametrize("config", [{"nodePredictPolicy": {"coldStart": "strict"}}, {"enable": False}])
async def test_nothing_is_lent_to_a_node_that_does_not_want_it(cluster, config):
    cluster.configure({**CONFIG, **config})
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    cluster.report("n2", coldPods=[cold()])
    await leader.reconcile("n1", "n2")
    assert "workloadHistory" not in leader.spec("n2")


async def test_what_was_lent_is_taken_back_where_the_history_is_switched_off(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload()))
    cluster.report("n2", coldPods=[cold()])
    await leader.reconcile("n1", "n2")
    successor = Leader(cluster, workload_history=False)
    cluster.sync_config()
    await successor.parts.config.work(ConfigStep.DECIDE)
    await successor.reconcile("n2")
    assert "workloadHistory" not in successor.spec("n2")


async def test_a_statement_of_the_future_waits(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, workload(), minutes_ago=-30))
    cluster.report("n2", coldPods=[cold()])
    await leader.reconcile("n1", "n2")
    assert "workloadHistory" not in leader.spec("n2")
    cluster.now += dt.timedelta(minutes=30)
    cluster.report("n1")
    await leader.reconcile("n1", "n2")
    assert len(leader.spec("n2")["workloadHistory"]) == 1


async def test_a_namespace_of_many_workloads_keeps_at_most_its_share(cluster):
    leader = await leader_with(cluster)
    for hour in range(12):
        cluster.now += dt.timedelta(hours=1)
        many = [workload(kind="Custom", uid=f"{hour}-{number}", hours=1.0 + hour) for number in range(60)]
        cluster.report("n1", **stated(cluster, *many))
        await leader.reconcile("n1")
    await leader.parts.histories.store.write()
    text = cluster.server.get("configmaps", stored.name_of("shop"), NAMESPACE)["data"][stored.KEY]
    assert text.count('"podHours"') == 500
    assert len(text) <= 500 * 300


def scores(labels=120.0, *, time):
    return {
        "updateTime": time,
        "cpu": {"labels": labels, "cells": [[40, labels]]},
        "memory": {"labels": 0, "cells": []},
    }


LEVELS = {"cpu": "n-sigma-v2", "memory": "n-sigma-v2"}


async def pool_of(world, instance_type):
    """Add five old nodes and a young one."""
    labels = {"node.kubernetes.io/instance-type": instance_type}
    nodes = [f"{instance_type}-{number}" for number in range(6)]
    for name in nodes:
        world.add_node(name, labels=labels)
    return nodes


async def test_a_young_node_gets_the_scores_of_its_pool_until_it_has_its_own(cluster):
    large, small = await pool_of(cluster, "large"), await pool_of(cluster, "small")
    leader = await Leader(cluster).start()
    await leader.reconcile(*large, *small)
    time = times.format_rfc3339(cluster.now)
    for name in large[:5]:
        cluster.report(name, scores=scores(time=time))
    await leader.reconcile(*large, *small)
    await leader.parts.histories.store.write()
    for name in (large[5], small[5]):
        cluster.report(name, prediction={"level": LEVELS})
    await leader.reconcile(*large, *small)
    assert leader.spec(large[5])["scorePrior"] == {
        "updateTime": time, "nodes": 5, "cpu": {"labels": 600.0, "cells": [[40, 600.0]]},
        "memory": {"labels": 0.0, "cells": []},
    }  # fmt: skip
    assert "scorePrior" not in leader.spec(small[5])
    assert "scorePrior" not in leader.spec(large[0])
    successor = await Leader(cluster).start()
    await successor.reconcile(*large)
    assert len([body for _, _, body in cluster.server.writes if "scorePrior" in str(body)]) == 1
    cluster.report(large[5], prediction={"level": dict.fromkeys(LEVELS, "calibrated")})
    await successor.reconcile(large[5])
    assert "scorePrior" not in successor.spec(large[5])


async def test_statements_that_cannot_be_read_cost_only_themselves(cluster):
    leader = await leader_with(cluster)
    cluster.report("n1", **stated(cluster, {"namespace": 1}), scores={"updateTime": 7})
    cluster.report("n2", coldPods=[{"pod": 1}], **stated(cluster, workload()))
    await leader.reconcile("n1", "n2")
    cluster.report("n2", coldPods=[cold()])
    await leader.reconcile("n2")
    assert len(leader.spec("n2")["workloadHistory"]) == 1
