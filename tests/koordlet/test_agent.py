"""The agent's pauses between reports."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import time
import types
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry

from api_types.node_metric.types import NodeMetricSpec
from apiserver_client import backoff, errors
from koordlet import agent as program
from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.collectors.snapshot import HostCollector
from koordlet.influxdb_exporter import exporter
from koordlet.mid_suppression.planner import Change
from koordlet.node_observer import NodeObserver
from koordlet.prediction import checkpoint
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpointer import FILE_NAME
from koordlet.report import sending
from koordlet.report.sending import Outcome
from koordlet.samples import NODE, UsageSample
from koordlet.settings import KoordletSettings
from tests.fakes import apiserver
from tests.host_trees.clock import Clock
from tests.host_trees.plain_files import V1, V2, PlainHost
from tests.koordlet.idle_agent import idle_agent
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod
from tests.koordlet.test_agent_process import NODE_METRICS, node_metric, scripted


def test_a_tick_compares_the_usage_of_prod_with_the_peak_in_force(tmp_path):
    host = PlainHost(tmp_path)
    host.set_node(1000, 1 << 30)
    registry = CollectorRegistry()
    agent = Agent(KoordletSettings(node_name="n1", state_dir=""), NodeObserver(tmp_path, 64), registry)
    agent.view.capacity = agent.view.allocatable = WholeAmounts(16_000, 64 << 30)
    agent.view.pods.keep_only(())
    for peak, expected in ((None, 0), (WholeAmounts(0, 1 << 40), 0), (WholeAmounts(0, 1), 1)):
        before = _exceeded(registry)
        agent.reports.prediction = None if peak is None else types.SimpleNamespace(
            prod_peak=peak, parameters=types.SimpleNamespace(predictor="n-sigma"), warm_pods=0, borrowed_pods=0,
            cold_pods=0, prod=collections.defaultdict(lambda: types.SimpleNamespace(peak=1.0)),
        )  # fmt: skip
        agent._tick()
        assert (_exceeded(registry) > before) == bool(expected), peak
    agent.observer.collector.close()


WRITTEN = sending.Sent(sending.Outcome.WRITTEN, "10")
NOT_FOUND = sending.Sent(sending.Outcome.NO_NODE_METRIC, problem="not found")


@pytest.mark.parametrize(
    ("meanwhile", "answer", "version", "threshold"),
    [
        ("9", WRITTEN, "10", 65),
        (None, WRITTEN, None, 0),  # deleted after the write, and the watch was faster than the answer
        ("12", WRITTEN, "12", 65),  # deleted and created again
        ("9", NOT_FOUND, None, 0),  # deleted before the write
        ("12", NOT_FOUND, "12", 65),
        ("9", sending.Sent(sending.Outcome.UNREACHABLE, problem="timeout"), "9", 65),
    ],
)
async def test_what_the_watch_brings_during_a_report_is_newer_than_its_answer(
    tmp_path, monkeypatch, meanwhile, answer, version, threshold
):
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    settings = KoordletSettings(node_name="n1", state_dir="", enable_suppression=True)
    agent = Agent(settings, NodeObserver(tmp_path, 64), CollectorRegistry())
    view = agent.view
    view.capacity = view.allocatable = WholeAmounts(16_000, 64 << 30)
    view.pods.keep_only(())
    view.watches["node_metric"].synced, view.resource_version = True, "9"
    policy = {"midColocationPolicy": {"enable": True, "midSuppressThresholdPercent": 65}}
    view.spec = NodeMetricSpec.model_validate(policy)
    agent._tick()
    agent.observer.newest_at_seconds = time.time()

    async def send(_api, _name, _status, sent_version):
        assert sent_version == "9"
        view.resource_version = meanwhile
        return answer

    monkeypatch.setattr(sending, "send", send)
    await agent._report_if_due(None, 1000.0)
    assert (view.resource_version, agent.suppressor.threshold_percent()) == (version, threshold)
    agent.observer.collector.close()


def _exceeded(registry):
    return registry.get_sample_value("koordlet_prod_peak_exceeded_seconds_total", {"resource": "memory"})


# What the agent does besides reporting: it trains when due, reports early, and closes the files it reads.


async def test_it_trains_every_thirty_seconds_and_exports_at_every_tick(agent, monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    trained, exported = [], []

    def tick():
        now.seconds += 1.0  # the loop has nothing to wait for after a tick of a second
        if now.seconds == 1095.0:
            agent.stop.set()

    agent._tick, agent._train, agent._export = tick, lambda: trained.append(now.seconds), exported.append
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        await agent._tick_until_stopped(None, group)
    assert trained == [1030.0, 1060.0, 1090.0]
    assert exported == [float(second) for second in range(1001, 1096)]


def open_below(folder):
    """Return the open files of this process in a folder or below, and the folder itself if it is open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(descriptor.readlink())
    return [path for path in found if folder in (path, *path.parents)]


