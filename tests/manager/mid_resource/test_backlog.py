"""A backlog of Mid pods beside the real manager and the real Mid guard: Mid drains to Calculated as pods end.

The backlog is older than the withdrawal, and kube-scheduler fills a hole at once: within the published resources, and
with the guard where the plugin runs.
"""

import datetime as dt
import json
import random

import msgspec
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.state.node_report import NodeMetric
from tests.manager.conftest import MID, World, allocated, amounts, mid_pod
from tests.scheduler_plugin import factories

STEP_SECONDS, REPORT_SECONDS = 10, 60
NAMESPACE = "jobs"


class Backlog:
    """One node of 10 cores, its agent, and a queue that always has another Mid pod of one core."""

    def __init__(self, world, seed, *, guarded):
        self.world = world
        self.random = random.Random(seed)
        self.parts = factories.parts() if guarded else None
        self.ends = {}
        self.peak = "2"
        self.reports = True
        self.started = 0
        self.requeue_at = None
        self.second = 0

    def requested(self):
        return 1_000 * len(self.ends)

    def offered(self):
        return int(self.world.server.get("nodes", "n1")["status"]["allocatable"].get(MID[0], 0))

    def calculated(self):
        line = ((self.world.mid_status() or {}).get("resources") or {}).get(MID[0]) or {}
        return line.get("calculated", 0)

    async def begin(self):
        self.world.configure({"enable": True})
        await self.world.config.start()
        self.world.add_node()
        await self.world.settle()
        for _ in range(12):
            await self.step()
        assert self.requested() == self.offered() == 6_000
        self.started = 0

    async def step(self):
        self.second += STEP_SECONDS
        self.world.now += dt.timedelta(seconds=STEP_SECONDS)
        for name in [name for name, end in self.ends.items() if end <= self.second]:
            del self.ends[name]
            uid = self.world.server.get("pods", name, NAMESPACE)["metadata"]["uid"]
            self.world.server.remove("pods", name, NAMESPACE)
            if self.parts:
                self.parts.cluster.pod_deleted(NAMESPACE, name, uid)
        self.schedule()  # before the manager sees that a pod has ended
        is_report = self.reports and self.second % REPORT_SECONDS == 0
        if is_report:
            held = allocated(mid_cpu=self.requested(), mid_memory=len(self.ends))
            self.world.report(seconds_ago=0, allocated=held, prodPeakMetric=amounts(self.peak, "6k"))
        if is_report or (self.requeue_at is not None and self.second >= self.requeue_at):
            seconds = await self.world.settle()
            self.requeue_at = None if seconds is None else self.second + seconds
        self.schedule()

    def schedule(self):
        while self.offered() - self.requested() >= 1_000 and self.passes_the_guard():
            self.started += 1
            name = f"p{self.second}-{self.started}"
            now = self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            made = self.world.server.add("pods", mid_pod(name, 1_000, 1, bound_at=now), NAMESPACE)
            self.ends[name] = self.second + self.random.randrange(300, 900)
            if self.parts:
                self.parts.cluster.pod_changed(msgspec.convert(made, pods.Pod), self.world.now.timestamp())

    def passes_the_guard(self):
        if self.parts is None:
            return True
        self.parts.cluster.node_changed(msgspec.convert(self.world.server.get("nodes", "n1"), pods.Node))
        metrics = self.world.server.all("nodemetrics")
        if metrics:
            self.parts.cluster.metric_changed(msgspec.convert(metrics[0], NodeMetric))
        pod = factories.pod_document(priority=7500, requests={MID[0]: "1000", MID[1]: "1"})
        answer = json.loads(self.parts.extender.filter(factories.request(pod, ["n1"]), self.world.now.timestamp()))
        return not answer.get("FailedAndUnresolvableNodes")

    async def run(self, seconds):
        for _ in range(seconds // STEP_SECONDS):
            await self.step()


def new_leader(world):
    later = World(world.server, world.api)
    later.now, later.config = world.now, world.config
    return later


def configured(**keys):
    async def happens(backlog):
        backlog.world.configure({"enable": True, **keys})
        await backlog.world.config.refresh()
        backlog.requeue_at = backlog.second
        return 0

    return happens


off, shadow, frozen = configured(enable=False), configured(midPublish="shadow"), configured(midEmergency="freeze")


async def busy_prod(backlog):
    backlog.peak = "6"
    return 2_000


async def nothing_reclaimable(backlog):
    backlog.peak = "8"
    return 0


async def silent_agent(backlog):
    backlog.reports = False
    return 0


EVENTS = [off, busy_prod, nothing_reclaimable, silent_agent, shadow, frozen]


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("happens", EVENTS)
async def test_mid_drains_to_calculated_as_pods_end(world, happens, guarded):
    backlog = Backlog(world, seed=7, guarded=guarded)
    await backlog.begin()
    calculated = await happens(backlog)
    await backlog.run(2 * 3600)
    assert backlog.requested() <= calculated
    assert backlog.offered() == calculated


@pytest.mark.parametrize("happens", [off, nothing_reclaimable, shadow])
async def test_with_the_guard_no_new_mid_pod_starts(world, happens):
    backlog = Backlog(world, seed=3, guarded=True)
    await backlog.begin()
    await happens(backlog)
    await backlog.run(REPORT_SECONDS)  # until the next report shows it
    backlog.started = 0
    await backlog.run(3600)
    assert backlog.started == 0


@pytest.mark.parametrize("seed", range(4))
async def test_no_history_of_faults_lets_the_guard_admit_beyond_calculated(world, seed):
    backlog = Backlog(world, seed=seed, guarded=True)
    await backlog.begin()
    for _ in range(60):
        match backlog.random.randrange(4):
            case 0:
                backlog.peak = str(backlog.random.randrange(2, 9))
            case 1:
                backlog.reports = backlog.random.random() < 0.7
            case 2:
                await configured(enable=backlog.random.random() < 0.7)(backlog)
            case 3:
                backlog.world = new_leader(backlog.world)
        before = backlog.started
        await backlog.run(backlog.random.choice([10, 60, 300]))
        if backlog.started > before:
            assert backlog.requested() <= 6_000  # the most that was ever calculated
    await off(backlog)
    await backlog.step()
    backlog.started = 0
    await backlog.run(1200)
    assert (backlog.started, backlog.requested()) == (0, 0)
