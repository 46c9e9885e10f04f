import asyncio
import datetime as dt
import json

import pytest
from prometheus_client import CollectorRegistry

from apiserver_client import session
from manager.cache.store import ClusterStore
from manager.cache.work_queue import Lane
from manager.events import EventRecorder
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.controller import MidController
from manager.mid_resource.eviction.controller import Evictor
from manager.mid_resource.eviction.records import Rights
from manager.mid_resource.reasons import Reason
from manager.node_metric.controller import NodeMetricController
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigController, ConfigReporter, ConfigStep
from manager.slo_config.evaluation import State
from tests.fakes import cluster

NAMESPACE = "koordinator-system"
STATUS_ANNOTATION = "koordinator.sh/mid-resource-status"
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")


class DirectConfig(ConfigController):
    """The configuration's controller, whose steps are carried out at once, without a queue."""

    def __init__(self, world):
        self.steps = []
        self._world = world
        super().__init__(
            world.api, world.settings, config_maps=world.cache.config_maps, reporter=world.reporter,
            telemetry=world.telemetry, on_change=world._changed, clock=world.clock,
            schedule=lambda step, seconds: self.steps.append((step, seconds)),
        )  # fmt: skip

    async def start(self):
        """Restore the last good document, then do as `refresh`."""
        await self.work(ConfigStep.RESTORE)
        await self.refresh()

    async def refresh(self):
        """Update the store from the cluster, decide, and carry out what is due; what failed before is retried."""
        self._world.sync_config()
        await self.work(ConfigStep.DECIDE)
        await self.settle()

    async def settle(self, *, retry=True):
        """Carry out every scheduled step."""
        while due := [each for each in self.steps if each[1] == 0 or retry]:
            self.steps = [each for each in self.steps if each not in due]
            retry = False
            for step in dict.fromkeys(step for step, _ in due):
                await self.work(step)


