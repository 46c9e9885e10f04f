"""Random histories of a cluster under two managers, against a plain reference: equal values, one writer at a time.

MODEL_EXAMPLES=1000 .venv/bin/pytest tests/manager/test_model.py --timeout 3600     # for as long as wanted
"""

import asyncio
import contextlib
import datetime as dt
import json
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from apiserver_client import session
from manager import assembly
from manager import leader as leading
from manager.lease import LeaderElector, Role
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config.controller import ConfigStep
from manager.slo_config.evaluation import State
from tests.fakes import cluster
from tests.manager import reference_model
from tests.manager.conftest import worked_off
from tests.manager.reference_model import MID, Node, Report

NAMESPACE, CONFIG, LAST_GOOD = "koordinator-system", "slo-controller-config", "koord-manager-last-good-config"
SETTINGS = ManagerSettings()
START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
SIZE = (10_000, 20_000_000)
NAMES = ("n1", "n2")
DOCUMENTS = [
    json.dumps(document)
    for document in (
        {"enable": False},
        {"enable": True},
        {"enable": True, "midCPUThresholdPercent": 33, "midUnallocatedPercent": 30},
        {"enable": True, "midReclaimRatioPercent": 80, "degradeTimeMinutes": 5},
        {"enable": True, "midFloor": "none", "midMemoryThresholdPercent": 50},
        {"enable": True, "midReclaimMode": "static", "midStaticCPUReservedPercent": 7, "midFloor": "none"},
        {
            "enable": True,
            "nodeConfigs": [
                {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "midCPUThresholdPercent": 10},
                {"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, "enable": False},
            ],
        },
    )
] + ["{", '{"enable": "yes"}']  # two that are refused


class Manager:
    """A manager without its threads and without kopf: the test triggers elections, events and work."""

    def __init__(self, life, number):
        self.life = life
        self.identity = f"manager-{number}"
        self.elector = LeaderElector(SETTINGS, self.identity, clock=life.monotonic, now=lambda: life.now)
        self.parts = None
        self.cursor = 0
        self.lease_session = None

    async def elect(self):
        self.lease_session = self.lease_session or await self.life.session(self, lambda: True)
        role = await self.elector.try_acquire_or_renew(self.lease_session)
        if role is Role.LOST:
            await self.life.restart(self)
        elif role is Role.LEADER and self.parts is None:
            await self._lead()

    async def _lead(self):
        api = await self.life.session(self, self.elector.may_write)
        telemetry = Telemetry(CollectorRegistry(), reasons=[*Reason], states=[*State])
        self.parts = assembly.Components(
            api, SETTINGS, telemetry, clock=lambda: self.life.now, sleep=lambda _: asyncio.sleep(0)
        )
        self.cursor = len(self.life.server.changes)
        self.api = api
        await self._list()
        await leading._read_config(api, SETTINGS, self.parts)
        await worked_off(self.parts.config_queue)

    async def _list(self):
        for watch in leading.object_watches(self.api, self.parts, lambda _: None, leading.Leadership()):
            first_list = asyncio.create_task(watch.follow())
            await watch.answered.wait()
            first_list.cancel()

    async def events(self, number, *, lose=False):
        """Deliver the next events, as the watches do; or lose them, as kopf does when a watch expires."""
        if self.parts is None:
            return
        changes = self.life.server.changes[self.cursor : self.cursor + number]
        self.cursor += len(changes)
        for kind, plural, item in [] if lose else changes:
            if plural in ("nodes", "nodemetrics") or (plural == "configmaps" and item["metadata"]["name"] == CONFIG):
                self._deliver(plural, kind, item)

    def _deliver(self, plural, kind, item):
        cache, name = self.parts.cache, item["metadata"]["name"]
        known = {"nodes": cache.nodes, "nodemetrics": cache.node_metrics, "configmaps": cache.config_maps}[plural]
        if kind == "DELETED":
            known.remove(name, item["metadata"]["uid"])
        else:
            known.update(known.decode(item))
        if plural == "configmaps":
            self.parts.add_config()
        else:
            self.parts.queue.add(name)

    async def work(self, *, everything=False):
        """Run the queue until it is empty; `everything`: after the lists of expired watches, and the hourly read."""
        if self.parts is None:
            return
        if everything:
            await self._list()
            await leading.read(self.api, SETTINGS, self.parts.cache.config_maps)
            self.parts.add_everything()
        parts = self.parts
        if everything:
            parts.config_queue.add(ConfigStep.STORE)  # a retry of a write, whose timer `worked_off` has dropped
        for queue in (parts.config_queue, parts.spec_queue, parts.queue, parts.spec_queue):
            await worked_off(queue)


class Life:
    """The cluster, two managers, and the state that the reference needs."""

    def __init__(self, server):
        self.server = server
        self.now = START
        self.nodes = {}
        self.documents = ["{}"]
        self.born = 0
        self.managers = []
        self.trespasses = []
        self.pods = 0
        self.stack = contextlib.AsyncExitStack()
        server.now = START
        server.on_write = self._check_writer
        for _ in range(2):
            self._birth()

    def monotonic(self):
        return (self.now - START).total_seconds()

    def _birth(self):
        self.born += 1
        self.managers.append(Manager(self, self.born))

    async def restart(self, manager):
        """Kill a process; another one begins."""
        self.managers.remove(manager)
        self._birth()

    async def session(self, manager, may_write):
        context = session.connect(self.server.connection(), user_agent=manager.identity, may_write=may_write)
        return await self.stack.enter_async_context(context)

    def _check_writer(self, request):
        if "/leases" in request.path:
            return
        holder = self.server.get("leases", SETTINGS.lease, NAMESPACE)["spec"]["holderIdentity"]
        if request.headers["user-agent"] != holder:
            self.trespasses.append(f"{request.method} {request.path} while {holder} leads")

    # what happens to the cluster

    def advance(self, seconds):
        self.now += dt.timedelta(seconds=seconds)
        self.server.now = self.now

    def configure(self, index):
        with contextlib.suppress(cluster.Refusal):
            if index == len(DOCUMENTS):
                self.server.remove("configmaps", CONFIG, NAMESPACE)
                return
            text = DOCUMENTS[index]
            self.documents.append(text)
            data = {"data": {"colocation-config": text}}
            try:
                self.server.patch("configmaps", CONFIG, data, NAMESPACE)
            except cluster.Refusal:
                self.server.add("configmaps", {"metadata": {"name": CONFIG}, **data}, NAMESPACE)

    def add(self, name, pool):
        if name in self.nodes:
            self.nodes[name].labels = {"pool": pool}
            self.server.patch("nodes", name, {"metadata": {"labels": {"pool": pool}}})
            return
        amounts = {"cpu": f"{SIZE[0]}m", "memory": str(SIZE[1])}
        self.server.add("nodes", {
            "metadata": {"name": name, "labels": {"pool": pool}},
            "status": {"capacity": amounts, "allocatable": amounts},
        })  # fmt: skip
        self.nodes[name] = Node(self.now, SIZE, {"pool": pool})

    def remove(self, name):
        if self.nodes.pop(name, None):
            self.server.remove("nodes", name)
            for pod in self.server.all("pods"):
                if pod["spec"]["nodeName"] == name:
                    self.server.remove("pods", pod["metadata"]["name"], NAMESPACE)

    def bind(self, name, kind, cpu):
        """Bind a pod, a Mid pod only where it fits, as kube-scheduler does; or end all pods of a kind."""
        node = self.nodes.get(name)
        if node is None:
            return
        if cpu == 0:
            node.pods = [pod for pod in node.pods if pod[0] != kind]
            for pod in self.server.all("pods"):
                if pod["spec"]["nodeName"] == name and pod["metadata"]["labels"]["kind"] == kind:
                    self.server.remove("pods", pod["metadata"]["name"], NAMESPACE)
            return
        memory = 1_000 * cpu
        offered = self.published(name) or (0, 0)
        used = node.requested("mid")
        if kind == "mid" and not (used[0] + cpu <= offered[0] and used[1] + memory <= offered[1]):
            return
        amounts = {"cpu": f"{cpu}m", "memory": memory} if kind == "prod" else dict(zip(MID, (cpu, memory), strict=True))
        self.pods += 1
        self.server.add("pods", {
            "metadata": {"name": f"p{self.pods}", "labels": {"kind": kind}},
            "spec": {
                "nodeName": name, "priority": 9000 if kind == "prod" else 7000,
                "containers": [{"resources": {"requests": amounts}}],
            },
            "status": {
                "phase": "Running", "startTime": self.time(),
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": self.time()}],
            },
        }, NAMESPACE)  # fmt: skip
        node.pods.append((kind, cpu, memory))

    def time(self):
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def report(self, name, kind, peak_cpu, age_seconds):
        """Report as an agent does, if the NodeMetric exists."""
        node = self.nodes.get(name)
        sample = self.now - dt.timedelta(seconds=age_seconds)
        born = self.metric_born(name)
        if node is None or born is None or sample < max(node.born, born):
            return
        peak = (peak_cpu, 1_000 * peak_cpu)
        requests = {"prod": node.requested("prod"), "mid": node.requested("mid")}
        known = {"peak": peak, **requests} if kind != "upstream" else {"reclaimable": peak}
        if kind == "no-prediction":
            known.pop("peak")
        used = (2 * peak[0] + 500, 2_000 * peak[0])
        report = Report(sample, **known, used=used, nonsense=kind == "nonsense")
        usage = {"cpu": f"{used[0]}m", "memory": used[1]}
        nothing = {"cpu": 0, "memory": 0}

        def resources(amounts):
            cpu = "NaN" if kind == "nonsense" else f"{amounts[0]}m"
            return {"resource": {"resources": {"cpu": cpu, "memory": str(amounts[1])}}}

        status = {
            "updateTime": sample.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "prodPeakMetric": resources(peak) if report.peak else None,
            "prodReclaimableMetric": resources(peak) if report.reclaimable else None,
            "allocated": None if kind == "upstream" else {
                "prod": {"cpu": f"{requests['prod'][0]}m", "memory": requests["prod"][1]},
                "mid": dict(zip(MID, requests["mid"], strict=True)),
            },
            "usage": None if kind == "upstream" else {
                "prod": usage, "mid": {"cpu": "1", "memory": "1k"}, "batchAndFree": nothing, "system": nothing,
            },
            "nodeMetric": {"nodeUsage": {"resources": usage}},
        }  # fmt: skip
        self.server.patch("nodemetrics", name, {"status": status})
        node.reports.append(report)

    def metric_born(self, name):
        try:
            metric = self.server.get("nodemetrics", name)
        except KeyError:
            return None
        return dt.datetime.fromisoformat(metric["metadata"]["creationTimestamp"])

    def published(self, name):
        status = self.server.get("nodes", name)["status"]
        lists = (status["capacity"], status["allocatable"])
        both = [tuple(int(each[mid]) for mid in MID if mid in each) for each in lists]
        assert both[0] == both[1]
        return both[0] or None

    # the end

    async def come_to_rest(self):
        """Let one manager lead and reconcile everything, and again when every refresh is due."""
        leader = self.managers[0]
        while leader.parts is None or not leader.elector.may_write():
            self.advance(SETTINGS.lease_duration_seconds + 1)
            await leader.elect()
            leader = self.managers[0]
        before = {name: self.published(name) for name in self.nodes}
        for seconds in (0, 301):
            self.advance(seconds)
            await leader.elect()
            await leader.work(everything=True)
        return leader, before

    def in_force(self):
        """Return the document that should be in force, None where no manager has seen a valid one."""
        current = self.text_of(CONFIG)
        if current is not None and reference_model.is_good(current):
            return json.loads(current)
        last_good = self.text_of(LAST_GOOD)
        assert last_good is None or last_good in self.documents
        return None if last_good is None else json.loads(last_good)

    def text_of(self, name):
        try:
            return self.server.get("configmaps", name, NAMESPACE)["data"]["colocation-config"]
        except KeyError:
            return None

    def check(self, before):
        document = self.in_force()
        assert {each["metadata"]["name"] for each in self.server.all("nodemetrics")} == set(self.nodes)
        for name, node in self.nodes.items():
            if document is None:  # kept, at most for the default time; a withdrawal leaves room for what is bound
                bound = node.requested("mid")
                assert self.published(name) in (before[name], bound if any(bound) else None)
                continue
            holds = reference_model.strategy(document, node.labels)
            policy = self.server.get("nodemetrics", name)["spec"]["midColocationPolicy"]
            assert {key: policy.get(key, "") for key in reference_model.DEFAULTS} == holds
            wanted = reference_model.expected(holds, node, self.metric_born(name), before[name], self.now)
            assert self.published(name) in wanted, (name, wanted, holds, node)


async def act(life, kind, *given):
    if kind in ("elect", "events", "lose", "work", "restart", "freeze"):
        manager = life.managers[given[0]]
        match kind:
            case "elect":
                await manager.elect()
            case "events":
                await manager.events(given[1])
                await manager.work()
            case "lose":
                await manager.events(given[1], lose=True)
            case "work":
                await manager.work(everything=True)
            case "restart":
                await life.restart(manager)
            case "freeze":  # until its Lease has expired; the other one may acquire it
                await life.managers[1 - given[0]].elect()
                life.advance(SETTINGS.lease_duration_seconds + 1)
                await life.managers[1 - given[0]].elect()
    else:
        getattr(life, kind)(*given)


async def live(actions):
    async with cluster.running() as server:
        life = Life(server)
        async with life.stack:
            for action in actions:
                await act(life, *action)
            leader, before = await life.come_to_rest()
            life.check(before)
            await leader.elector.release(leader.lease_session)
            leader.elector.role = Role.STOPPED
            successor = life.managers[1]
            writes = len(server.writes)
            while successor.parts is None:
                await successor.elect()
                successor = life.managers[-1] if successor not in life.managers else successor
            await successor.work(everything=True)
            ignored = ("leases", "events", CONFIG)  # the Lease itself, and reports, which decide nothing
            written = [path for _, path, _ in server.writes[writes:] if not any(each in path for each in ignored)]
            assert written == []
            assert life.trespasses == []
            assert not any("kopf" in json.dumps(item) for item in server.all("nodes"))


either, node = st.integers(0, 1), st.sampled_from(NAMES)
ACTIONS = st.one_of(
    st.tuples(st.just("elect"), either),
    st.tuples(st.just("events"), either, st.integers(1, 8)),
    st.tuples(st.just("lose"), either, st.integers(1, 3)),
    st.tuples(st.just("work"), either),
    st.tuples(st.just("restart"), either),
    st.tuples(st.just("freeze"), either),
    st.tuples(st.just("advance"), st.sampled_from([1, 5, 16, 60, 400, 1000])),
    st.tuples(st.just("configure"), st.integers(0, len(DOCUMENTS))),
    st.tuples(st.just("add"), node, st.sampled_from(["a", "b", "c"])),
    st.tuples(st.just("remove"), node),
    st.tuples(st.just("bind"), node, st.sampled_from(["prod", "mid"]), st.sampled_from([0, 500, 4_000])),
    st.tuples(
        st.just("report"), node,
        st.sampled_from(["full", "full", "upstream", "no-prediction", "nonsense"]),
        st.sampled_from([0, 1_000, 3_333]),
        st.sampled_from([0, 30, 200, 800, -3_600]),
    ),
)  # fmt: skip
RUNNING = [
    ("configure", 1), ("add", "n1", "a"), ("add", "n2", "c"), ("elect", 0), ("work", 0), ("bind", "n1", "prod", 4_000),
    ("advance", 60), ("elect", 0), ("report", "n1", "full", 1_000, 0), ("events", 0, 8), ("bind", "n1", "mid", 500),
]  # fmt: skip
TAKEN_OVER = [*RUNNING, ("freeze", 0)]


@settings(max_examples=int(os.environ.get("MODEL_EXAMPLES", "30")), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([[], RUNNING, TAKEN_OVER]), st.lists(ACTIONS, max_size=40))
def test_every_history_ends_as_in_the_reference_and_only_the_lease_holder_writes(beginning, actions):
    asyncio.run(live([*beginning, *actions]))
