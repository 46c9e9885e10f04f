"""One run of the model: a world, the three programs, and the actions that happen to them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import json
import logging
import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from api_types.kubernetes import pods
from koordlet.cluster import pods as pods_on_node
from koordlet.cluster.pods import PodOnNode
from tests.fakes import cluster
from tests.model import cluster_parts, processes, virtual_time
from tests.model.cluster_parts import NODE, Kubelet, KubeScheduler
from tests.model.configuration import Configuration
from tests.model.invariants import Invariants
from tests.model.memory_session import Client, Server
from tests.model.processes import AgentProcess, GuardProcess, ManagerProcess
from tests.model.virtual_time import Host
from tests.model.world import Pod, World

TICK_SECONDS = 10.0
KUBERNETES_SECONDS = 5.0

Action = tuple[Any, ...]
"""Name of a method of `actions.Actions`, its arguments, and last the seconds that pass after it."""
_OLDEST_SAMPLE_SECONDS = 45.0  # of a report when it arrives, and of the pods in it


class Run:
    """Everything of one run; `act` does one step."""

    def __init__(self, folder: Path, *, guarded: bool, seed: int) -> None:
        self.server = Server()
        self.rng = random.Random(seed)
        self.world = World()
        self.clients = {name: Client(name, self.server) for name in ("agent", "manager", "guard")}
        self.hosts = {"agent": Host("node"), "manager": Host("manager"), "guard": Host("guard")}
        self.config = Configuration(self.server)
        self.kubelet = Kubelet(self.server, self.world)
        self.guard = GuardProcess(self.hosts["guard"], self.clients["guard"])
        extender = self.guard.parts.extender if guarded else None
        self.neighbours = cluster_parts.Neighbours(self.server)
        self.scheduler = KubeScheduler(self.server, self.world, extender)
        self.manager = ManagerProcess(self.hosts["manager"], self.clients["manager"])
        self.agent = AgentProcess(self.hosts["agent"], self.clients["agent"], self.world, folder, self._without_claims)
        self.invariants = Invariants(self)
        self.pods_made = 0
        self.cut_off_at: dict[str, float] = {}
        self.reconnected_at: dict[str, float] = {}
        self.metric_born_at = 0.0
        self.clock_set_at = float("-inf")
        self.list_refused_at = self.list_refused_until = float("-inf")
        self._troubled: dict[str, float] = {}
        """What is wrong now, and since when."""
        self._last_trouble = 0.0
        self.last_manager_trouble = 0.0
        self._described: dict[str, tuple[dict[str, Any], PodOnNode]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.server.on_write = self._on_write

    def now(self) -> float:
        return virtual_time.now()

    # troubles

    def trouble(self, what: str) -> None:
        self._troubled[what] = self.now()

    def over(self, what: str) -> None:
        self._troubled.pop(what, None)
        self._last_trouble = self.now()
        if what.startswith("manager"):
            self.last_manager_trouble = self.now()

    def disturbed_since(self, since: float) -> bool:
        return bool(self._troubled) or self._last_trouble > since

    def manager_troubled_since(self, since: float) -> bool:
        return any(what.startswith("manager") for what in self._troubled) or self.last_manager_trouble > since

    def is_catching_up(self, name: str) -> bool:
        """Check whether a program was cut off so recently that its watches may not have resumed."""
        return self.now() - self.reconnected_at.get(name, float("-inf")) < 180

    def is_blind(self, name: str) -> bool:
        """Check whether a program may have seen no change since it was cut off."""
        return self.clients[name].is_cut_off or self.is_catching_up(name)

    def agent_blind_since(self) -> float | None:
        """Return since when the agent may have seen no change of a pod; None where it sees all."""
        return self.cut_off_at["agent"] - 15 if self.is_blind("agent") else None

    def clock_was_set_since(self, since: float) -> bool:
        return self.clock_set_at > since

    @property
    def can_list(self) -> bool:
        """Whether the manager has been able to list pods for a while."""
        return not self.is_blind("manager") and self.now() - self.list_refused_until >= 120

    def first_seen(self, since: float) -> float:
        """Return since when pods that ended may count: where they cannot be listed, by the newest report it saw."""
        until = self.cut_off_at["manager"] if self.is_blind("manager") else self.now()
        newest = max((at for at in self.invariants.arrived.values() if at <= until), default=0.0)
        # While Mid shrinks, what the last list showed counts for as long as there is no other one.
        last_listed = newest if self.is_blind("manager") else min(newest, self.list_refused_at)
        return since if self.can_list else min(since, last_listed - _OLDEST_SAMPLE_SECONDS)

    # the course of a run

    async def start(self) -> None:
        self._set_clock()
        self.server.add("namespaces", {"metadata": {"name": "koordinator-system"}})
        self.server.may_evict = {""}
        self.config.edit(0, self.now())
        self.server.add("nodes", cluster_parts.node_document(cluster_parts.NODE_UID))
        self.manager.start()
        self.agent.start(with_checkpoint=False)
        self.guard.start()
        self.later(self._kubernetes())
        await asyncio.sleep(2)

    def later(self, work) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def end(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for process in (self.agent, self.manager, self.guard):
            await process.kill()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and judge the state after it."""
        await asyncio.sleep(seconds)
        self.config.advance(self.now())
        for process in (self.agent, self.manager, self.guard):
            if process.task is not None and process.task.done() and process.task.exception() is not None:
                self.invariants.violated(f"{type(process).__name__} ended: {process.task.exception()!r}")
                process.task = None
        self.invariants.check()

    async def _kubernetes(self) -> None:
        while True:
            await asyncio.sleep(KUBERNETES_SECONDS)
            self._set_clock()
            self.kubelet.work(self.now())
            self.kubelet.collect_garbage(self.now())
            self._replace_evicted()
            self.neighbours.report(self.now()) if int(self.now()) % 60 < KUBERNETES_SECONDS else None
            for _ in range(3):
                bound = self.scheduler.bind_one(self.now(), self.hosts["guard"].wall())
                if bound is None:
                    break
                self.invariants.on_bound(bound)

    def add(self, pod: Pod) -> None:
        self.server.add("pods", cluster_parts.document(pod), pod.namespace)
        self.world.pods[pod.name] = pod

    def _replace_evicted(self) -> None:
        """Create pods in place of those that were evicted, as a ReplicaSet does."""
        while self.kubelet.evicted:
            gone = self.kubelet.evicted.pop()
            self.pods_made += 1
            if gone.by_scheduler:
                pod = dataclasses.replace(
                    gone, name=f"{gone.kind}-{self.pods_made}", uid=f"uid-{self.pods_made}", created=self.now(),
                    node_name="", bound_at=None, by_scheduler=False, admitted_at=None, ended_at=None, leaving_at=None,
                )  # fmt: skip
                self.add(pod)

    def _set_clock(self) -> None:
        self.server.now = dt.datetime.fromtimestamp(virtual_time.START + self.now(), dt.UTC)

    def _on_write(self, request) -> None:
        self._set_clock()
        if request.method == "POST" and request.path.endswith("/nodemetrics") and NODE in request.body.decode():
            self.metric_born_at = self.now()
        try:
            self.invariants.on_write(request)
        except Exception:  # the program that writes would catch it
            self.invariants.violated(traceback.format_exc())

    def _without_claims(self, name: str) -> PodOnNode | None:
        """Return a pod as the agent would see it if its author claimed nothing; None for a pod that claims nothing."""
        pod = self.world.pods.get(name)
        item = None if pod is None else self.server.view("pods", name, pod.namespace)
        if pod is None or not pod.is_trick or item is None:
            return None
        known = self._described.get(name)
        if known is None or known[0] is not item:
            metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid")}
            described = pods_on_node.describe(msgspec.convert({**item, "metadata": metadata}, type=pods.Pod), NODE)
            known = self._described[name] = item, described
        return known[1]


