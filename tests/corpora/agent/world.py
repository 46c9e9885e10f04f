"""Run an agent through one case: documents in, documents out.

A case has a host, the documents of the API server, and steps: so many ticks with such usage, then changes. What comes
out are the statuses that the agent writes, each with its time, and the metrics at the end that prediction decides. The
agent runs as it is, on an event loop whose clock passes only when nothing else is left to do; its host root is a folder
of files, and its API server answers in place of a session.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import functools
import json
import operator
import random
import re
import selectors
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import prometheus_client

from apiserver_client import errors
from koordlet import agent as program
from koordlet.node_observer import NodeObserver
from koordlet.prediction.packages import installed
from koordlet.settings import KoordletSettings
from tests.corpora.agent import predictors
from tests.fakes import installed_package
from tests.host_trees.plain_files import V2, PlainHost

Document = dict[str, Any]
CASES = Path(__file__).parent / "cases.jsonl"
NODE = "n1"
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a tenth of the time of a disk
START_WALL, START_MONOTONIC = 1_780_000_000.0, 5_000.0
METRICS = re.compile(
    r"koordlet_(evaluation|calibration|predictor|prod_peak|prod_pods|expired|refused_pods|unusable|trainings|reports"
    r"|early|checkpoint|pods_in_system)\w*"
)


class Clock:
    """Time that passes when a selector waits."""

    def __init__(self) -> None:
        self.monotonic = START_MONOTONIC
        self.wall_offset = START_WALL - START_MONOTONIC
        self.boot_offset = 0.0
        self.on_passed: Callable[[], None] = lambda: None

    def advance(self, seconds: float) -> None:
        self.monotonic = round(self.monotonic + seconds, 6)
        self.on_passed()

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Replace the clocks of the process, and chance."""
        with (
            mock.patch.multiple(
                time,
                time=lambda: self.monotonic + self.wall_offset,
                monotonic=lambda: self.monotonic,
                monotonic_ns=lambda: round(self.monotonic * 1e9),
                clock_gettime=lambda _clock: self.monotonic + self.boot_offset,
                thread_time=lambda: predictors.cpu_seconds[0],
            ),
            mock.patch.object(random, "random", return_value=0.5),
        ):
            yield


class _Selector(selectors.DefaultSelector):
    clock: Clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen")
        if not ready and timeout and timeout > 0:
            self.clock.advance(timeout)
        return ready


