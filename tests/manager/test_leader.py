"""The whole leader, kopf included, against a cluster in memory."""

import asyncio
import contextlib
import datetime as dt
import json
import threading

import pytest
from prometheus_client import CollectorRegistry

from apiserver_client import backoff, session
from component_base import clock
from manager import leader as leading
from manager.cache import kopf_thread, object_watches
from manager.cache.work_queue import Lane
from manager.metrics.telemetry import WATCHED, Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config.evaluation import State
from tests.fakes import cluster
from tests.manager.conftest import MID, NAMESPACE, allocated, amounts, used

PAGE = object_watches._PAGE_SIZE


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch):
    """Let the watches try again at once, and lists follow soon; the delays have tests of their own."""
    monkeypatch.setattr(object_watches, "RETRIES", backoff.Backoff(0.1, 0.1))
    monkeypatch.setattr(kopf_thread, "RETRY_SECONDS", 0.2)


@contextlib.asynccontextmanager
async def leader(server, **settings):
    stop = threading.Event()
    telemetry = Telemetry(CollectorRegistry(), reasons=[*Reason], states=[*State])
    status = leading.Leadership()
    status.metric = telemetry.registry.get_sample_value
    task = asyncio.create_task(
        leading.lead(
            server.connection(),
            ManagerSettings().model_copy(update=settings),  # also values below the least: tests do not wait
            telemetry,
            status,
            identity="test",
            may_write=lambda: True,
            stop=stop,
        )
    )
    try:
        yield status
    finally:
        stop.set()
        async with asyncio.timeout(10):
            await task


async def until(condition):
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(KeyError):
                if condition():
                    return
            await asyncio.sleep(0.02)


def add_node(server, name):
    have = {"cpu": "10", "memory": "20k"}
    server.add("nodes", {"metadata": {"name": name}, "status": {"capacity": have, "allocatable": have}})


def report(server, name, peak, *, at=None):
    server.patch("nodemetrics", name, {"status": {
        "updateTime": (at or clock.utc_now()).isoformat(), "usage": used(),
        "allocated": allocated(), "prodPeakMetric": amounts(peak, "6k"),
    }})  # fmt: skip


def configure(server, document):
    data = {"colocation-config": json.dumps(document)}
    try:
        server.patch("configmaps", "slo-controller-config", {"data": data}, NAMESPACE)
    except cluster.Refusal:
        server.add("configmaps", {"metadata": {"name": "slo-controller-config"}, "data": data}, NAMESPACE)


def mid_cpu(server, name):
    return server.get("nodes", name)["status"]["allocatable"].get(MID[0])


def _threshold_percent(server):
    return server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]["midCPUThresholdPercent"]


@pytest.mark.parametrize("ahead", [dt.timedelta(minutes=16), dt.timedelta(minutes=-6)])
async def test_a_wrong_clock_of_its_own_node_withdraws_nothing_and_is_named_as_its_own(monkeypatch, ahead):
    def true_now(_=None):
        return clock.utc_now() - ahead

    monkeypatch.setattr(session.Session, "server_now", property(true_now))
    async with cluster.running() as server:
        server.now = true_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        configure(server, {"enable": True})
        async with leader(server) as status:
            await until(lambda: server.get("nodemetrics", "n1"))
            report(server, "n1", "2", at=true_now())
            await until(lambda: mid_cpu(server, "n1") == "6000")
            await until(lambda: status.problem and "the clock of the manager's own node" in status.problem)
            await until(lambda: any(item["reason"] == "ManagerClockWrong" for item in server.all("events")))
            assert status.metric("koord_manager_clock_ahead_seconds") == pytest.approx(ahead.total_seconds(), abs=2)
            assert "NodeClockWrong" not in {item["reason"] for item in server.all("events")}


async def test_events_become_node_metrics_and_mid_resources():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        configure(server, {"enable": True})
        async with leader(server) as status:
            await until(lambda: server.get("nodemetrics", "n1"))
            await until(lambda: status.problem is None)
            report(server, "n1", "2")
            await until(lambda: mid_cpu(server, "n1") == "6000")
            configure(server, {"enable": True, "midCPUThresholdPercent": 20})
            await until(lambda: mid_cpu(server, "n1") == "2000")
            await until(lambda: any(each["reason"] == "ColocationConfigApplied" for each in server.all("events")))
            await until(lambda: _threshold_percent(server) == 20)
            add_node(server, "n2")
            await until(lambda: server.get("nodemetrics", "n2"))
            configure(server, {"enable": False})
            await until(lambda: mid_cpu(server, "n1") is None)
            server.remove("nodes", "n2")
            await until(lambda: len(server.all("nodemetrics")) == 1)
        assert "kopf" not in json.dumps([server.all(plural) for plural in ("nodes", "nodemetrics", "configmaps")])


