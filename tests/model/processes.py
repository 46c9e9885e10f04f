"""The three programs, with their real code: the agent on its node, the leading manager, the cluster state of the guard.

Replaced are the cgroup files (by what the world does), kopf's watch, the threads, and the sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from apiserver_client import watching
from koordlet import agent as agent_program
from koordlet import node_observer
from koordlet.cluster.pods import PodTable
from koordlet.collectors import rates
from koordlet.collectors.node_usage import MachineFacts
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report.builder import ReportBuilder
from koordlet.samples import Snapshot, UsageSample
from koordlet.settings import KoordletSettings
from manager import leader
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config.evaluation import State
from scheduler_plugin.state import informer
from tests.model import world
from tests.model.cluster_parts import NODE
from tests.model.memory_session import CONNECTION, Client, Server
from tests.model.virtual_time import HOST, Host
from tests.model.world import World
from tests.scheduler_plugin import factories

SETTINGS = ManagerSettings()
GUARD_ONLY = {
    "filter": {"enabled": [{"name": "MidGuard"}], "disabled": [{"name": "*"}]},
    "score": {"disabled": [{"name": "*"}]},
}
_BY_KOPF = "configmaps"


def patched(monkeypatch, tick_seconds: float) -> None:
    """Replace kopf and the shortest intervals of the programs."""
    monkeypatch.setattr(agent_program, "TICK_SECONDS", tick_seconds)
    monkeypatch.setattr(leader, "_HEARTBEAT_SECONDS", 15.0)
    monkeypatch.setattr(leader.kopf_thread, "config_watch", _ConfigWatch)
    monkeypatch.setattr(leader.kopf_thread, "follow_config_map", lambda watch, on_ready: watch.follow(on_ready))
    monkeypatch.setattr("apiserver_client.session.connect", _connect)


_CLIENT_OF_TASK: dict[Any, Client] = {}


@contextlib.asynccontextmanager
async def _connect(_to, *, user_agent, may_write=lambda: True, **_):
    yield _CLIENT_OF_TASK[asyncio.current_task()].session(may_write)


class _ConfigWatch:
    """Delivers the configuration and its changes to the manager, as kopf does."""

    ident = None

    def __init__(self, _to, settings, store, *, add, **_) -> None:
        self._name, self._store, self._add = settings.config_map, store, add

    async def follow(self, on_ready: Callable[[], None]) -> None:
        server = _SERVERS[HOST.get().name]
        position = len(server.log)
        for item in server.all(_BY_KOPF):
            self._deliver("ADDED", _BY_KOPF, item)
        on_ready()
        with server.sleeper() as changed:
            while True:
                changed.clear()
                changes, position = server.log[position:], len(server.log)
                for change in changes:
                    self._deliver(change.kind, change.plural, change.item)
                if position == len(server.log):
                    await changed.wait()

    def _deliver(self, kind: str, plural: str, item: dict[str, Any]) -> None:
        if (plural, item["metadata"]["name"]) != (_BY_KOPF, self._name):
            return
        if kind == "DELETED":
            self._store.remove(self._name, item["metadata"]["uid"])
        else:
            self._store.update(self._store.decode(item))
        self._add()


_SERVERS: dict[str, Server] = {}


class Process:
    """A program as a task, on a host."""

    def __init__(self, host: Host, client: Client) -> None:
        self.host = host
        self.client = client
        self.task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def _start(self, work) -> None:
        async def program() -> None:
            HOST.set(self.host)
            _CLIENT_OF_TASK[asyncio.current_task()] = self.client
            await work

        self.task = asyncio.get_running_loop().create_task(program())

    async def kill(self) -> None:
        if self.task is None:
            return
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        _CLIENT_OF_TASK.pop(self.task, None)
        self.task = None


class ManagerProcess(Process):
    """The leader; `start` begins another leadership."""

    def __init__(self, host: Host, client: Client) -> None:
        super().__init__(host, client)
        _SERVERS[host.name] = client.server

    def start(self) -> None:
        telemetry = Telemetry(CollectorRegistry(), reasons=[*Reason], states=[*State])
        leadership = leader.Leadership()
        self._start(
            leader.lead(
                CONNECTION, SETTINGS, telemetry, leadership,
                identity="m", may_write=lambda: True, stop=threading.Event(),
            )
        )  # fmt: skip


class GuardProcess(Process):
    """The extender's cluster state, with the Mid guard as its only plugin."""

    def __init__(self, host: Host, client: Client) -> None:
        super().__init__(host, client)
        self.parts = factories.parts(plugins=GUARD_ONLY)

    def start(self) -> None:
        extender, clock = self.parts.extender, self.host.wall
        watches = {name: watching.WatchState() for name in ("nodes", "pods", "node_metrics")}
        shown = lambda pod: extender.shown(pod, clock())  # noqa: E731
        self._start(informer.Informer(self.client.session(), self.parts.cluster, watches, shown).run())


class CleanView:
    """The cluster as the agent sees it, but for pods that claim nothing untrue of themselves."""

    def __init__(self, view, pods: Callable[[], PodTable]) -> None:
        self._view = view
        self._pods = pods

    @property
    def pods(self) -> PodTable:
        return self._pods()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