@pytest.mark.parametrize("version", [V1, V2])
def test_a_closed_collector_has_no_file_open(tmp_path, version):
    host, clock = PlainHost(tmp_path, version), Clock()
    collector = HostCollector(host.host_root, clock)
    for second in range(1, 4):
        clock.advance(1.0)
        host.set_node(100 * second, GIB)
        host.set_group(host.pod("a"), 0.5 * second, GIB)
        collector.collect(1000.0 + second)
    assert open_below(tmp_path)
    collector.close()
    assert open_below(tmp_path) == []


def test_pods_that_are_not_measured_yet_are_cold_also_without_a_cold_start_period(tmp_path):
    spec = {"predictPolicy": {"coldStartPeriodSeconds": 0}}
    node = OneNode(tmp_path, StaticCluster(bound_pod("a"), bound_pod("b"), spec=spec))
    node.pod_cores = {"a": 0.5}
    node.run(31)
    message = node.condition("WarmingUp")["message"]
    assert message.startswith("1 of 2 Prod pods have less than 0 s of recorded history")
    node.observer.collector.close()


@pytest.mark.parametrize(
    ("is_due", "moved_cpu_millis", "reports", "early"),
    [(True, 0, 1, 0), (True, 5000, 1, 0), (False, 0, 0, 0), (False, 5000, 1, 1)],
)
async def test_a_report_before_its_time_needs_a_peak_that_moved(
    agent, registry, sent, monkeypatch, is_due, moved_cpu_millis, reports, early
):
    view = agent.view
    view.resource_version = "9"
    view.pods.keep_only(())
    view.capacity = view.allocatable = WholeAmounts(16_000, 16 * GIB)
    agent._tick()
    agent.observer.newest_at_seconds = time.time()
    await agent._report_if_due(None, 1000.0)
    assert len(sent) == 1
    predict = agent.reports.predict

    def moved(*given):
        publishes = sending.Published({"cpu": 1000 + moved_cpu_millis, "memory": GIB}, None)
        return dataclasses.replace(predict(*given), publishes=publishes)

    agent.reports.predict = moved
    agent._published = sending.Published({"cpu": 1000, "memory": GIB}, None)
    monkeypatch.setattr(agent._schedule, "is_due", lambda _now: is_due)
    sent.clear()
    before = registry.get_sample_value("koordlet_early_reports_total")
    await agent._report_if_due(None, 1020.0)
    assert len(sent) == reports
    assert registry.get_sample_value("koordlet_early_reports_total") - before == early


# The end of the agent: whatever ends it, the last checkpoint is written and every file is closed.


NODE_NAME = "n1"


class UnexpectedAnswer(Exception):
    """Anything that a decoder did not expect."""


@pytest.fixture
def ending_agent(tmp_path):
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    observer = node_observer.NodeObserver(tmp_path / "host", 100)
    settings = KoordletSettings(node_name=NODE_NAME, state_dir=str(tmp_path))
    made = Agent(settings, observer, prometheus_client.CollectorRegistry())
    made.observer.server.train(1.7e9, {NODE: UsageSample(1.0, 1e9)})
    made.checkpointer.restore = lambda: None  # the models are trained already
    made.closed = []
    close = observer.collector.close
    observer.collector.close = lambda: (made.closed.append(True), close())
    return made


