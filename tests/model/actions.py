"""What may happen: users, tenants and their tricks, faults, clocks, operators. Drawn from a seed, replayable."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from tests.fakes import cluster
from tests.model import cluster_parts, world
from tests.model.cluster_parts import FORMS, NAMESPACES, NODE
from tests.model.configuration import EDITS
from tests.model.virtual_time import Loop
from tests.model.world import CPU, GIB, MEMORY, MID, Pod

MOST_PODS = 24
TRICKS = ("hash", "hash and mirror", "hash, mirror and owner")
REFUSALS = (
    ("manager", "PATCH", "nodemetrics", 403, 400),
    ("manager", "PATCH", "nodes", 429, 60),
    ("manager", "GET", "pods", 500, 400),
    ("agent", "PUT", "nodemetrics", 429, 90),
    ("agent", "PUT", "nodemetrics", 403, 400),
)


class Actions:
    """The actions on a run. Numbers choose among what exists, so that a list with gaps can be replayed."""

    def __init__(self, run) -> None:
        self.run = run

    # pods

    def pod(self, kind: str, seed: int, **more: Any) -> Pod:
        """Create a pod of a class with random requests, limit and load."""
        run = self.run
        rng = random.Random(seed)
        living = [each for each in run.world.pods.values() if each.ended_at is None]
        if len(living) >= MOST_PODS:
            self.end(seed)
            self.delete(seed)
        cpu, memory = rng.choice((250, 500, 1_000, 2_000, 4_000)), rng.choice((1, 2, 4, 8)) * GIB
        if kind == "mid":
            requests = {MID[CPU]: cpu, MID[MEMORY]: memory}
        else:
            requests = {} if kind in ("batch", "free") else {CPU: cpu, MEMORY: memory}
        if kind in ("batch", "free"):
            cpu, memory = cpu * 4, memory * 8
        return self._create(
            kind,
            requests,
            load=world.load_shape(rng),
            demand=(cpu / 1000 * rng.uniform(0.2, 1.3), memory * rng.uniform(0.3, 1.0)),
            cpu_limit=cpu * 2 if kind != "mid" and rng.random() < 0.5 else None,
            **{"namespace": rng.choice(NAMESPACES), "form": rng.choice(FORMS)} | more,
        )

    def _create(self, kind: str, requests: dict[str, int], **more: Any) -> Pod:
        run = self.run
        run.pods_made += 1
        name = f"{kind}-{run.pods_made}"
        if "e0003" in more.get("form", ""):
            requests = {resource: amount // 1000 for resource, amount in requests.items()}
        pod = Pod(
            name=name,
            uid=f"uid-{run.pods_made}",
            kind=kind,
            requests=requests,
            created=run.now(),
            workload=name,
            **more,
        )
        run.add(pod)
        if "e0003" in pod.form:
            pod.requests = {resource: amount * 1000 for resource, amount in requests.items()}
        return pod

    def backlog(self, count: int, cpu: int) -> None:
        """Create equal small Mid pods."""
        waiting = sum(1 for pod in self.run.world.pods.values() if not pod.node_name and pod.ended_at is None)
        for _ in range(min(count, MOST_PODS // 2 - waiting)):
            self._create("mid", {MID[CPU]: cpu, MID[MEMORY]: GIB}, load=lambda _: 0.5, demand=(cpu / 1000, GIB / 2))

    def greedy(self, seed: int) -> None:
        """Create a pod that names its node itself, with absurd requests."""
        amount = random.Random(seed).choice((10**9, 10**15, 20_000))
        self._create(
            "mid", {MID[CPU]: amount, MID[MEMORY]: amount * 10**3}, load=lambda _: 0.5, demand=(0.1, GIB),
            node_name=NODE,
        )  # fmt: skip

    def greedy_prod(self, seed: int) -> None:
        """Create a Prod pod that names its node itself, with more than the node has."""
        self._create("prod", {CPU: 10**6, MEMORY: 10**15}, load=lambda _: 0.5, demand=(0.1, GIB), node_name=NODE)

    def static_pod(self, seed: int) -> None:
        """Let the kubelet show a static pod of its own."""
        pod_hash = f"{seed % 10**6:032x}"
        if any(each.cgroup == pod_hash for each in self.run.world.all_pods()):
            return
        self.pod("prod", seed, node_name=NODE, cgroup=pod_hash, metadata=self._claims(pod_hash, TRICKS[2]))

    def trick(self, seed: int, choice: int, how: int, kind: str) -> None:
        """Create a small pod that claims to be another one, by the annotations of a static pod."""
        running = sorted(
            (each for each in self.run.world.running() if each.kind == "prod" and not each.is_trick),
            key=lambda each: each.requests.get(CPU, 0),
        )
        if not running:
            return
        victim = running[-1 - choice % min(len(running), 3)]
        trick = TRICKS[how % len(TRICKS)]
        self._create(
            kind, {}, load=lambda _: 0.5, demand=(0.05, GIB / 16), is_trick=True,
            node_name="" if trick == "hash" else NODE,  # the API server wants one beside the other annotation
            metadata=self._claims(victim.cgroup_uid, trick),
        )  # fmt: skip

    def _claims(self, pod_hash: str, how: str) -> dict[str, Any]:
        node = self.run.server.view("nodes", NODE)
        annotations = {"kubernetes.io/config.hash": pod_hash, "kubernetes.io/config.source": "file"}
        if how != "hash":
            annotations["kubernetes.io/config.mirror"] = pod_hash
        owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": node["metadata"]["uid"], "controller": True}
        return {"annotations": annotations} | ({"ownerReferences": [owner]} if how == TRICKS[2] else {})

    def end(self, choice: int, *kinds: str) -> None:
        """End a running pod."""
        running = [each for each in self.run.world.running() if not kinds or each.kind in kinds]
        if running:
            self.run.kubelet.end(running[choice % len(running)], self.run.now(), "Succeeded")

    def end_mid(self, choice: int) -> None:
        """End a running Mid pod."""
        self.end(choice, "mid")

    def delete(self, choice: int) -> None:
        """Delete a pod."""
        pods = list(self.run.world.pods.values())
        if not pods:
            return
        pod = pods[choice % len(pods)]
        if pod.ended_at is None:
            pod.ended_at = self.run.now()
        self.run.world.forget(pod)
        self.run.server.remove("pods", pod.name, pod.namespace)

    # node and clocks

    def unmeasurable(self, choice: int, seconds: float) -> None:
        """Make the cgroup of a pod unreadable for a while."""
        running = self.run.world.running()
        if running:
            uid = running[choice % len(running)].cgroup_uid
            self.run.world.unmeasurable.setdefault(uid, self.run.now())
            self._after(seconds, lambda: self.run.world.unmeasurable.pop(uid, None))

    def kubelet_away(self, seconds: float) -> None:
        self.run.kubelet.is_away = True

        def back() -> None:
            self.run.kubelet.is_away = False

        self._after(seconds, back)

    def kubelet_restart(self) -> None:
        """Restart the kubelet, which admits all running pods again."""
        offered = cluster_parts.published(self.run.server)
        rejected = self.run.kubelet.restart(self.run.now())
        self.run.invariants.on_kubelet_restart(rejected, offered)

    def clock(self, seconds: float, for_seconds: float) -> None:
        """Set the clock of the node wrong, for a while."""
        host = self.run.hosts["agent"]
        host.wall_offset = seconds
        self._brief("agent's clock")
        self.run.clock_set_at = self.run.now()

        def right() -> None:
            host.wall_offset = 0.0
            self._brief("agent's clock")
            self.run.clock_set_at = self.run.now()

        self._after(for_seconds, right)

    def suspend(self, seconds: float) -> None:
        """Suspend every machine."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        for host in self.run.hosts.values():
            host.suspended_seconds += seconds
        loop.jump(seconds)
        self._brief("manager was suspended")

    def recreate_node(self, seed: int) -> None:
        """Delete the Node; the kubelet registers it again, with another UID."""
        self.run.server.remove("nodes", NODE)
        self.run.server.add("nodes", cluster_parts.node_document(f"uid-of-the-node-{seed}"))
        self.run.invariants.forget()
        self._brief("node recreated")

    # agent

    async def agent_restart(self, how: str, seconds: float) -> None:
        """End or kill the agent; another one begins, with or without the checkpoint."""
        run = self.run
        if not run.agent.is_running:
            return
        run.trouble("agent")
        if how == "graceful":
            await run.agent.stop()
        else:
            await run.agent.crash()

        def back() -> None:
            run.over("agent")
            run.agent.start(with_checkpoint=how != "lost")

        self._after(seconds, back)

    def cut_off(self, name: str, seconds: float) -> None:
        """Let a program lose the API server."""
        run = self.run
        if run.clients[name].is_cut_off:
            return
        run.clients[name].cut_off()
        if not run.is_catching_up(name):  # else it has not seen what it missed the last time
            run.cut_off_at[name] = run.now()
        run.trouble(f"{name} cut off")

        def back() -> None:
            run.clients[name].is_cut_off = False
            run.over(f"{name} cut off")
            run.reconnected_at[name] = run.now()

        self._after(seconds, back)

    # manager and configuration

    async def manager_restart(self, seconds: float) -> None:
        """Kill the leader; a while later another one leads."""
        run = self.run
        if not run.manager.is_running:
            return
        run.trouble("manager")
        await run.manager.kill()

        def back() -> None:
            run.over("manager")
            run.manager.start()

        self._after(seconds, back)

    def configure(self, index: int) -> None:
        self.run.config.edit(index, self.run.now())

    def replace_configuration(self, seconds: float) -> None:
        """Delete the ConfigMap and create it again, as `kubectl replace --force` does."""
        text = self.run.config.text
        if text is None:
            return
        self.run.config.remove()
        self._after(seconds, lambda: self.run.config.put_back(text, self.run.now()))

    def remove_configuration(self) -> None:
        self.run.config.remove()

    def refuse(self, index: int, seconds: float) -> None:
        """Let the API server refuse a kind of request of a program for a while."""
        run = self.run
        name, method, plural, code, longest = REFUSALS[index % len(REFUSALS)]
        key, refusals = (method, plural), run.clients[name].refusals
        if key in refusals:
            return
        refusals[key] = cluster.Refusal(code, {403: "Forbidden", 429: "TooManyRequests", 500: "InternalError"}[code])
        is_list, is_excuse = key == ("GET", "pods"), key == ("PATCH", "nodes")
        if is_list:
            run.list_refused_at, run.list_refused_until = run.now(), float("inf")
        what = "manager's writes" if is_excuse else f"refused {name} {method}"
        run.trouble(what)

        def back() -> None:
            refusals.pop(key, None)
            run.over(what)
            if is_list:
                run.list_refused_until = run.now()

        self._after(min(seconds, longest), back)

    def budget(self, choice: int, seconds: float) -> None:
        """Let a PodDisruptionBudget of a tenant permit nothing for a while."""
        namespace = NAMESPACES[choice % len(NAMESPACES)]
        self.run.server.budgets[namespace] = 0
        self._after(seconds, lambda: self.run.server.budgets.pop(namespace, None))

    def uncertain(self, seconds: float) -> None:
        """Let the API server answer an eviction that it has done with an error, as beside a slow etcd."""
        lies, key = self.run.clients["manager"].lies, ("POST", "pods")
        lies[key] = cluster.Refusal(500, "InternalError", "", "etcdserver: request timed out")
        self._after(seconds, lambda: lies.pop(key, None))

    def meddle(self, choice: int) -> None:
        """Change or remove what the manager wrote to the node, as another client."""
        changes: tuple[dict[str, Any], ...] = tuple(
            {"metadata": {"annotations": {name: text}}}
            for name in ("koordinator.sh/mid-eviction", "koordinator.sh/mid-resource-status")
            for text in (None, "{")
        ) + tuple(
            {"status": {key: {MID[CPU]: amount} for key in ("capacity", "allocatable")}}
            for amount in (None, "0", "999999")
        )
        change = changes[choice % len(changes)]
        self.run.server.patch("nodes", NODE, change)
        self.run.invariants.on_meddled()
        self._brief("manager's node was changed")

    def noise(self, share: float) -> None:
        self.run.world.noise = share

    def neighbours(self, count: int) -> None:
        """Add nodes that are short, of which a tenant's budget permits nothing."""
        self.run.server.budgets["aaa"] = 0
        self.run.neighbours.add(count, self.run.now())

    def delete_metric(self) -> None:
        """Delete the NodeMetric."""
        self.run.server.remove("nodemetrics", NODE)
        self._brief("NodeMetric deleted")

    def wait(self) -> None:
        """Let time pass only."""

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        async def later() -> None:
            await asyncio.sleep(seconds)
            do()

        self.run.later(later())

    def _brief(self, what: str) -> None:
        self.run.trouble(what)
        self.run.over(what)


