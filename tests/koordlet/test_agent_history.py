"""The agent with a history in InfluxDB: its points, also the last ones, and the metrics of the export."""

import asyncio
import contextlib
import types

import prometheus_client
import pytest

from koordlet import agent as program
from koordlet.agent import Agent
from koordlet.influxdb_exporter import exporter
from koordlet.node_observer import NodeObserver
from koordlet.settings import KoordletSettings
from tests.fakes import apiserver
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.test_agent_process import NODE, NODE_METRICS, node_metric, scripted

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
            node_name=NODE,
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
    assert any(line.startswith(f"koordlet_usage,kind=node,node={NODE} ") for line in points(server))
    assert registry.get_sample_value("koordlet_influxdb_written_points_total") == len(points(server))


async def test_points_that_wait_at_the_end_are_written_before_it(server, agent_with_history, caplog):
    agent, _registry = agent_with_history(server, 600, 0.9)
    async with running(agent, server):
        await server.until(lambda: server.asked("PUT", f"{NODE_METRICS}/{NODE}/status"))
        assert points(server) == []
        agent.exporter.queue.add([f"m,node={NODE} f=1.0 1"])
    assert points(server) == [f"m,node={NODE} f=1.0 1"]
    assert "not written" not in caplog.text
    assert not agent.exporter.writer._thread.is_alive()
