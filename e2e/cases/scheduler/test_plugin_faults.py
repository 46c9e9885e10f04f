"""Faults of kube-scheduler and of Python beside it, while pods arrive: none is lost, and Mid stays within its offer."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import psutil
import pytest

from e2e.support import lone_scheduler, waiting
from e2e.support.lone_scheduler import PODS, SCHEDULER, LoneScheduler
from scheduler_plugin.kube_scheduler import frames
from scheduler_plugin.kube_scheduler.frames import Kind
from tests.scheduler_plugin.kube_scheduler import peer_frames

HOT, MID_NODE = "hot", "n0"
NODES_OF_CASES = 8
HOT_PERCENT, COOL_PERCENT = 94, 6
ARRIVING: Final = 400
PER_SECOND: Final = 100
EVERY_NTH_IS_MID: Final = 10
OFFERED_CORES, STATED_CORES = 12, 40
"""Mid of one node, by its newest report, and by its status."""
WITHIN_SECONDS = 300.0  # on a busy machine

pytestmark = pytest.mark.timeout(1800)  # the first build takes minutes


def prepare(lone: LoneScheduler) -> None:
    """Create a hot node, and cool ones of which one offers Mid."""
    lone.add_node(HOT, used_percent=HOT_PERCENT)
    for index in range(NODES_OF_CASES):
        lone.add_node(f"n{index}", used_percent=COOL_PERCENT)
    lone.state_mid(MID_NODE, cores=STATED_CORES, pods="500")  # Prod pods leave room
    lone.offer_mid(MID_NODE, cores=OFFERED_CORES)


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        prepare(lone)
        lone.start()
        yield lone


@pytest.fixture(autouse=True)
def reported(lone: LoneScheduler) -> Iterator[None]:
    """Begin with fresh reports, and end without pods."""
    for node, percent in {HOT: HOT_PERCENT, **{f"n{index}": COOL_PERCENT for index in range(NODES_OF_CASES)}}.items():
        lone.report(node, percent)
    time.sleep(1)  # until Python knows
    yield
    lone.api.send("DELETE", PODS)
    lone.until("no pod is left", lambda: not lone.pods())


def pod(name: str, *, mid: bool) -> Mapping[str, Any]:
    if mid:
        return lone_scheduler.mid_pod(name, cores=1, memory="64Mi")
    return lone_scheduler.minimal_pod(name, {"requests": {"cpu": "10m", "memory": "1Mi"}})


@contextlib.contextmanager
def pods_arriving(lone: LoneScheduler) -> Iterator[None]:
    """Create pods beside the body; in the end all are bound but those of Mid, which fill what is offered."""

    def create() -> None:
        with contextlib.closing(lone.plane.connect()) as api:
            for index in range(ARRIVING):
                is_mid = index % EVERY_NTH_IS_MID == 0
                api.send("POST", PODS, pod(f"{'mid' if is_mid else 'prod'}-{index}", mid=is_mid))
                time.sleep(1 / PER_SECOND)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        arriving = pool.submit(create)
        yield
        arriving.result()
    prod = ARRIVING - ARRIVING // EVERY_NTH_IS_MID
    before = time.time()
    lone.until("each Prod pod is bound", lambda: sum(map(bool, lone.nodes_of("prod-"))) == prod, WITHIN_SECONDS)
    lone.until("the offer of Mid is used", lambda: mid_pods(lone) == OFFERED_CORES, WITHIN_SECONDS)
    print(f"all bound {time.time() - before:.1f} s after the last one came")
    time.sleep(2)
    assert mid_pods(lone) == OFFERED_CORES


def mid_pods(lone: LoneScheduler) -> int:
    return lone.nodes_of("mid-").count(MID_NODE)


def killed(lone: LoneScheduler, name: str) -> psutil.Process:
    process = lone.plane.process(name).process
    process.kill()
    process.wait(30)
    return process


def assert_guarded(lone: LoneScheduler, name: str) -> None:
    """Create a pod that fits on the hot node alone, and see it refused for the load."""
    lone.create_pod(name, nodes=[HOT])
    lone.until(f"{name} is refused", lambda: refusal(lone, name))
    assert "cpu usage exceed threshold" in refusal(lone, name)


def refusal(lone: LoneScheduler, name: str) -> str:
    conditions = lone.api.send("GET", f"{PODS}/{name}")["status"].get("conditions", ())
    return next((condition.get("message", "bound") for condition in conditions), "")


def test_python_is_killed(lone: LoneScheduler) -> None:
    with pods_arriving(lone):
        for _ in range(2):
            time.sleep(1)
            killed(lone, lone.plugin)
            time.sleep(1)
            lone.start_plugin()
    assert_guarded(lone, "guarded")


def test_python_hangs(lone: LoneScheduler) -> None:
    process = lone.plane.process(lone.plugin).process
    with pods_arriving(lone):
        for _ in range(2):
            time.sleep(1)
            process.suspend()
            time.sleep(4)  # longer than the deadline of a question
            process.resume()
    assert_guarded(lone, "guarded")


def test_kube_scheduler_is_killed(lone: LoneScheduler) -> None:
    with pods_arriving(lone):
        for _ in range(2):
            time.sleep(1)
            killed(lone, lone.kube_scheduler)
            lone.start_kube_scheduler()
    assert HOT not in lone.nodes_of("prod-")
    assert_guarded(lone, "guarded")


def test_a_peer_tears_a_frame(lone: LoneScheduler) -> None:
    with pods_arriving(lone):
        for torn in (frames.frame(Kind.ASK, frames.text("uid"))[:-3], b"\xff" * 64):
            time.sleep(1)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(lone.socket))
                peer.sendall(peer_frames.hello(SCHEDULER, "0") + torn)
    assert_guarded(lone, "guarded")


def test_python_has_another_version(lone: LoneScheduler) -> None:
    lone.plane.stop(lone.plugin)
    stopped = threading.Event()

    def serve(listener: socket.socket) -> None:
        while not stopped.is_set():
            with contextlib.suppress(TimeoutError), listener.accept()[0] as peer:
                peer.recv(1024)
                peer.sendall(frames.frame(Kind.WELCOME, struct.pack("<H", frames.VERSION + 1)))

    with socket.socket(socket.AF_UNIX) as listener, concurrent.futures.ThreadPoolExecutor(1) as pool:
        lone.socket.unlink(missing_ok=True)
        listener.bind(str(lone.socket))
        listener.listen()
        listener.settimeout(1)
        serving = pool.submit(serve, listener)
        with pods_arriving(lone):
            log = lone.plane.log(lone.kube_scheduler)
            refused = f"version {frames.VERSION + 1}, want {frames.VERSION}"
            waiting.until(f"{refused!r} in {log}", lambda: refused in log.read_text())
            assert mid_pods(lone) == 0
            stopped.set()
            serving.result()
            lone.start_plugin()
    assert_guarded(lone, "guarded")


def test_the_leader_changes(lone: LoneScheduler) -> None:
    lone.plane.stop(lone.kube_scheduler)
    first, second = (LoneScheduler(lone.plane, {}, replica=f"-{name}") for name in ("first", "second"))
    for replica in (first, second):
        replica.start()
    with pods_arriving(lone):
        time.sleep(2)
        killed(lone, first.kube_scheduler)
        killed(lone, first.plugin)
    assert HOT not in lone.nodes_of("prod-")
    assert_guarded(lone, "guarded")
    for name in (second.kube_scheduler, second.plugin):
        lone.plane.stop(name)
    for replica in (first, second):
        replica.api.close()
    lone.start_kube_scheduler()


def test_each_profile_has_its_own_arguments(lone: LoneScheduler) -> None:
    for name in (lone.kube_scheduler, lone.plugin):
        lone.plane.stop(name)
    lone.more_profiles = {"careless": {"usageThresholds": {"cpu": HOT_PERCENT + 2}}}
    lone.start()
    lone.create_pod("careless", cpu="1", nodes=[HOT], scheduler="careless")
    lone.wait_bound("careless")
    assert_guarded(lone, "guarded")
    lone.create_pod("one-too-many", cpu="2", nodes=[HOT], scheduler="careless")
    lone.until("the pod of the other profile counts", lambda: "cpu usage exceed" in refusal(lone, "one-too-many"))
    assert lone.plugin_metric("refused_pods", profile="careless") == 1
