"""Standalone process: providers and watcher in one event loop, the REST API in separate threads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from api_types.kubernetes import pods, quantities
from apiserver_client import errors, resources, session, watching
from component_base import http_endpoint, listening, settings, tasks
from component_base.http_endpoint import ProbeResult
from scheduler_plugin.load_watcher import rest
from scheduler_plugin.load_watcher.analysers import analyser
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers import registry as provider_registry
from scheduler_plugin.load_watcher.providers.node_metric import RESOURCES
from scheduler_plugin.load_watcher.providers.provider import KnownNode, Provider
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import NoMetrics, Windows
from scheduler_plugin.load_watcher.settings import LoadWatcherSettings
from scheduler_plugin.load_watcher.watcher import Watcher, WatcherMetrics
from scheduler_plugin.state import node_report
from scheduler_plugin.state.node_report import NodeMetric, NodeReport

log = logging.getLogger(__name__)

T = TypeVar("T")
V = TypeVar("V")

_FIRST_LIST_SECONDS: Final = 30.0


class NodeInformer:
    """Current nodes, and the newest report of each."""

    def __init__(
        self, api: session.Session, data_center_label: str, pool_label: str, tag_labels: Sequence[str] = ()
    ) -> None:
        self._api = api
        self._labels = (data_center_label, pool_label, tag_labels)
        self.nodes: dict[str, KnownNode] = {}
        self.reports: dict[str, NodeReport] = {}
        self._watched: dict[str, watching.WatchState] = {}
        self._all_listed = asyncio.Event()

    async def run(self, *, with_reports: bool) -> None:
        """Watch nodes, and with `with_reports` NodeMetrics, until cancelled."""
        nodes = self._events(resources.NODES, pods.Node)
        reports = self._events(resources.NODE_METRICS, NodeMetric) if with_reports else None
        async with asyncio.TaskGroup() as group:
            group.create_task(_apply(nodes, self.nodes, lambda node: provider.known_node(node, *self._labels)))
            if reports is not None:
                read = functools.partial(node_report.read, resources=RESOURCES)
                group.create_task(_apply(reports, self.reports, read))

    async def first_lists(self) -> None:
        """Wait until the initial lists are complete, at most `_FIRST_LIST_SECONDS`; providers report missing nodes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LIST_SECONDS):
                await self._all_listed.wait()

    def _events(self, resource: resources.Resource, decode: type[T]) -> AsyncGenerator[watching.Event[T], None]:
        state = self._watched[resource.plural] = watching.WatchState()
        return watching.list_then_watch(self._api, resource, decode=decode, state=state, on_state=self._update_synced)

    def _update_synced(self, _changed: watching.WatchState) -> None:
        if all(state.synced for state in self._watched.values()):
            self._all_listed.set()


async def _apply(events: AsyncGenerator[watching.Event[T], None], into: dict[str, V], read: Callable[[T], V]) -> None:
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, watching.Changed):
                try:
                    into[event.key.name] = read(event.object)
                except quantities.InvalidQuantity as error:
                    log.warning("%s: %s; keeping the last readable version", event.key, error)
            elif isinstance(event, watching.Deleted):
                into.pop(event.key.name, None)
            elif isinstance(event, watching.Synced):
                existing = {key.name for key in event.keys}
                for name in into.keys() - existing:
                    del into[name]
            await asyncio.sleep(0)


_NEED_THE_CLUSTER: Final = frozenset({provider_spec.NODE_METRIC, provider_spec.METRICS_SERVER})
_HEALTH_SECONDS: Final = 5.0
_LONGEST_WINDOW: Final = "15m"


