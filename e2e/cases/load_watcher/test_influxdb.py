"""Usage that the agent writes into a real InfluxDB 2, read by the load watcher's provider. Needs no cluster."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from influxdb_client import InfluxDBClient

from e2e.thirdparty.influxdb import server
from koordlet.influxdb_exporter import client as influxdb
from koordlet.influxdb_exporter import exporter
from koordlet.samples import NODE as WHOLE_NODE
from koordlet.samples import SYSTEM, UsageSample
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import KnownNode, Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.load_watcher.records import MetricType, Statistic

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # cold, the first test builds influxd, for minutes

CAPACITY = KnownNode(4000, 16 << 30)
NODES = {"node-1": CAPACITY, "node-2": CAPACITY, 'node, "3"': CAPACITY}
STEP_SECONDS, MINUTES = 15, 20
NOW = int(time.time())


def usage(node: str, at: int) -> UsageSample:
    """Return the usage of a node in cores and bytes: a different wave for each node."""
    phase = list(NODES).index(node) if node in NODES else 3
    wave = math.sin(at / 180.0 + phase)
    return UsageSample(2.0 + 1.5 * wave, (8 + 3 * wave) * 2**30)


def expected(node: str, window: records.Window) -> dict[tuple[str, str], float]:
    """Return percent of capacity by type and operator, from the points themselves."""
    inside = [usage(node, at) for at in moments() if window.start <= at < window.end]
    cpu = [100.0 * each.cpu_cores * 1000 / CAPACITY.cpu_millis for each in inside]
    memory = [100.0 * each.memory_bytes / CAPACITY.memory_bytes for each in inside]
    return {
        (kind, operator): of(values)
        for kind, values in ((MetricType.CPU, cpu), (MetricType.MEMORY, memory))
        for operator, of in ((Statistic.AVG, statistics.fmean), (Statistic.STD, statistics.pstdev))
    }


def moments() -> range:
    return range(NOW - MINUTES * 60, NOW, STEP_SECONDS)


@pytest.fixture(scope="module")
def influx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Influxd]:
    """Run a server with the points that agents of four nodes write: of the node, and of its system."""
    folder = tmp_path_factory.mktemp("influxd")
    running = server.Influxd(folder)
    running.start()
    try:
        running.set_up()
        token = folder / "token"
        token.write_text(server.TOKEN)
        agent = influxdb.InfluxDb(influxdb.InfluxDbTarget(running.url, server.ORG, server.BUCKET, str(token)))
        lines = [
            line
            for node in [*NODES, "stranger"]
            for at in moments()
            for line in exporter.usage(node, at, {WHOLE_NODE: usage(node, at), SYSTEM: UsageSample(0.1, 1e8)}, {})
        ]
        agent.write(lines, 10_000)
        yield running
    finally:
        running.stop()


@contextlib.asynccontextmanager
async def provider(influx: server.Influxd, **changes: str) -> AsyncIterator[Provider]:
    keys = {"address": influx.url, "org": server.ORG, "bucket": server.BUCKET, "token": server.TOKEN}
    spec = ProviderSpec(type=provider_spec.INFLUXDB, **(keys | changes))
    built = registry.build(spec, registry.ProviderContext(lambda: NODES, dict, None))
    try:
        yield built
    finally:
        await built.close()


@pytest.mark.parametrize("duration", records.DURATIONS_SECONDS)
async def test_mean_and_deviation_of_each_window_are_those_of_the_points(influx: server.Influxd, duration: str) -> None:
    async with provider(influx) as source:
        window = records.window_ending_at(duration, NOW)
        fetched = await source.fetch(window)
        assert not fetched.problems
        reported = {
            node: {(metric.type, metric.operator): metric.value for metric in of.metrics}
            for node, of in fetched.nodes.items()
        }
        assert reported.keys() == NODES.keys(), "each node that exists, and no other"
        for node, values in reported.items():
            assert values == pytest.approx(expected(node, window), rel=1e-9)
            assert {metric.rollup for metric in fetched.nodes[node].metrics} == {duration}


async def test_a_window_without_points_has_no_node(influx: server.Influxd) -> None:
    async with provider(influx) as source:
        fetched = await source.fetch(records.window_ending_at("5m", NOW - 24 * 3600))
        assert not fetched.nodes


async def test_a_sound_configuration_passes_the_check_at_start(influx: server.Influxd) -> None:
    async with provider(influx) as source:
        assert not await source.check()
        assert await source.is_healthy()


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"bucket": "nowhere"}, "nowhere"),
        ({"bucket": 'x") |> drop()'}, "drop"),
        ({"bucket": "${1}"}, "could not find bucket"),
        ({"org": "unknown-org"}, "unknown-org"),
        ({"token": "wrong"}, "401"),
    ],
    ids=["missing bucket", "a name with quotes", "a name that Flux would evaluate", "missing organization", "token"],
)
async def test_a_refusal_of_a_real_influxdb_is_a_failure_with_its_reason(
    influx: server.Influxd, changes: dict[str, str], reported: str
) -> None:
    async with provider(influx, **changes) as source:
        with pytest.raises(ProviderFailed, match=r".") as caught:
            await source.fetch(records.window_ending_at("15m", NOW))
        assert reported in str(caught.value)
        assert urllib.parse.urlsplit(influx.url).netloc in str(caught.value)
        (problem,) = await source.check()
        assert reported in problem


async def test_a_stopped_server_fails_and_a_restarted_one_works(influx: server.Influxd) -> None:
    async with provider(influx) as source:
        influx.stop()
        with pytest.raises(ProviderFailed, match="cannot be reached"):
            await source.fetch(records.window_ending_at("15m", NOW))
        assert not await source.is_healthy()
        influx.start()
        assert (await source.fetch(records.window_ending_at("15m", NOW))).nodes.keys() == NODES.keys()


async def test_text_instead_of_numbers_is_a_failure(influx: server.Influxd, tmp_path: Path) -> None:
    with InfluxDBClient(influx.url, server.TOKEN, org=server.ORG) as client:
        client.buckets_api().create_bucket(bucket_name="broken", org=server.ORG)
    token = tmp_path / "token"
    token.write_text(server.TOKEN)
    agent = influxdb.InfluxDb(influxdb.InfluxDbTarget(influx.url, server.ORG, "broken", str(token)))
    at = NOW - 30
    numbers = exporter.usage("node-1", at, {WHOLE_NODE: usage("node-1", at)}, {})
    agent.write([*numbers, f'koordlet_usage,kind=node,node=node-2 memory_bytes="text" {at - 14 * 24 * 3600}'], 10_000)
    async with provider(influx, bucket="broken") as source:
        whole = records.Window("15m", at - 15 * 24 * 3600, NOW)
        with pytest.raises(ProviderFailed, match="unsupported aggregate column type string"):
            await source.fetch(whole)