async def test_follows_edits_of_node_and_node_metric_by_their_events():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        entry = {"name": "x", "nodeSelector": {"matchLabels": {"pool": "x"}}, "degradeTimeMinutes": 5}
        configure(server, {"enable": True, "nodeConfigs": [entry]})

        def policy():
            return server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]

        async with leader(server):
            await until(lambda: policy()["degradeTimeMinutes"] == 15)
            server.patch("nodes", "n1", {"metadata": {"labels": {"pool": "x"}}})
            await until(lambda: policy()["degradeTimeMinutes"] == 5)
            server.patch("nodemetrics", "n1", {"spec": {"midColocationPolicy": {"degradeTimeMinutes": 99}}})
            await until(lambda: policy()["degradeTimeMinutes"] == 5)
            before = server.get("nodemetrics", "n1")["metadata"]["uid"]
            server.remove("nodes", "n1")
            add_node(server, "n1")
            await until(lambda: server.get("nodemetrics", "n1")["metadata"]["uid"] != before)
            await until(lambda: policy()["degradeTimeMinutes"] == 15)


def publish_before(server, name, minutes_ago):
    """Add a node with the Mid resources that an earlier leader wrote after a sample of that age."""
    time = (clock.utc_now() - dt.timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"time": time, "reason": "Calculated", "status": "True", "sample": time}
    have = {"cpu": "10", "memory": "20k", MID[0]: "6000", MID[1]: "10000"}
    server.add("nodes", {
        "metadata": {"name": name, "annotations": {"koordinator.sh/mid-resource-status": json.dumps(status)}},
        "status": {"capacity": have, "allocatable": have},
    })  # fmt: skip


def mid_reason(server, name):
    return json.loads(server.get("nodes", name)["metadata"]["annotations"]["koordinator.sh/mid-resource-status"])[
        "reason"
    ]


async def test_leads_without_the_crd_withdraws_by_the_age_of_the_sample_and_sees_the_crd_return():
    async with cluster.running() as server:
        server.stop_serving("nodemetrics")
        publish_before(server, "old", 16)
        publish_before(server, "young", 1)
        configure(server, {"enable": True})
        async with leader(server) as status:
            await until(lambda: mid_cpu(server, "old") is None)
            assert mid_reason(server, "old") == "NodeMetricMissing"
            assert mid_cpu(server, "young") == "6000"
            assert "install its CRD" in status.problem
            configure(server, {"enable": False})
            await until(lambda: mid_cpu(server, "young") is None)
            configure(server, {"enable": True})
            assert not any(path.endswith("/nodemetrics") for _, path, _ in server.writes)
            server.serve_again("nodemetrics")
            await until(lambda: server.get("nodemetrics", "old") and server.get("nodemetrics", "young"))
            report(server, "old", "2")
            await until(lambda: mid_cpu(server, "old") == "6000")
            assert status.problem is None


async def test_a_crd_that_is_deleted_and_created_again_ends_no_leader():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        configure(server, {"enable": True})
        async with leader(server) as status:
            await until(lambda: server.get("nodemetrics", "n1"))
            report(server, "n1", "2")
            await until(lambda: mid_cpu(server, "n1") == "6000")
            server.stop_serving("nodemetrics")
            await until(lambda: "install its CRD" in (status.problem or ""))
            configure(server, {"enable": False})
            await until(lambda: mid_cpu(server, "n1") is None)
            configure(server, {"enable": True})
            server.serve_again("nodemetrics")
            await until(lambda: server.get("nodemetrics", "n1"))
            report(server, "n1", "4")
            await until(lambda: mid_cpu(server, "n1") == "4000")


async def test_a_refused_watch_of_node_metrics_is_reported_and_delays_no_withdrawal():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        publish_before(server, "old", 16)
        publish_before(server, "young", 1)
        configure(server, {"enable": True})
        server.refuse["WATCH", "nodemetrics"] = cluster.Refusal(403, "Forbidden")
        async with leader(server) as status:
            await until(lambda: mid_cpu(server, "old") is None)
            assert mid_cpu(server, "young") == "6000"
            await until(lambda: "grant it by RBAC (verbs: [watch], resources: [nodemetrics]" in (status.problem or ""))
            configure(server, {"enable": False})
            await until(lambda: mid_cpu(server, "young") is None)
            del server.refuse["WATCH", "nodemetrics"]
            await until(lambda: status.problem is None)


async def test_a_leader_that_ends_leaves_no_watch_behind():
    async with cluster.running() as server:
        before = asyncio.all_tasks()
        async with leader(server):
            await until(lambda: {"nodes", "nodemetrics", "configmaps"} <= watched(server))
        await until(lambda: {task for task in asyncio.all_tasks() - before if "Cluster." not in repr(task)} == set())


def watched(server):
    return {each.path.rsplit("/", 1)[-1] for each in server.requests if each.method == "WATCH"}


async def test_a_configuration_that_cannot_be_read_keeps_no_mid_beyond_the_default_age():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        publish_before(server, "old", 16)
        publish_before(server, "young", 1)
        configure(server, {"enable": True})
        server.refuse["GET", "configmaps"] = cluster.Refusal(403, "Forbidden")
        async with leader(server):
            await until(lambda: mid_cpu(server, "old") is None)
            assert mid_cpu(server, "young") == "6000"