async def fail(_api=None):
    await asyncio.sleep(0)
    raise UnexpectedAnswer


async def run_until_it_fails(ending_agent):
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.timeout(20):
            await ending_agent.run(None)
    assert caught.group_contains(UnexpectedAnswer)


@pytest.mark.parametrize("failing", ["a watch", "the checkpointer", "the tick loop"])
async def test_the_last_checkpoint_is_written_also_when_a_task_of_the_agent_fails(ending_agent, tmp_path, failing):
    async def forever(_api):
        await asyncio.Event().wait()

    ending_agent.view.watch = fail if failing == "a watch" else forever
    if failing == "the checkpointer":
        ending_agent.checkpointer.run = fail
    if failing == "the tick loop":
        ending_agent.checkpointer.handle_reset = lambda _request: (_ for _ in ()).throw(UnexpectedAnswer)
    await run_until_it_fails(ending_agent)
    assert checkpoint.load(tmp_path / FILE_NAME, NODE_NAME).models.keys == (NODE,)
    assert ending_agent.closed == [True]


async def test_a_last_checkpoint_that_fails_does_not_hide_why_the_agent_ends(ending_agent, caplog):
    ending_agent.view.watch = fail
    ending_agent.checkpointer.save = fail
    await run_until_it_fails(ending_agent)
    assert "the last checkpoint is not written" in caplog.text
    assert ending_agent.closed == [True]


async def test_a_cancelled_agent_writes_its_last_checkpoint(ending_agent, tmp_path):
    async def forever(_api):
        await asyncio.Event().wait()

    ending_agent.view.watch = forever
    task = asyncio.create_task(ending_agent.run(None))
    while not ending_agent.counts.ticks:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert checkpoint.load(tmp_path / FILE_NAME, NODE_NAME).models.keys == (NODE,)


# Outcomes of reports: pauses, counters and lines of the log. And the files that the agent closes at its end.


@pytest.fixture
def followed_agent(tmp_path, registry):
    with idle_agent(tmp_path, registry) as made:
        view = made.view
        view.resource_version = "9"
        view.pods.keep_only(())
        view.capacity = view.allocatable = WholeAmounts(16_000, 16 * GIB)
        yield made


@pytest.fixture
def report(followed_agent, monkeypatch):
    """Report with a given outcome; return the pause after it, to a tenth of a second."""
    now = types.SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(program, "random", types.SimpleNamespace(random=lambda: 0.0))

    async def reported(outcome, retry_after_seconds=0.0):
        followed_agent._tick()
        followed_agent.observer.newest_at_seconds = time.time()
        now.seconds += 1000.0

        async def send(_api, _name, _status, version):
            problem = "" if outcome is Outcome.WRITTEN else "the reason"
            version = version if outcome is Outcome.WRITTEN else None
            return sending.Sent(outcome, version, problem=problem, retry_after_seconds=retry_after_seconds)

        monkeypatch.setattr(sending, "send", send)
        await followed_agent._report_if_due(None, now.seconds)
        return next(
            tenths / 10 for tenths in range(1000) if followed_agent._schedule.is_check_due(now.seconds + tenths / 10)
        )

    return reported


async def test_pauses_after_failures_grow_and_begin_again_after_a_report(report):
    """The lower half of the backoff, 0.4 s doubled each time up to 15 s, and never less than the 5 s between writes."""
    assert [await report(Outcome.REFUSED) for _ in range(8)] == [5.0, 5.0, 5.0, 5.0, 6.4, 12.8, 15.0, 15.0]
    await report(Outcome.WRITTEN)
    assert [await report(Outcome.UNREACHABLE) for _ in range(6)] == [5.0, 5.0, 5.0, 5.0, 6.4, 12.8]
    assert await report(Outcome.UNREACHABLE, retry_after_seconds=40.0) == 40.0