class AgentProcess(Process):
    """The agent, and a second observer of the same node from which the tricks of tenants are hidden."""

    def __init__(
        self, host: Host, client: Client, of: World, folder: Path, without_claims: Callable[[str], Any]
    ) -> None:
        super().__init__(host, client)
        self.world = of
        self.folder = folder
        self.without_claims = without_claims
        self.saved_records: dict[str, float] = {}
        self.records: dict[str, float] = {}
        """Seconds that each cgroup was recorded for, by its UID: at most what the agent may know."""
        self._sampled_at: dict[str, float] = {}
        self._sampled: set[str] = set()
        self.agent: Any = None
        self.clean_forecast: Callable[[], Any] = lambda: None
        """Make the newest forecast of the agent again, by the second observer."""

    def start(self, *, with_checkpoint: bool) -> None:
        if not with_checkpoint:
            for path in self.folder.glob("**/*.checkpoint"):
                path.unlink()
        self.records = dict(self.saved_records) if with_checkpoint else {}
        self.saved_records = dict(self.records)
        self._sampled_at, self._sampled = {}, set()
        token = HOST.set(self.host)
        try:
            self._assemble()
        finally:
            HOST.reset(token)
        self._start(self.agent.run(self.client.session()))

    def _assemble(self) -> None:
        for name in ("state", "clean"):
            (self.folder / name).mkdir(exist_ok=True)
        settings = KoordletSettings(
            node_name=NODE, state_dir=str(self.folder / "state"), checkpoint_interval_seconds=600, max_series=64
        )
        observer, shadow = (self._observer() for _ in range(2))
        self.agent = agent_program.Agent(settings, observer, CollectorRegistry())
        view = CleanView(self.agent.view, self._clean_table)
        shadow_reports = ReportBuilder(shadow)
        shadow_checkpointer = Checkpointer(str(self.folder / "clean"), NODE, shadow.server)
        checkpointer, reports = self.agent.checkpointer, self.agent.reports

        def in_the_shadow(arguments):
            return [view if each is self.agent.view else each for each in arguments]

        def also(owner, name, other) -> None:
            real = getattr(owner, name)

            def both(*args, **kwargs):
                other(*in_the_shadow(args), **kwargs)
                return real(*args, **kwargs)

            setattr(owner, name, both)

        def predict(*args, **kwargs) -> None:
            table = self._clean_table()
            frozen = [CleanView(self.agent.view, lambda: table) if each is view else each for each in args]
            self.clean_forecast = functools.partial(shadow_reports.predict, *frozen, **kwargs)

        def train(*args, **kwargs) -> None:
            self._record()
            shadow.train(*args, **kwargs)

        real_save = checkpointer.save

        async def save() -> None:
            await shadow_checkpointer.save()
            await real_save()
            self.saved_records = dict(self.records)

        also(observer, "observe", shadow.observe)
        also(observer, "train", train)
        also(reports, "predict", predict)
        also(checkpointer, "restore", shadow_checkpointer.restore)
        checkpointer.save = save

    def _observer(self) -> node_observer.NodeObserver:
        observer = node_observer.NodeObserver(self.folder, max_series=64)
        observer.collector.collect = self._collect
        facts = MachineFacts(world.CAPACITY["cpu"] // 1000, world.CAPACITY["memory"])
        observer.collector.machine_facts = lambda: facts
        return observer

    def _collect(self, now_seconds: float, *_args, **_kwargs) -> Snapshot:
        """Measure the world; the second observer gets the same snapshot."""
        at = asyncio.get_running_loop().time()
        newest = self.world.ticks[-1] if self.world.ticks else None
        tick = newest if newest is not None and newest.at == at else self.world.measure(at)
        hidden = tick.unmeasured | tick.in_system
        pods = {uid: UsageSample(*usage) for uid, usage in tick.pods.items() if uid not in hidden}
        self._sampled |= pods.keys()
        node = UsageSample(*tick.node)
        return Snapshot(
            at_seconds=now_seconds,
            node=node,
            system=None if tick.unmeasured else rates.system_usage(node, pods.values()),
            pods=pods,
            unmeasured_pods=tick.unmeasured,
            pods_in_system=tick.in_system,
        )

    def _record(self) -> None:
        """Count what a training may: the time since the last sample of a pod, of a gap two training intervals."""
        now = self.host.since_boot()
        for uid in self._sampled:
            passed = min(now - self._sampled_at.get(uid, now), 60.0)
            self.records[uid] = self.records.get(uid, 0.0) + passed
            self._sampled_at[uid] = now
        self._sampled = set()

    def _clean_table(self) -> PodTable:
        table = PodTable()
        for (_, name), pod in self.agent.view.pods._pods.items():
            table.put(self.without_claims(name) or pod)
        table.synced = self.agent.view.pods.synced
        return table

    async def crash(self) -> None:
        """End as on SIGKILL: without a checkpoint."""

        async def nothing() -> None:
            """Stand in for a checkpoint that is not written."""

        if self.is_running:
            self.agent.checkpointer.save = nothing
        await self.kill()

    async def stop(self) -> None:
        """End as on SIGTERM: with a checkpoint."""
        if self.is_running:
            self.agent.stop.set()
            await self.task
        await self.kill()