class World:
    """The manager's controllers over a cluster in memory, without kopf: the test controls what the store has seen."""

    def __init__(self, server, api, **settings):
        self.server = server
        self.api = api
        self.now = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
        server.now = self.now - dt.timedelta(minutes=1)
        self.telemetry = Telemetry(CollectorRegistry(), reasons=[*Reason], states=[*State])
        self.changes = 0
        self.settings = ManagerSettings(**settings)
        self.cache = ClusterStore()
        self.recorder = recorder = EventRecorder(api, self.telemetry, self.clock)
        self.reporter = ConfigReporter(api, self.settings, recorder, self.telemetry, self.clock)
        self.config = DirectConfig(self)
        self.rights = Rights(api, "", self.clock)
        self.evicted_on = []
        self.node_metrics = NodeMetricController(api, self.cache, self.telemetry, lambda: self.rights.granted)
        self.evictor = self.new_evictor()
        self.mid = MidController(
            api, cache=self.cache, settings=self.settings, recorder=recorder, telemetry=self.telemetry,
            clock=self.clock, observe=lambda *seen: self.evictor.observe(*seen),  # noqa: PLW0108  # it may be replaced
            newly_evicted=lambda: self.evictor.newly_evicted(),  # noqa: PLW0108
            remembered=lambda *node: self.evictor.remembered(*node),  # noqa: PLW0108
        )  # fmt: skip

    def new_evictor(self):
        """Return the evictor of a new leader."""
        return Evictor(
            self.api, cache=self.cache, rights=self.rights, recorder=self.recorder, telemetry=self.telemetry,
            clock=self.clock, configuration=self.config.in_force, autoscaler=self.settings.autoscaling,
            on_pods_changed=self.evicted_on.append, notify=self.reporter.event,
            relist=lambda name: self.mid.relist(name),  # noqa: PLW0108  # it is made later
        )  # fmt: skip

    def clock(self):
        return self.now

    def _changed(self):
        self.changes += 1

    def configure(self, document):
        text = document if isinstance(document, str) else json.dumps(document)
        key = ("configmaps", "slo-controller-config", NAMESPACE)
        data = {"data": {"colocation-config": text}}
        try:
            self.server.patch(*key[:2], data, NAMESPACE)
        except cluster.Refusal:
            self.server.add("configmaps", {"metadata": {"name": key[1]}, **data}, NAMESPACE)

    def add_node(self, name="n1", cpu="10", memory="20k", **metadata):
        amounts = {"cpu": cpu, "memory": memory}
        self.server.add(
            "nodes", {"metadata": {"name": name, **metadata}, "status": {"capacity": amounts, "allocatable": amounts}}
        )

    def report(self, name="n1", *, seconds_ago=5, **status):
        time = (self.now - dt.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        usage = {} if "nodeMetric" in status else {"usage": used()}
        self.server.patch("nodemetrics", name, {"status": {"updateTime": time, **usage, **status}})

    def sync_cache(self):
        """Update the store from the cluster, as events would."""
        for plural, known in (("nodes", self.cache.nodes), ("nodemetrics", self.cache.node_metrics)):
            there = {item["metadata"]["name"]: item for item in self.server.all(plural)}
            for name in set(known.names()) - set(there):
                known.remove(name)
            for item in there.values():
                known.update(known.decode(item))

    def sync_config(self):
        """Update the stored ConfigMap from the cluster, as events and the hourly read would."""
        name, known = self.settings.config_map, self.cache.config_maps
        try:
            known.update(known.decode(self.server.get("configmaps", name, NAMESPACE)))
        except KeyError:
            known.remove(name)
            known.is_read = True

    async def settle(self, name="n1"):
        """Reconcile a node once; return the seconds to the next time."""
        self.sync_cache()
        node = self.cache.nodes.get(name)
        strategies = self.config.strategies
        strategy = (
            strategies.merged(node.metadata.labels or {}, node.metadata.annotations or {})
            if strategies and node
            else None
        )
        await self.node_metrics.reconcile(name, strategy)
        return await self.mid.reconcile(name, strategy) if strategy else None

    def mid_of(self, name="n1"):
        """Return the published Mid resources; both lists have to be equal."""
        status = self.server.get("nodes", name)["status"]
        found = [
            {key: int(status[where][key]) for key in MID if key in status[where]}
            for where in ("capacity", "allocatable")
        ]
        assert found[0] == found[1]
        return tuple(found[0].values())

    def mid_status(self, name="n1"):
        text = (self.server.get("nodes", name)["metadata"].get("annotations") or {}).get(STATUS_ANNOTATION)
        return json.loads(text) if text else None

    def events(self):
        return [(item["involvedObject"]["name"], item["type"], item["reason"]) for item in self.server.all("events")]


@pytest.fixture(autouse=True)
def pace(monkeypatch):
    """Let a node be written as often as a test settles it; test_write_pace.py overrides this."""
    monkeypatch.setattr("manager.mid_resource.patch.LEAST_SECONDS", 0.0)


@pytest.fixture
async def world():
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        yield World(server, api)


@pytest.fixture
async def world_beside_karpenter():
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        yield World(server, api, autoscaling="karpenter")


def allocated(prod_cpu="8", prod_memory="16k", mid_cpu=0, mid_memory=0):
    return {"prod": {"cpu": prod_cpu, "memory": prod_memory}, "mid": {MID[0]: mid_cpu, MID[1]: mid_memory}}


def used(prod=("0", "0"), *, mid=("0", "0"), batch_and_free=("0", "0"), system=("0", "0")):
    classes = {"prod": prod, "mid": mid, "batchAndFree": batch_and_free, "system": system}
    return {name: {"cpu": cpu, "memory": memory} for name, (cpu, memory) in classes.items()}


def mid_pod(name, mid_cpu=500, mid_memory=100, *, bound_at="2026-11-21T11:00:00Z", admitted=True, node="n1"):
    """Return a Mid pod as the apiserver has it; the kubelet has not seen one that is not admitted."""
    requests = {MID[0]: str(mid_cpu), MID[1]: str(mid_memory)}
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound_at}
    running = {"phase": "Running", "startTime": bound_at, "conditions": [bound]}
    return {
        "metadata": {"name": name, "labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {"nodeName": node, "priority": 7000, "containers": [{"resources": {"requests": requests}}]},
        "status": running if admitted else {"phase": "Pending", "conditions": [bound]},
    }


def amounts(cpu, memory):
    return {"resource": {"resources": {"cpu": cpu, "memory": memory}}}


async def worked_off(queue):
    """Run a queue until it is empty and idle, timers aside."""
    working = asyncio.create_task(queue.run())
    while queue._busy or any(queue.depth(lane) for lane in Lane):
        await asyncio.sleep(0)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