async def test_every_report_is_counted_and_only_a_new_outcome_is_a_line(report, registry, caplog):
    caplog.set_level(logging.INFO, program.__name__)
    outcomes = [Outcome.REFUSED] * 3 + [Outcome.WRITTEN] * 2 + [Outcome.UNREACHABLE] * 2
    for outcome in outcomes:
        await report(outcome)
    for outcome in Outcome:
        count = registry.get_sample_value("koordlet_reports_total", {"outcome": outcome})
        assert count == outcomes.count(outcome), outcome
    assert [(line.levelno, line.getMessage()) for line in caplog.records if line.name == program.__name__] == [
        (logging.WARNING, "report to NodeMetric n1: refused: the reason"),
        (logging.INFO, "report to NodeMetric n1: written"),
        (logging.WARNING, "report to NodeMetric n1: unreachable: the reason"),
    ]


# The agent's probes, and its errors: each is counted or waited out, and the agent goes on.


UNREACHABLE = errors.Unreachable("the apiserver cannot be reached")


@pytest.fixture
def suppressing_agent(tmp_path, registry):
    with idle_agent(tmp_path, registry, enable_suppression=True) as made:
        yield made


@pytest.mark.parametrize(
    ("age_seconds", "is_healthy", "text"),
    [(0.0, True, "0.0"), (9.9, True, "9.9"), (10.0, False, "10.0"), (3600.0, False, "3600.0")],
)
def test_an_agent_that_has_missed_ten_ticks_is_unhealthy(suppressing_agent, monkeypatch, age_seconds, is_healthy, text):
    suppressing_agent._last_tick = 1000.0
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: 1000.0 + age_seconds))
    assert suppressing_agent.health() == (is_healthy, f"last tick {text} s ago")


def test_an_agent_is_ready_once_it_follows_the_cluster_and_measures_its_node(suppressing_agent):
    watches = suppressing_agent.view.watches
    assert suppressing_agent.ready() == (False, "waiting for pods, node, node_metric")
    watches["node"].synced = True
    watches["pods"].last_error = watches["node_metric"].last_error = UNREACHABLE
    assert suppressing_agent.ready() == (False, f"waiting for pods, node_metric\n{UNREACHABLE}")
    watches["pods"].synced = watches["node_metric"].synced = True
    assert suppressing_agent.ready() == (False, "no sample of the node yet")
    suppressing_agent.observer.newest_at_seconds = 1.7e9
    assert suppressing_agent.ready() == (True, "measuring and following the cluster")


async def test_each_failure_of_the_suppression_is_counted_and_logged(suppressing_agent, registry, caplog):
    def fail(*_given):
        raise ArithmeticError

    def failures():
        return registry.get_sample_value("koordlet_suppression_failures_total")

    suppressing_agent.suppressor.plan = suppressing_agent.suppressor.send = fail
    assert suppressing_agent._plan_suppression() == []
    assert failures() == 1
    await suppressing_agent._suppress(None, [Change])
    assert failures() == 2
    assert [line.exc_info[0] for line in caplog.records] == [ArithmeticError] * 2
    assert "limits stay; trying again in 1 s" in caplog.messages[0]
    assert "are not sent; trying again in 1 s" in caplog.messages[1]


async def test_a_report_that_fails_unexpectedly_waits_for_the_longest_pause(suppressing_agent, caplog):
    suppressing_agent.view.resource_version = "9"
    suppressing_agent.observer.newest_at_seconds = 1.7e9

    def fail(*_given):
        raise ArithmeticError

    suppressing_agent.reports.predict = fail
    await suppressing_agent._try_to_report(None, 1000.0)
    assert "report failed unexpectedly" in caplog.text
    longest = backoff.DEFAULT.longest_seconds
    assert not suppressing_agent._schedule.is_check_due(1000.0 + longest - 0.1)
    assert suppressing_agent._schedule.is_check_due(1000.0 + longest + 0.1)


# Parts that the agent drives while it runs: the history, suppression, and the times of ticks.