class _Inline(ThreadPoolExecutor):
    """Runs what is submitted at once."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class ApiServer:
    """The node, its pods and its NodeMetric, with the calls of a session that the agent makes."""

    server = "https://apiserver"

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, dict[str, Document]] = {"pods": {}, "nodes": {}, "nodemetrics": {}}
        self.answers: list[int] = []
        """Status codes of the next writes."""
        self.written: Callable[[int, Document], None] = lambda _code, _status: None
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {kind: [] for kind in self.objects}

    def put(self, kind: str, document: Document) -> Document:
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        stored = {**document, "metadata": metadata}
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        self._tell(kind, "MODIFIED" if name in self.objects[kind] else "ADDED", stored)
        self.objects[kind][name] = stored
        return stored

    def drop(self, kind: str, name: str) -> None:
        self.version += 1
        gone = self.objects[kind].pop(name)
        self._tell(kind, "DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def _tell(self, kind: str, event: str, document: Document) -> None:
        for queue in self._watches[kind]:
            queue.put_nowait(json.dumps({"type": event, "object": document}).encode() + b"\n")

    @staticmethod
    def _kind(path: str) -> str:
        return next(kind for kind in ("pods", "nodemetrics", "nodes") if f"/{kind}" in path)

    def _refuse(self, call: Any, code: int) -> errors.StatusError:
        details = {"name": NODE} if code == 404 else {}
        status = {"code": code, "message": f"refused with {code}", "details": details}
        return errors.read_refusal(call, code, errors.msgspec.convert(status, errors.ApiStatus))

    async def send(self, call: Any, *, body: bytes | None = None, **_more: Any) -> bytes:
        kind = self._kind(call.path)
        if call.method == "GET":
            name = call.path.rpartition("/")[2]
            if name == kind:
                return self._list(kind)
            return json.dumps(self.objects[kind][f"/{name}"]).encode()
        assert call.method == "PUT"
        assert call.path.endswith(f"/nodemetrics/{NODE}/status")
        document = json.loads(body or b"")
        stored = self.objects[kind].get(f"/{NODE}")
        code = self.answers.pop(0) if self.answers else 200
        if code == 200 and stored is None:
            code = 404
        if code == 200 and stored and document["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            code = 409
        self.written(code, document["status"])
        if code != 200:
            raise self._refuse(call, code)
        assert stored is not None
        return json.dumps(self.put(kind, {**stored, "status": document["status"]})).encode()

    def _list(self, kind: str) -> bytes:
        items = list(self.objects[kind].values())
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "items": items}).encode()

    async def receive(self, call: Any, **_more: Any) -> AsyncIterator[bytes]:
        yield self._list(self._kind(call.path))

    @contextlib.asynccontextmanager
    async def stream(self, call: Any, **_more: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        watches = self._watches[self._kind(call.path)]
        watches.append(queue)

        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield await queue.get()

        try:
            yield lines()
        finally:
            watches.remove(queue)


class Host:
    """Files of the host: every tick they show what was used since the one before."""

    def __init__(self, root: Path, case: Document, clock: Clock) -> None:
        facts = case.get("host", {})
        self._files = PlainHost(root, facts.get("version", V2))
        self._cpus, self._memory = facts.get("cpus", 8), facts.get("memory", 16 << 30)
        self._graveyard = root.parent / "graveyard"
        self._tick, self._noise, self._wave = case["tick"], case.get("noise", 0.0), case.get("wave")
        self._random = random.Random(case["name"])
        self._clock = clock
        self._used: dict[str, float] = {}
        self._written = self._next = clock.monotonic
        self.use: dict[str, list[float]] = {"": [0.5, 1 << 30]}
        """Cores and bytes of each pod, and beside the pods ("")."""
        self.throttled: list[str] = []
        self.waiting: list[str] = []
        self.broken: list[str] = []
        self._periods: dict[str, list[int]] = {}
        self._waited: dict[str, int] = {}

    def begin(self) -> None:
        """Align the ticks to now."""
        self._next = self._clock.monotonic
        self.follow()

    def follow(self) -> None:
        now = self._clock.monotonic
        if now >= self._next - 1e-6:
            self._write(now)
            self._next = now + self._tick

    def _factor(self) -> float:
        noise = 1 + self._noise * (2 * self._random.uniform(0, 1) - 1)
        if self._wave is None:
            return noise
        period, height = self._wave
        part = (self._clock.monotonic - START_MONOTONIC) % period / period
        return noise * (1 + height * (1 - abs(4 * part - 2)))

    def _write(self, now: float) -> None:
        passed, self._written = now - self._written, now
        cores_total = bytes_total = 0.0
        for uid in sorted(self.use):
            cores, used_bytes = self.use[uid]
            cores, used_bytes = cores * self._factor(), used_bytes * self._factor()
            cores_total, bytes_total = cores_total + cores, bytes_total + used_bytes
            self._used[uid] = self._used.get(uid, 0.0) + cores * passed
            if uid:
                group = self._files.pod(uid)
                self._files.set_group(group, self._used[uid], int(used_bytes))
                self._write_waits(uid, group, passed)
                if uid in self.broken:
                    self._files.remove_file(group, "memory.stat")
        self._used["all"] = self._used.get("all", 0.0) + cores_total * passed
        self._files.set_node(round(self._used["all"] * 100), int(bytes_total), self._memory, self._cpus)

    def _write_waits(self, uid: str, group: Path, passed: float) -> None:
        if uid in self.throttled or uid in self._periods:
            periods = self._periods.setdefault(uid, [0, 0])
            periods[0] += round(passed * 10)
            periods[1] += round(passed * 5) * (uid in self.throttled)
            used = round(self._used[uid] * 1e6)
            text = f"usage_usec {used}\nnr_periods {periods[0]}\nnr_throttled {periods[1]}\nthrottled_usec 5\n"
            self._files.write(group, "cpu.stat", text)
        if uid in self.waiting or uid in self._waited:
            waited = self._waited.setdefault(uid, 0) + round(passed * 3e5) * (uid in self.waiting)
            self._waited[uid] = waited
            zeros = "avg10=0.00 avg60=0.00 avg300=0.00"
            text = f"some {zeros} total={waited}\nfull {zeros} total=0\n"
            for name in ("memory.pressure", "cpu.pressure", "io.pressure"):
                self._files.write(group, name, text if name.startswith("memory") else text.replace(str(waited), "0"))

    def remove(self, uid: str) -> None:
        """Remove the group of a pod. Its folder is kept elsewhere, so that no other folder gets its inode."""
        del self.use[uid]
        for number, mount in enumerate({self._files.cpu_mount, self._files.memory_mount}):
            target = self._graveyard / f"{len(list(self._graveyard.glob('*')))}-{number}"
            target.parent.mkdir(exist_ok=True)
            (mount / self._files.pod(uid)).rename(target)
        for counter in (self._used, self._periods, self._waited):
            counter.pop(uid, None)


class World:
    """One case while it runs."""

    def __init__(self, case: Document, folder: Path) -> None:
        self._case, self._folder, self._clock = case, folder, Clock()
        self._api = ApiServer()
        self._api.written = self._record
        self.reports: list[list[Any]] = []
        self.metrics: Document = {}
        self._keeps_last_only = False
        self._newest: list[Any] | None = None
        self._before: Document = {}
        self._host = Host(folder / "host", case, self._clock)
        self._state = folder / "state"
        self._state.mkdir()
        self._file = self._state / "prediction.checkpoint"
        self._task: asyncio.Task[None] | None = None
        self._agent: Any = None

    def run(self) -> None:
        """Play all steps."""
        selector = _Selector()
        selector.clock = self._clock
        self._clock.on_passed = self._host.follow
        loop = asyncio.SelectorEventLoop(selector)
        executor = _Inline(1)
        loop.set_default_executor(executor)
        ticks = mock.patch.object(program, "TICK_SECONDS", self._case["tick"])
        try:
            with self._clock.in_force(), ticks:
                loop.run_until_complete(self._play())
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            executor.shutdown()

    async def _play(self) -> None:
        tick = self._case["tick"]
        for number, step in enumerate(self._case["steps"]):
            self._change(step)
            if "restart" in step:
                await self._end(step["restart"])
            if number == 0 or "restart" in step:
                self._begin()
            self._keeps_last_only = step.get("record") == "last"
            wait = step["ticks"] * tick - (tick / 2 if number == 0 or "restart" in step else 0)
            await asyncio.sleep(wait)
            self._keep(self._newest)
            if self._task is not None and self._task.done():
                self._task.result()
        registry = self._registry
        await self._end({})
        self.metrics = {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in registry.collect()
            for sample in family.samples
            if METRICS.fullmatch(sample.name) and not sample.name.endswith("_created")
        }

    def _begin(self) -> None:
        self._host.begin()
        self._registry = prometheus_client.CollectorRegistry()
        settings = KoordletSettings(
            node_name=NODE,
            state_dir="" if self._case.get("stateless") else str(self._state),
            **self._case.get("settings", {}),
        )
        observer = NodeObserver(
            self._folder / "host", settings.max_series, time.monotonic_ns, packages=installed.load(NODE)
        )
        self._agent = program.Agent(settings, observer, self._registry)
        self._task = asyncio.ensure_future(self._agent.run(self._api))

    async def _end(self, how: Document) -> None:
        assert self._task is not None
        before = self._file.read_bytes() if how.get("kill") else b""
        self._agent.stop.set()
        await self._task
        if how.get("kill"):
            self._file.write_bytes(before)
        _damage(self._file, how.get("file", ""))
        for path, value in how.get("set", ()):
            self._file.write_bytes(_changed(self._file.read_bytes(), path, value))
        if "down" in how:
            await asyncio.sleep(how["down"])
        self._clock.boot_offset = -self._clock.monotonic if how.get("boot") else self._clock.boot_offset

    def _change(self, step: Document) -> None:
        """Apply the changes of a step."""
        api, host = self._api, self._host
        for kind, key in (("nodes", "node"), ("nodemetrics", "metric")):
            if key in step:
                api.put(kind, step[key])
        for pod in step.get("pods", ()):
            api.put("pods", pod)
        for name in step.get("drop", ()):
            api.drop(*name.split(":"))
        for uid in step.get("gone", ()):
            host.remove(uid)
        host.use |= step.get("use", {})
        for name in ("throttled", "waiting", "broken"):
            setattr(host, name, step.get(name, getattr(host, name)))
        self._clock.wall_offset += step.get("clock", 0.0)
        api.answers += step.get("answers", [])
        if "disk" in step:
            _prepare(self._state, step["disk"])

    def _record(self, code: int, status: Document) -> None:
        text = json.dumps(status).replace(str(self._state), "STATE")
        text = re.sub(r"(prediction\.checkpoint) is not used: .*?; starting", r"\1 is not used; starting", text)
        report = [self._clock.monotonic - START_MONOTONIC, code, json.loads(text)]
        if self._keeps_last_only:
            self._newest = report
        else:
            self._keep(report)

    def _keep(self, report: list[Any] | None) -> None:
        """Keep a report, as changes of the one that was kept before."""
        if report is not None:
            seconds, code, status = report
            self.reports.append([seconds, code, changes(self._before, status)])
            self._before, self._newest = status, None


def changes(before: Any, after: Any) -> Any:
    """Return what has changed in a document; a key that is gone has the value None."""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [changes(old, new) for old, new in zip(before, after, strict=True)]
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone = {key: None for key in before if key not in after}
    return gone | {key: changes(before.get(key), new) for key, new in after.items() if new != before.get(key)}


def _prepare(folder: Path, disk: str) -> None:
    temporary = folder / "prediction.checkpoint.tmp"
    match disk:
        case "full":
            temporary.symlink_to("/dev/full")
        case "fine":
            temporary.unlink(missing_ok=True)
        case "away":
            shutil.rmtree(folder)
        case "blocked":
            temporary.mkdir()
        case "file":
            shutil.rmtree(folder)
            folder.write_text("")


def _damage(file: Path, how: str) -> None:
    data = file.read_bytes() if how else b""
    match how:
        case "short":
            file.write_bytes(data[: len(data) // 2])
        case "flip":
            file.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        case "foreign":
            file.write_bytes(b"text\n" * 100)
        case "empty":
            file.write_bytes(b"")
        case "huge":
            file.write_bytes(data + bytes((1 << 25) + 1))
        case "lost":
            file.unlink()
        case "folder":
            file.unlink()
            file.mkdir()


def _changed(data: bytes, path: list[Any], value: Any) -> bytes:
    """Return a checkpoint with another value, under a right checksum. A float of an array is named by its index."""
    document = msgspec.msgpack.decode(data[16:])
    *above, last = path
    place = functools.reduce(operator.getitem, above, document)
    if isinstance(place, list) and isinstance(place[-1], bytes):
        numbers = array.array("d", place[-1])
        numbers[last] = value
        place[-1] = numbers.tobytes()
    elif last in place and value is None:
        del place[last]
    else:
        place[last] = value
    document = msgspec.msgpack.encode(document)
    return data[:12] + zlib.crc32(document).to_bytes(4, "little") + document


@contextlib.contextmanager
def packages() -> Iterator[None]:
    """Install the package of `predictors`."""
    with tempfile.TemporaryDirectory() as folder:
        installed_package.write(Path(folder), "corpus", {**predictors.POINTS, "corpus/absent": "no_such_module:It"})
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)


def play(case: Mapping[str, Any]) -> Document:
    """Return what a case gives: the reports, and the metrics at the end."""
    predictors.cpu_seconds[0] = 0.0
    with tempfile.TemporaryDirectory(prefix="corpus", dir=_MEMORY) as folder, contextlib.ExitStack() as stack:
        if case.get("packages"):
            stack.enter_context(packages())
        world = World(dict(case), Path(folder))
        world.run()
    return {"reports": world.reports, "metrics": world.metrics}
