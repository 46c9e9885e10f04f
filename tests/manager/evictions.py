"""A cluster in memory whose nodes run short of Mid, for the tests of its eviction."""

import datetime as dt
import json

from tests.fakes import cluster
from tests.manager.conftest import MID, NAMESPACE, allocated, amounts, mid_pod

ANNOTATION = "koordinator.sh/mid-eviction"
EVICT = {"enable": True, "midEviction": {"mode": "evict"}}
TENANT = "tenant"


class Short:
    """One node or several, with pods; reports come each minute, and the evictor works each second that is asked for."""

    def __init__(self, world):
        self.world, self.server = world, world.server
        self.bound = {}

    async def start(self, document=EVICT, *, may_evict=("",), nodes=("n1",)):
        self.server.may_evict = set(may_evict)
        self.world.configure(document)
        await self.world.config.start()
        await self.world.evictor.check_rights()
        for name in nodes:
            self.world.add_node(name)
            await self.world.settle(name)
        return self

    def add_pod(self, name, mid_cpu=1000, mid_memory=1000, *, node="n1", namespace=TENANT, priority=7000, **more):
        pod = mid_pod(name, mid_cpu, mid_memory, node=node)
        pod["spec"] |= {"priority": priority} | more.get("spec", {})
        pod["metadata"] |= {key: value for key, value in more.items() if key != "spec"}
        self.server.add("pods", pod, namespace)
        return pod

    def add_prod_pod(self, name="web", node="n1", *, owner="ReplicaSet", requests=None, namespace="shop", **more):
        """Add a running pod with a Prod priority and a controller."""
        owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
        self.server.add("pods", {
            "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": owners, **more},
            "spec": {"nodeName": node, "priority": 9000, "containers": [{"resources": {"requests": requests or {}}}]},
            "status": {"phase": "Running"},
        }, namespace)  # fmt: skip

    def pods_on(self, node, *, leaving=True):
        here = [each for each in self.server.all("pods") if each["spec"]["nodeName"] == node]
        return [each for each in here if leaving or "deletionTimestamp" not in each["metadata"]]

    def requested(self, node):
        """Return the Mid requests of the pods of a node, those that terminate among them, as an agent reports them."""
        containers = [each["spec"]["containers"][0] for each in self.pods_on(node)]
        wanted = [each.get("resources", {}).get("requests", {}) for each in containers]
        return [sum(int(each.get(mid, 0)) for each in wanted) for mid in MID]

    def status(self, node="n1", *, calculated=(2000, 10_000), memory=None, **more):
        """Return a report by which `calculated` results: the Prod pods request 8 cores and 16k of 10 and 20k."""
        mid_cpu, mid_memory = self.requested(node)
        usage = {each: {"cpu": "0", "memory": "0"} for each in ("prod", "mid", "batchAndFree", "system")}
        if memory is not None:
            usage["prod"]["memory"], usage["mid"]["memory"] = map(str, memory)
        return {
            "allocated": allocated(mid_cpu=mid_cpu, mid_memory=mid_memory),
            "prodPeakMetric": amounts(f"{8000 - calculated[0]}m", str(16_000 - calculated[1])),
            "usage": usage,
        } | more

    async def report(self, node="n1", *, seconds_ago=1, **given):
        self.world.report(node, seconds_ago=seconds_ago, **self.status(node, **given))
        await self.world.settle(node)

    async def minutes(self, count, *, nodes=("n1",), per_round=10, **given):
        """Let time pass: each minute every node reports, every `per_round` seconds the evictor works."""
        for _ in range(count):
            for node in nodes:
                await self.report(node, **given)
            for _ in range(60 // per_round):
                await self.round()
                self.pass_seconds(per_round)

    async def round(self):
        await self.world.evictor.round()
        while self.world.evicted_on:
            await self.world.settle(self.world.evicted_on.pop())
        self.world.sync_cache()

    async def lose_the_right(self):
        """Take the right to evict back before the first eviction, which is then attempted."""
        for name in "abc":
            self.add_pod(name)
        await self.minutes(2)
        await self.report()
        await self.world.evictor.check_rights()
        self.server.may_evict = set()
        await self.round()

    def pass_seconds(self, seconds):
        self.world.now += dt.timedelta(seconds=seconds)
        self.server.now += dt.timedelta(seconds=seconds)

    def end_pods(self):
        """Let the pods that terminate end."""
        for each in self.server.all("pods"):
            if "deletionTimestamp" in each["metadata"]:
                self.server.remove("pods", each["metadata"]["name"], each["metadata"]["namespace"])

    @property
    def evicted(self):
        return [name for _, name in self.server.evicted]

    def annotation(self, node="n1"):
        text = (self.server.get("nodes", node)["metadata"].get("annotations") or {}).get(ANNOTATION)
        return json.loads(text) if text else None

    def closed(self, node="n1"):
        """Return why the node accepts no new Mid pod, by its status annotation; empty where it does."""
        return self.world.mid_status(node).get("closed", "")

    def reasons(self):
        return {reason for _, _, reason in self.world.events()}

    def attempts(self):
        """Return the number of requests of the Eviction API."""
        return sum(path.endswith("/eviction") for _, path, _ in self.server.writes)

    def advices(self, cause="MidCPUShort"):
        """Return how often an eviction for this cause was advised."""
        labels = {"cause": cause, "outcome": "advised"}
        return self.world.telemetry.registry.get_sample_value("koord_manager_mid_evictions_total", labels) or 0


def budget_refuses(server, namespace=TENANT):
    server.budgets[namespace] = 0


__all__ = ["ANNOTATION", "EVICT", "NAMESPACE", "TENANT", "Short", "budget_refuses", "cluster"]
