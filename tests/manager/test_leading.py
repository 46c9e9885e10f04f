"""The whole leader, kopf included, against a cluster in memory."""

import asyncio
import contextlib
import datetime as dt
import json
import threading

from prometheus_client import CollectorRegistry

from manager import event_routing, leading
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config.sync import State
from manager.telemetry import Telemetry
from tests.fakes import cluster
from tests.manager.conftest import MID, NAMESPACE, allocated, amounts


@contextlib.asynccontextmanager
async def leader(server):
    stop = threading.Event()
    telemetry = Telemetry(CollectorRegistry(), reasons=[*Reason], states=[*State])
    status = leading.Leadership()
    task = asyncio.create_task(
        leading.lead(
            server.connection(),
            ManagerSettings(),
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


def report(server, name, peak):
    server.patch("nodemetrics", name, {"status": {
        "updateTime": leading.now().isoformat(), "allocated": allocated(), "prodPeakMetric": amounts(peak, "6k"),
    }})  # fmt: skip


def configure(server, document):
    data = {"colocation-config": json.dumps(document)}
    try:
        server.patch("configmaps", "slo-controller-config", {"data": data}, NAMESPACE)
    except cluster.Refusal:
        server.add("configmaps", {"metadata": {"name": "slo-controller-config"}, "data": data}, NAMESPACE)


def mid_cpu(server, name):
    return server.get("nodes", name)["status"]["allocatable"].get(MID[0])


async def test_events_become_node_metrics_and_mid_resources():
    async with cluster.running() as server:
        server.now = leading.now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        configure(server, {"enable": True})
        async with leader(server) as status:
            await until(lambda: server.get("nodemetrics", "n1"))
            assert status.problem is None
            report(server, "n1", "2")
            await until(lambda: mid_cpu(server, "n1") == "6000")
            configure(server, {"enable": True, "midCPUThresholdPercent": 20})
            await until(lambda: mid_cpu(server, "n1") == "2000")
            assert server.get("nodemetrics", "n1")["spec"]["midColocationPolicy"]["midCPUThresholdPercent"] == 20
            add_node(server, "n2")
            await until(lambda: server.get("nodemetrics", "n2"))
            server.remove("configmaps", "slo-controller-config", NAMESPACE)
            await until(lambda: mid_cpu(server, "n1") is None)
            server.remove("nodes", "n2")
            await until(lambda: len(server.all("nodemetrics")) == 1)
        assert "kopf" not in json.dumps([server.all(plural) for plural in ("nodes", "nodemetrics", "configmaps")])


async def test_hand_edits_of_node_and_node_metric_are_followed_by_their_events():
    async with cluster.running() as server:
        server.now = leading.now().replace(microsecond=0) - dt.timedelta(seconds=60)
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


async def test_a_missing_crd_is_said_and_waited_for():
    async with cluster.running() as server:
        server.refuse["GET", "nodemetrics"] = cluster.Refusal(404, "NotFound")
        async with leader(server) as status:
            await until(lambda: "install its CRD" in (status.problem or ""))
            del server.refuse["GET", "nodemetrics"]
            await until(lambda: status.problem is None)


async def test_a_missing_permission_is_said_with_the_rule_to_grant_and_waited_for():
    async with cluster.running() as server:
        server.refuse["GET", "nodes"] = cluster.Refusal(403, "Forbidden")
        async with leader(server) as status:
            await until(lambda: "grant it by RBAC (verbs: [list], resources: [nodes]" in (status.problem or ""))
            del server.refuse["GET", "nodes"]
            await until(lambda: status.problem is None)


async def test_what_was_left_behind_while_nobody_led_is_cleaned_up():
    async with cluster.running() as server:
        server.now = leading.now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        for name in ("n1", "gone"):
            server.add("nodemetrics", {"metadata": {"name": name}})
        async with leader(server):
            await until(lambda: [item["metadata"]["name"] for item in server.all("nodemetrics")] == ["n1"])


async def test_a_successor_writes_nothing_where_everything_is_as_it_should_be():
    async with cluster.running() as server:
        server.now = leading.now().replace(microsecond=0) - dt.timedelta(seconds=60)
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
            report(server, "n0", "4")
            await until(lambda: mid_cpu(server, "n0") == "4000")
        assert [path for _, path, _ in server.writes[writes:]] == ["/api/v1/nodes/n0/status"]


@contextlib.asynccontextmanager
async def in_a_thread():
    """A cluster with an event loop of its own, because kopf ends the tasks of its loop; `act` does something there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def act(work):
        async def there():
            return work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), loop))

    context = cluster.running()
    server = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(context.__aenter__(), loop))
    try:
        yield server, act
    finally:
        leaving = context.__aexit__(None, None, None)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(leaving, loop))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_a_list_that_expires_between_two_pages_is_listed_again(monkeypatch):
    pages_of_two = event_routing.operator_settings(ManagerSettings())
    pages_of_two.watching.chunk_size = 2
    monkeypatch.setattr(event_routing, "operator_settings", lambda _: pages_of_two)
    async with in_a_thread() as (server, act):
        server.now = leading.now().replace(microsecond=0) - dt.timedelta(seconds=60)
        for number in range(5):
            await act(lambda number=number: add_node(server, f"n{number}"))
        await act(lambda: configure(server, {"enable": True}))
        server.expired_lists = 1
        async with leader(server):
            await until(lambda: server.expired_lists == 0)
            await act(lambda: add_node(server, "late"))
            await until(lambda: server.get("nodemetrics", "late"))
        asked = [each for each in server.requests if "continue" in each.query]
        assert {each.query["limit"] for each in asked} == {"2"}