def drawn(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Draw actions; the first ones make a node with work on it."""
    rng = random.Random(seed)
    beginning = [("pod", "prod", rng.randrange(10**6), 5.0) for _ in range(4)]
    beginning += [("pod", "batch", rng.randrange(10**6), 5.0), ("wait", 300.0), ("backlog", 4, 500, 60.0)]
    names = list(_DRAWS)
    weights = [_DRAWS[name][0] for name in names]
    chosen = rng.choices(names, weights, k=max(count - len(beginning), 0))
    made = [(name, *_DRAWS[name][1](rng), _seconds(rng)) for name in chosen]
    return (beginning + made)[:count]


def _seconds(rng: random.Random) -> float:
    return rng.choices((0.5, 3.0, 7.0, 15.0, 40.0, 130.0, 400.0), (4, 6, 6, 4, 2, 0.7, 0.2))[0]


_CLOCK_STEPS = (-90_000.0, -3_600.0, -30.0, 30.0, 120.0, 700.0, 7_200.0, 90_000.0)


def _number(rng: random.Random) -> int:
    return rng.randrange(10**6)


_DRAWS: dict[str, tuple[float, Callable[[random.Random], tuple[Any, ...]]]] = {
    "wait": (14, lambda rng: ()),
    "pod": (22, lambda rng: (rng.choices(("prod", "mid", "batch", "free", "none"), (8, 9, 4, 1, 1))[0], _number(rng))),
    "backlog": (2, lambda rng: (rng.randrange(2, 10), rng.choice((250, 500, 1_000)))),
    "end": (5, lambda rng: (_number(rng),)),
    "end_mid": (9, lambda rng: (_number(rng),)),
    "delete": (6, lambda rng: (_number(rng),)),
    "greedy": (2, lambda rng: (_number(rng),)),
    "greedy_prod": (1, lambda rng: (_number(rng),)),
    "static_pod": (0.5, lambda rng: (_number(rng),)),
    "trick": (3, lambda rng: (_number(rng), _number(rng), rng.randrange(3), rng.choice(("batch", "mid", "free")))),
    "unmeasurable": (1, lambda rng: (_number(rng), rng.choice((5.0, 60.0, 600.0)))),
    "kubelet_away": (2, lambda rng: (rng.choice((20.0, 90.0, 300.0)),)),
    "kubelet_restart": (2, lambda rng: ()),
    "clock": (1.5, lambda rng: (rng.choice(_CLOCK_STEPS), rng.choice((15.0, 100.0, 500.0)))),
    "suspend": (0.5, lambda rng: (rng.choice((30.0, 600.0)),)),
    "recreate_node": (0.7, lambda rng: (_number(rng),)),
    "agent_restart": (2, lambda rng: (rng.choice(("graceful", "killed", "lost")), rng.choice((5.0, 60.0, 400.0)))),
    "cut_off": (1.5, lambda rng: (rng.choice(("agent", "manager")), rng.choice((10.0, 90.0, 300.0)))),
    "manager_restart": (2, lambda rng: (rng.choice((1.0, 15.0, 90.0)),)),
    "configure": (6, lambda rng: (rng.choice((0, rng.randrange(len(EDITS)))),)),
    "replace_configuration": (2, lambda rng: (rng.choice((0.0, 0.1, 3.0, 40.0)),)),
    "remove_configuration": (0.5, lambda rng: ()),
    "refuse": (2.5, lambda rng: (_number(rng), rng.choice((20.0, 90.0, 400.0)))),
    "delete_metric": (1, lambda rng: ()),
    "budget": (2, lambda rng: (_number(rng), rng.choice((60.0, 600.0)))),
    "uncertain": (1, lambda rng: (rng.choice((60.0, 300.0)),)),
    "meddle": (2, lambda rng: (_number(rng),)),
    "noise": (1, lambda rng: (rng.choice((0.0, 0.02)),)),
}
"""Name -> weight, and the arguments."""
