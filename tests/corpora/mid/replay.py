"""Run one case through the manager's program: documents in a fake API server, and what is written there.

Replaced are only edges of the process: the clocks, `random`, kopf's watch (a new leader reads the ConfigMap by itself),
the sockets to the API server, and the election, which is won at once. Time passes while everything waits, in steps of a
second, or of the `step` of a long case.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import json
import logging
import math
import random
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kopf
import prometheus_client
import pytest

from koordctl.__main__ import main as koordctl
from manager import program
from manager.settings import ManagerSettings
from tests.fakes import cluster
from tests.manager import in_process
from tests.model.memory_session import CONNECTION, Client, Server

START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NAMESPACE, CONFIG = "koordinator-system", "slo-controller-config"
_MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
_OF_PODS = "pods"
"""In place of the amounts of `allocated.mid` in a report: the requests of the pods of the node at that time."""
_RECORDED = frozenset({"nodes", "events", "pods"})

Document = dict[str, Any]


class _Clock:
    """Seconds since the start; the wall clock may be set."""

    def __init__(self, step: float = 1.0) -> None:
        self.step = step
        self.seconds = 0.0
        self.offset = 0.0
        self.settled: list[asyncio.Future[None]] = []
        """Futures of those who wait until everything else waits."""

    def advance(self, seconds: float) -> None:
        """Move on, to the next time at which anything may happen."""
        wanted = max(self.seconds + seconds, self.seconds + self.step)
        self.seconds = math.ceil(wanted / self.step) * self.step

    def utc_now(self) -> dt.datetime:
        return START + dt.timedelta(seconds=self.seconds + self.offset)

    def wall(self) -> float:
        return self.utc_now().timestamp()

    def monotonic(self) -> float:
        return 10_000 + self.seconds


class _Selector(selectors.DefaultSelector):
    """Where the loop would sleep, time moves on to the next full second."""

    def __init__(self, clock: _Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout != 0 and self._clock.settled:
            for future in self._clock.settled:
                future.set_result(None)
            self._clock.settled.clear()
        elif not ready and timeout != 0:
            assert timeout is not None, "every task waits, and none for a time"
            self._clock.advance(timeout)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: _Clock) -> None:
        self._seconds = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self._seconds.seconds


class _Elected:
    """The election of a candidate without another one."""

    def __init__(self, _to, _settings, _identity, on_change, **_) -> None:
        self._on_change = on_change
        self.elector = SimpleNamespace(role=None, may_write=lambda: True, silence_seconds=lambda: 0.0, last_error=None)

    def start(self) -> None:
        self.elector.role = program.Role.LEADER
        self._on_change(program.Role.LEADER)

    def stop(self) -> None:
        pass

    def is_alive(self) -> bool:
        return True


async def _without_events(*_, ready_flag, stop_flag, **__) -> None:
    """Stand in for kopf.operator: it becomes ready, delivers nothing, and ends."""
    ready_flag.set_result(None)
    await asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)


async def _inline(function, /, *arguments, **options):
    return function(*arguments, **options)


class Replay:
    """A case in progress."""

    def __init__(self, case: Document) -> None:
        self.case = case
        self.clock = _Clock(case.get("step", 1.0))
        self.server = Server()
        self.server.on_write = self._on_write
        self.records = _RECORDED | set(case.get("records", ()))
        self.log: list[list[Any]] = []
        """[seconds, what, ...] of each write and each change of the reasons."""
        self.bodies: dict[str, Document] = {}
        """The newest body by path: of a later one only what differs is recorded."""
        self.registries: list[prometheus_client.CollectorRegistry] = []
        self.steps = [*case.get("steps", ())]
        self.reasons: dict[str, int] = {}
        self.is_over = self.is_leading = False
        self.stopped_at = 0.0

    def run(self) -> list[list[Any]]:
        """Return what happened."""
        with pytest.MonkeyPatch.context() as patch, in_process.restored():
            self._install(patch)
            asyncio.run(self._fill())
            settings = ManagerSettings(http_port=0, http_address="127.0.0.1", **self.case.get("settings", {}))
            while not self.is_over:
                self.is_leading = True
                program.Program(settings, CONNECTION).run()
                self.is_leading = False
                self.clock.seconds = self.stopped_at  # how long kopf's thread takes to end is not a part of the case
            for node in self.case.get("explain", ()):
                self._explain(node)
        return self.log

    def _install(self, patch: pytest.MonkeyPatch) -> None:
        clock, run = self.clock, asyncio.run
        random.seed(1)

        def run_virtual(work, **_):
            if threading.current_thread() is not threading.main_thread():
                return run(work)
            with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
                return runner.run(self._beside(work))

        def register(registry, *arguments, **options):
            made(registry, *arguments, **options)
            self.registries.append(registry)

        made = prometheus_client.CollectorRegistry.__init__
        for owner, name, stand_in in (
            (time, "time", clock.wall),
            (time, "monotonic", clock.monotonic),
            (random, "random", lambda: 0.5),
            (asyncio, "run", run_virtual),
            (asyncio, "to_thread", _inline),
            (kopf, "operator", _without_events),
            (program, "LeaderElection", _Elected),
            (prometheus_client.CollectorRegistry, "__init__", register),
        ):
            patch.setattr(owner, name, stand_in)
        patch.setattr("component_base.clock.utc_now", clock.utc_now)
        patch.setattr("apiserver_client.session.connect", self._connect)

    @contextlib.asynccontextmanager
    async def _connect(self, *_, may_write=lambda: True, **__):
        yield Client("manager", self.server).session(may_write)

    async def _beside(self, work) -> Any:
        if not self.is_leading:
            return await work
        tasks = [asyncio.create_task(each) for each in (self._script(), self._watch_reasons())]
        try:
            return await work
        finally:
            for task in tasks:
                task.cancel()
            for failure in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(failure, Exception):
                    raise failure

    # documents in

    async def _fill(self) -> None:
        self.server.add("namespaces", {"metadata": {"name": NAMESPACE}})
        self.server.may_evict = set(self.case.get("mayEvict", ()))
        self.server.budgets = dict(self.case.get("budgets", {}))
        if "config" in self.case:
            self.config(self.case["config"])
        for plural in ("nodes", "nodemetrics", "pods", "namespaces"):
            for item in self.case.get(plural, ()):
                self.add(plural, item)

    async def _script(self) -> None:
        """Take the steps up to the next restart, or to the end."""
        try:
            while self.steps:
                at, action, *arguments = self.steps.pop(0)
                await self._until(at)
                if action == "restart":
                    return
                getattr(self, action)(*arguments)
            await self._until(self.case["seconds"])
            self._note_reasons()
            self.is_over = True
        except BaseException:
            self.is_over = True
            raise
        finally:
            self.stopped_at = self.clock.seconds + self.clock.step
            handler = signal.getsignal(signal.SIGTERM)
            assert callable(handler)
            handler(signal.SIGTERM, None)

    async def _settle(self) -> None:
        """Let everything that is due at this time happen first: timers of one time have no order."""
        future = asyncio.get_running_loop().create_future()
        self.clock.settled.append(future)
        await future

    async def _until(self, at: float) -> None:
        if at > self.clock.seconds:
            await asyncio.sleep(at - self.clock.seconds)
        await self._settle()

    def config(self, document: Document | str | None) -> None:
        """Write the ConfigMap; a leader reads it when it begins."""
        with contextlib.suppress(cluster.Refusal):
            self.server.remove("configmaps", CONFIG, NAMESPACE)
        if document is not None:
            text = document if isinstance(document, str) else json.dumps(document)
            self.add(
                "configmaps",
                {"metadata": {"name": CONFIG, "namespace": NAMESPACE}, "data": {"colocation-config": text}},
            )

    def add(self, plural: str, item: Document) -> None:
        self.server.now = self.clock.utc_now()
        self.server.add(plural, _encoded(item), item["metadata"].get("namespace", ""))

    def patch(self, plural: str, name: str, body: Document, namespace: str = "") -> None:
        self.server.patch(plural, name, _encoded(body), namespace)

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        self.server.remove(plural, name, namespace)

    def report(self, name: str, status: Document) -> None:
        """Replace the status of a NodeMetric."""
        if (status.get("allocated") or {}).get("mid") == _OF_PODS:
            status = status | {"allocated": status["allocated"] | {"mid": self._requested(name)}}
        before = self.server.get("nodemetrics", name)
        self.server.patch("nodemetrics", name, {"status": dict.fromkeys(before.get("status", {})) | status})

    def _requested(self, node: str) -> dict[str, str]:
        total = dict.fromkeys(_MID, 0)
        for pod in self.server.all("pods"):
            if pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running":
                for container in pod["spec"]["containers"]:
                    for mid, amount in container.get("resources", {}).get("requests", {}).items():
                        if mid in total:
                            total[mid] += int(amount)
        return {mid: str(amount) for mid, amount in total.items()}

    def end_pods(self) -> None:
        """Let the pods that terminate end."""
        for pod in self.server.all("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                self.server.remove("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])

    def grant(self, *namespaces: str) -> None:
        self.server.may_evict = set(namespaces)

    def budget(self, namespace: str, evictions: int) -> None:
        self.server.budgets[namespace] = evictions

    def refuse(self, method: str, plural: str, code: int, reason: str, **details: Any) -> None:
        self.server.refuse[method, plural] = cluster.Refusal(code, reason, **details)

    def answer(self, method: str, plural: str) -> None:
        """End a refusal."""
        del self.server.refuse[method, plural]

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self.clock.offset += seconds

    # documents out

    def _on_write(self, request) -> None:
        self.server.now = self.clock.utc_now()
        plural, namespace, name, subresource = cluster._address(request.path)
        if plural not in self.records:
            return
        body = request.document if request.body else {}
        if plural == "events":
            if (body.get("involvedObject") or {}).get("kind") in ("Node", "Pod"):
                self._record("event", *_event(body))
        elif subresource == "eviction":
            refused = self.server.budgets.get(namespace, 1) < 1
            self._record("evict", f"{namespace}/{name}", *(["refused by a budget"] if refused else []))
        else:
            path, body = request.path.split("/", 3)[-1], _decoded(body)
            self._record(request.method, path, _changes(self.bodies.get(path), body))
            self.bodies[path] = body

    def _record(self, *what: Any) -> None:
        self.log.append([int(self.clock.seconds), *what])

    async def _watch_reasons(self) -> None:
        if self.clock.seconds:  # a leader that has just begun knows no node yet
            await asyncio.sleep(5 - self.clock.seconds % 5)
        while True:
            await self._settle()
            self._note_reasons()
            await asyncio.sleep(5 - self.clock.seconds % 5)

    def _note_reasons(self) -> None:
        """Record a change of the number of nodes by reason."""
        pages = self.registries[-1].restricted_registry(["koord_manager_nodes"]).collect()
        samples = [sample for page in pages for sample in page.samples if sample.value]
        reasons = {sample.labels["reason"]: int(sample.value) for sample in samples}
        if reasons != self.reasons:
            self._record("nodes by reason", reasons)
            self.reasons = reasons

    def _explain(self, node: str) -> None:
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
            kubeconfig = str(in_process.write_kubeconfig(Path(folder), CONNECTION.server))
            koordctl(["explain", "node", node, "--output", "json", "--kubeconfig", kubeconfig])
        self._record("explain", node, json.loads(printed.getvalue()))


def _event(body: Document) -> Iterator[Any]:
    about = body.get("involvedObject") or {}
    yield from (f"{about.get('kind')}/{about.get('name')}", body.get("type"), body.get("reason"), body.get("message"))
    if body.get("count", 1) > 1:
        yield body["count"]


def _decoded(body: Any) -> Any:
    """Return a body with the documents in its annotations decoded, so that the order of keys does not count."""
    annotations = (body.get("metadata") or {}).get("annotations") if isinstance(body, dict) else None
    if not annotations:
        return body
    found = {}
    for name, text in annotations.items():
        try:
            found[name] = json.loads(text) if text is not None else None
        except ValueError:
            found[name] = text
    return {**body, "metadata": {**body["metadata"], "annotations": found}}


def _changes(before: Any, after: Any) -> Any:
    """Return what differs from an earlier body; the keys that it lacks are listed as `without`."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    found = {key: _changes(before.get(key), value) for key, value in after.items() if before.get(key, before) != value}
    lacking = sorted(before.keys() - after.keys())
    return found | ({"without": lacking} if lacking else {})


def _encoded(item: Document) -> Document:
    """Return an object with the documents in its annotations as text."""
    annotations = (item.get("metadata") or {}).get("annotations")
    if not annotations:
        return item
    texts = {name: text if isinstance(text, str | None) else json.dumps(text) for name, text in annotations.items()}
    return {**item, "metadata": {**item["metadata"], "annotations": texts}}


def in_order(log: list[list[Any]]) -> list[list[Any]]:
    """Return the lines by time; the reasons, which are read now and then, come after what was written."""
    return sorted(log, key=lambda line: (line[0], line[1] == "nodes by reason"))


def replay(case: Document) -> list[list[Any]]:
    """Return what a case leads to, as JSON has it."""
    logging.disable(logging.CRITICAL)
    try:
        return in_order(json.loads(json.dumps(Replay(case).run())))
    finally:
        logging.disable(logging.NOTSET)