class LoadWatcherApp:
    """Load watcher process, which runs until SIGTERM or SIGINT."""

    def __init__(self, chosen: LoadWatcherSettings, specs: Sequence[ProviderSpec]) -> None:
        """Load the analysers. Raises AnalyserUnusable."""
        self._chosen = chosen
        self._specs = specs
        loaded = analyser.load(settings.listed(chosen.analysers))
        self._analysers = [analyser.GuardedAnalyser(name, built) for name, built in loaded.items()]
        self._windows = Windows(chosen.max_age_seconds)
        self._stop = asyncio.Event()
        self.port = 0
        """Port of the REST API, 0 before it listens."""

    def stop(self) -> None:
        """Stop `run`."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until stopped. Raises CannotListen, NoCredentials."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        async with contextlib.AsyncExitStack() as stack:
            api = await self._session(stack)
            labels = (
                self._chosen.data_center_label,
                self._chosen.pool_label,
                settings.listed(self._chosen.tag_labels),
            )
            nodes = NodeInformer(api, *labels) if api else None
            context = provider_registry.ProviderContext(
                nodes=lambda: nodes.nodes if nodes else {},
                reports=lambda: nodes.reports if nodes else {},
                api=api,
                oldest_seconds=self._chosen.max_age_seconds,
            )
            await self._serve([provider_registry.build(spec, context) for spec in self._specs], nodes)

    async def _session(self, stack: contextlib.AsyncExitStack) -> session.Session | None:
        """Connect to the apiserver. Some providers need it; the others only get the list of existing nodes from it."""
        opened = session.open_session(self._chosen.kubeconfig or None, user_agent="koord-load-watcher")
        try:
            return await stack.enter_async_context(opened)
        except errors.NoCredentials as error:
            if any(spec.type in _NEED_THE_CLUSTER for spec in self._specs):
                raise
            log.warning("%s; continuing without node names, capacity, dataCenter and pool", error)
            return None

    async def _serve(self, providers: Sequence[Provider], nodes: NodeInformer | None) -> None:
        chosen, loop = self._chosen, asyncio.get_running_loop()
        database = Database(Path(chosen.database_file), chosen.database_hours * 3600) if chosen.database_file else None
        watcher = Watcher(
            providers,
            self._windows,
            clock=time.time,
            expected=lambda: nodes.nodes if nodes else (),
            database=database,
            located=lambda: nodes.nodes if nodes else {},
            analysers=self._analysers,
        )
        restored = watcher.restore(chosen.max_age_seconds)
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        for default in (ProcessCollector, PlatformCollector, GCCollector):
            default(registry=registry)
        counted = WatcherMetrics(
            registry,
            [provider.name for provider in providers],
            self._windows,
            time.time,
            [one.name for one in self._analysers],
        )
        api = rest.WatcherApi(self._windows, time.time, lambda: self._health(watcher, loop))
        endpoint = http_endpoint.HttpEndpoint(
            chosen.http_address,
            chosen.http_port,
            health=lambda: ProbeResult(not loop.is_closed(), "the event loop runs"),
            ready=self._ready,
            registry=registry,
            routes=api.routes(),
        )
        endpoint.start()
        self.port = endpoint.port
        names = ", ".join(provider.name for provider in providers)
        where = listening.host_and_port(endpoint.address, self.port)
        log.info("serving on %s from %s; %d snapshots restored", where, names, restored)

        async def watch() -> None:
            if nodes is not None:
                await nodes.first_lists()
            await watcher.check()
            await watcher.run(chosen.interval_seconds, counted.observe)

        with_reports = any(provider.name == provider_spec.NODE_METRIC for provider in providers)
        informing = [nodes.run(with_reports=with_reports)] if nodes is not None else []
        try:
            await tasks.run([watch(), *informing], self._stop)
        finally:
            endpoint.stop()
            await watcher.close()

    def _ready(self) -> ProbeResult:
        try:
            newest = self._windows.latest(_LONGEST_WINDOW, time.time())
        except NoMetrics as error:
            return ProbeResult(False, str(error))
        age = time.time() - newest.window.end
        return ProbeResult(True, f"{len(newest.data.nodes)} nodes over {newest.window.duration}, {age:.0f} s old")

    def _health(self, watcher: Watcher, loop: asyncio.AbstractEventLoop) -> ProbeResult:
        """Check that the served data is fresh and that a provider responds; called from the endpoint's threads."""
        ready = self._ready()
        if not ready.ok:
            return ready
        checked = asyncio.run_coroutine_threadsafe(watcher.is_healthy(), loop)
        try:
            return ProbeResult(checked.result(_HEALTH_SECONDS), "no provider answers")
        except TimeoutError:
            checked.cancel()
            return ProbeResult(False, f"no provider has answered within {_HEALTH_SECONDS:g} s")