@pytest.mark.parametrize("seconds", [1.0, 3.0])
async def test_a_tick_that_begins_when_the_last_one_ends_is_not_late(agent, registry, monkeypatch, seconds):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(program, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))

    def tick():
        now.seconds += seconds
        if now.seconds == 1000.0 + 5 * seconds:
            agent.stop.set()

    agent._tick = tick
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        await agent._tick_until_stopped(None, group)
    assert registry.get_sample_value("koordlet_tick_lateness_seconds_count") == 5
    assert registry.get_sample_value("koordlet_tick_lateness_seconds_sum") == 0


async def test_limits_are_sent_one_plan_after_the_other(agent, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.001)
    sent, may_end = [], asyncio.Event()

    async def suppress(_api, changes):
        sent.append(changes)
        await may_end.wait()

    agent._plan_suppression, agent._suppress, agent._tick = lambda: ["a change"], suppress, lambda: None
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        ticks = []
        agent._export = ticks.append
        ticking = group.create_task(agent._tick_until_stopped(None, group))
        while len(ticks) < 5:
            await asyncio.sleep(0.001)
            assert not ticking.done()
        assert sent == [["a change"]]
        may_end.set()
        while len(sent) < 3:
            await asyncio.sleep(0.001)
            assert not ticking.done()
        agent.stop.set()


@pytest.mark.parametrize("part", ["_suppress", "_try_to_report"])
async def test_a_request_without_an_answer_does_not_hold_up_the_end(agent, monkeypatch, part):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.001)
    asked = asyncio.Event()

    async def hang(_api, _given):
        asked.set()
        await asyncio.Event().wait()

    setattr(agent, part, hang)
    agent._plan_suppression, agent._tick = lambda: ["a change"] * (part == "_suppress"), lambda: None
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(agent._tick_until_stopped(None, group))
        await asked.wait()
        agent.stop.set()


WRITE = "/api/v2/write"


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        scripted(running, node_metric(), apiserver.Answer(node_metric()))
        running.on("POST", WRITE, apiserver.Answer(b"", 204))
        yield running


@pytest.fixture
def agent_with_history(tmp_path, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.02)
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    (tmp_path / "token").write_text("secret")

    def made(server, interval_seconds, share_before_the_first):
        monkeypatch.setattr(exporter, "random", types.SimpleNamespace(random=lambda: share_before_the_first))
        registry = prometheus_client.CollectorRegistry()
        settings = KoordletSettings(
            node_name=NODE_NAME,
            state_dir="",
            influxdb_url=server.url,
            influxdb_interval_seconds=interval_seconds,
            influxdb_org="o",
            influxdb_bucket="b",
            influxdb_token_file=str(tmp_path / "token"),
        )
        return Agent(settings, NodeObserver(tmp_path / "host", 64), registry), registry

    return made


@contextlib.asynccontextmanager
async def running(agent, server):
    async with asyncio.timeout(20), server.session() as api:
        task = asyncio.create_task(agent.run(api))
        try:
            yield
        finally:
            agent.stop.set()
            await task


def points(server):
    return [line for request in server.asked("POST", WRITE) for line in request.body.decode().splitlines()]


async def test_the_usage_of_the_node_is_written_and_counted(server, agent_with_history):
    agent, registry = agent_with_history(server, 1, 0.1)
    async with running(agent, server):
        await server.until(lambda: server.asked("POST", WRITE))
    assert any(line.startswith(f"koordlet_usage,kind=node,node={NODE_NAME} ") for line in points(server))
    assert registry.get_sample_value("koordlet_influxdb_written_points_total") == len(points(server))


async def test_points_that_wait_at_the_end_are_written_before_it(server, agent_with_history, caplog):
    agent, _registry = agent_with_history(server, 600, 0.9)
    async with running(agent, server):
        await server.until(lambda: server.asked("PUT", f"{NODE_METRICS}/{NODE_NAME}/status"))
        assert points(server) == []
        agent.exporter.queue.add([f"m,node={NODE_NAME} f=1.0 1"])
    assert points(server) == [f"m,node={NODE_NAME} f=1.0 1"]
    assert "not written" not in caplog.text
    assert not agent.exporter.writer._thread.is_alive()