@pytest.mark.parametrize("fault", ["node metrics refused", "node metrics hanging", "events hanging"])
async def test_what_cannot_be_written_delays_no_withdrawal(fault):
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        names = [f"n{number}" for number in range(20)]
        for name in names:
            add_node(server, name)
        configure(server, {"enable": True})
        async with leader(server):
            await until(lambda: len(server.all("nodemetrics")) == len(names))
            for name in names:
                report(server, name, "2")
            await until(lambda: all(mid_cpu(server, name) == "6000" for name in names))
            match fault:
                case "node metrics refused":
                    server.refuse["PATCH", "nodemetrics"] = cluster.Refusal(422, "Invalid", "n1")
                case "node metrics hanging":
                    server.hanging.add(("PATCH", "nodemetrics"))
                case "events hanging":
                    server.hanging.update({("POST", "events"), ("GET", "events")})
            configure(server, {"enable": False})
            await until(lambda: all(mid_cpu(server, name) is None for name in names))


async def test_continues_after_a_list_that_expires_between_two_pages():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        for number in range(PAGE + 5):
            add_node(server, f"n{number}")
        server.expired_lists = 1
        async with leader(server):
            await until(lambda: server.expired_lists == 0)
            add_node(server, "late")
            await until(lambda: server.get("nodemetrics", "late"))


async def test_reports_a_missing_permission_with_its_rule_and_waits_for_it():
    async with cluster.running() as server:
        server.refuse["GET", "nodes"] = cluster.Refusal(403, "Forbidden")
        async with leader(server) as status:
            await until(lambda: "grant it by RBAC (verbs: [list], resources: [nodes]" in (status.problem or ""))
            del server.refuse["GET", "nodes"]
            await until(lambda: status.problem is None)


async def test_cleans_up_what_was_left_without_a_leader():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        for name in ("n1", "gone"):
            server.add("nodemetrics", {"metadata": {"name": name}})
        async with leader(server):
            await until(lambda: [item["metadata"]["name"] for item in server.all("nodemetrics")] == ["n1"])


async def test_a_new_leader_writes_nothing_where_nothing_changed():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        for number in range(5):
            add_node(server, f"n{number}")
        configure(server, {"enable": True})
        async with leader(server):
            await until(lambda: len(server.all("nodemetrics")) == 5)
            for number in range(5):
                report(server, f"n{number}", "2")
            await until(lambda: all(mid_cpu(server, f"n{number}") == "6000" for number in range(5)))
        writes = len(server.writes)
        async with leader(server):
            await asyncio.sleep(0.5)
            report(server, "n0", "2900m")
            await until(lambda: mid_cpu(server, "n0") == "5100")
        assert [path for _, path, _ in server.writes[writes:]] == ["/api/v1/nodes/n0/status"]


async def test_a_config_map_that_is_replaced_while_events_are_posted_switches_nothing_off():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        configure(server, {"enable": True})
        async with leader(server):
            await until(lambda: server.get("nodemetrics", "n1"))
            report(server, "n1", "2")
            await until(lambda: mid_cpu(server, "n1") == "6000")
            before = len(server.writes)
            for number in range(20):
                entries = [{"nodeSelector": {}} for _ in range(20)]  # an Event for each
                configure(server, {"enable": True, "midCPUThresholdPercent": 90, "nodeConfigs": entries})
                await asyncio.sleep(0.005 * (number % 5))
                server.remove("configmaps", "slo-controller-config", NAMESPACE)
                await asyncio.sleep(0.005 * (number % 3))
                configure(server, {"enable": True, "midCPUThresholdPercent": 20 + number % 2 * 10})
                wanted = "3000" if number % 2 else "2000"
                await until(lambda wanted=wanted: mid_cpu(server, "n1") == wanted)
        written = json.dumps([body for _, path, body in server.writes[before:] if "/events" not in path])
        assert '"enable": false' not in written
        assert "ColocationDisabled" not in written
        assert '{"colocation-config": ""}' not in written


async def test_a_leader_exports_the_depth_of_its_queue_and_the_age_of_its_watches():
    async with cluster.running() as server, leader(server) as status:
        await until(lambda: status.problem is None)
        depths = {lane: status.metric("koord_manager_queue_depth", {"lane": lane.value}) for lane in Lane}
        ages = {name: status.metric("koord_manager_watch_age_seconds", {"watch": name}) for name in WATCHED}
    assert set(depths) == set(Lane)
    assert all(depth is not None and depth >= 0 for depth in depths.values())
    assert all(age is not None and 0 <= age < 60 for age in ages.values())


async def test_a_leader_that_is_stopped_while_it_starts_begins_no_work():
    async with cluster.running() as server:
        add_node(server, "n1")
        async with leader(server):
            pass
        assert not [each for each in server.requests if "configmaps" in each.path or each.method != "GET"]
