"""The whole leader, kopf included, against a cluster in memory."""

import asyncio
import contextlib
import datetime as dt
import json
import signal
import sys
import threading
from asyncio import subprocess

import pytest
from prometheus_client import CollectorRegistry

from component_base import clock
from manager import leader as leading
from manager.cache import kopf_watches
from manager.metrics import Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config.evaluation import State
from tests.fakes import agent_process, cluster
from tests.manager.conftest import MID, NAMESPACE, allocated, amounts, used

PAGE = kopf_watches.operator_settings(ManagerSettings()).watching.chunk_size


@pytest.fixture(autouse=True)
def no_kill(monkeypatch):
    """Disable kopf's SIGKILL 15 s after a failure: it would kill pytest."""
    harmless = kopf_watches.operator_settings(ManagerSettings())
    harmless.process.ultimate_exiting_timeout = None
    monkeypatch.setattr(kopf_watches, "operator_settings", lambda _: harmless)


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
        "updateTime": clock.utc_now().isoformat(), "allocated": allocated(), "prodPeakMetric": amounts(peak, "6k"),
        "usage": used(),
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
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
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


async def test_an_object_that_cannot_be_decoded_delays_no_other():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        add_node(server, "n1")
        add_node(server, "n2")
        server.add("nodemetrics", {"metadata": {"name": "n1"}, "status": {"prodPeakMetric": amounts(None, "6k")}})
        configure(server, {"enable": True})
        async with leader(server) as status:
            await until(lambda: server.get("nodemetrics", "n2"))
            report(server, "n2", "2")
            await until(lambda: mid_cpu(server, "n2") == "6000")
            assert status.problem is None


async def test_reports_a_missing_crd_and_waits_for_it():
    async with cluster.running() as server:
        server.refuse["GET", "nodemetrics"] = cluster.Refusal(404, "NotFound")
        async with leader(server) as status:
            await until(lambda: "install its CRD" in (status.problem or ""))
            del server.refuse["GET", "nodemetrics"]
            await until(lambda: status.problem is None)


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


async def ended_manager(server, folder):
    """Run `python -m manager` until it exits by itself; return its exit code and output."""
    kubeconfig = agent_process.kubeconfig(folder / "kubeconfig", server.url)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "manager", "run", f"--kubeconfig={kubeconfig}", "--http-address=127.0.0.1",
        "--http-port=0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 45)
        return process.returncode, output.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_exits_after_a_list_expires_between_two_pages(tmp_path):
    async with cluster.running() as server:
        for number in range(PAGE + 5):
            add_node(server, f"n{number}")
        server.expired_lists = 1
        code, output = await ended_manager(server, tmp_path)
        assert server.expired_lists == 0
        if code != -signal.SIGKILL:  # by kopf, where it could not end
            assert code == 1
            assert "exiting: a list took longer than the apiserver keeps it" in output
            assert server.get("leases", "koord-manager", NAMESPACE)["spec"]["holderIdentity"] == ""
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        async with leader(server):
            add_node(server, "late")
            await until(lambda: server.get("nodemetrics", "late"))