async def _live(run: Run, actions: Sequence[Action], stop_at_first: bool) -> int:
    from tests.model.actions import Actions

    await run.start()
    able = Actions(run)
    done = 0
    try:
        for name, *arguments, seconds in actions:
            with contextlib.suppress(cluster.Refusal):
                outcome = getattr(able, name)(*arguments)
                if asyncio.iscoroutine(outcome):
                    await outcome
            await run.pass_time(seconds)
            done += 1
            if run.invariants.violations and stop_at_first:
                break
    finally:
        await run.end()
    return done


class Outcome(NamedTuple):
    """Result of a run."""

    violations: list[str]
    steps: int
    """Number of actions that were carried out."""


def execute(actions: Sequence[Action], *, guarded: bool, seed: int, stop_at_first: bool = True) -> Outcome:
    """Run actions from the beginning."""
    folder = Path(tempfile.mkdtemp(prefix="model-"))
    random.seed(seed)
    logging.disable(logging.CRITICAL)
    try:
        with pytest.MonkeyPatch.context() as patch, virtual_time.installed(patch):
            processes.patched(patch, TICK_SECONDS)

            async def live() -> Outcome:
                run = Run(folder, guarded=guarded, seed=seed)
                return Outcome(run.invariants.violations, await _live(run, actions, stop_at_first))

            return virtual_time.run(live())
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(folder, ignore_errors=True)


def shrunk(actions: Sequence[Action], *, guarded: bool, seed: int, most_seconds: float = 30.0) -> list[Action]:
    """Return fewer actions that still find a violation."""
    deadline = time.perf_counter() + most_seconds
    left = list(actions[: execute(actions, guarded=guarded, seed=seed).steps])
    size = max(len(left) // 2, 1)
    while size:
        position = 0
        while position < len(left) and time.perf_counter() < deadline:
            fewer = left[:position] + left[position + size :]
            if fewer and execute(fewer, guarded=guarded, seed=seed).violations:
                left = fewer
            else:
                position += size
        size //= 2
    return left


def report(actions: Sequence[Action], violations: Sequence[str]) -> str:
    """Return the text of a failure: what did not hold, and the steps to it."""
    steps = "\n".join(f"    {json.dumps(list(action))}" for action in actions)
    return "\n".join(violations[:5]) + f"\nafter these {len(actions)} steps:\n{steps}"
