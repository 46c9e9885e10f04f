"""Counters of the metrics page while an agent runs: ticks that come late, and sources that give no data."""

import asyncio

import pytest

from koordlet import agent as program
from koordlet.cluster.interface import NoCluster
from koordlet.samples import NODE
from tests.host_trees.plain_files import PlainHost


@pytest.fixture
def host(tmp_path, agent):
    return PlainHost(tmp_path)


async def test_the_lateness_of_every_tick_is_counted(agent, registry, monkeypatch):
    monkeypatch.setattr(program, "TICK_SECONDS", 0.01)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        ticking = group.create_task(agent._tick_until_stopped(None, group))
        while registry.get_sample_value("koordlet_ticks_total") < 4:
            await asyncio.sleep(0.005)
            assert not ticking.done()
        agent.stop.set()
    ticks = registry.get_sample_value("koordlet_ticks_total")
    assert registry.get_sample_value("koordlet_tick_lateness_seconds_count") == ticks
    assert registry.get_sample_value("koordlet_tick_lateness_seconds_sum") > 0


def test_a_source_that_gives_no_data_is_counted_with_its_name(agent, host, registry):
    cluster = NoCluster(agent.observer.machine_capacity)

    def failures():
        agent.observer.observe(1e9, cluster)
        metric = next(each for each in registry.collect() if each.name == "koordlet_source_failures")
        return {each.labels["source"]: each.value for each in metric.samples}

    before = failures()
    (host.host_root.proc_root / "meminfo").unlink()
    after = failures()
    assert set(before) == set(after)
    assert [name for name in after if after[name] > before[name]] == ["node usage"]


def test_usage_and_sources_have_values_after_two_ticks(agent, host, registry):
    cluster = NoCluster(agent.observer.machine_capacity)
    for second in range(2):
        agent.observer.observe(1e9 + second, cluster)
    node = agent.observer.newest[NODE]
    assert registry.get_sample_value("koordlet_usage_memory_bytes", {"kind": "node"}) == node.memory_bytes > 0
    assert registry.get_sample_value("koordlet_usage_cpu_cores", {"kind": "node"}) == node.cpu_cores
    (host.host_root.proc_root / "meminfo").unlink()
    agent.observer.observe(1e9 + 2, cluster)
    source = {"source": "node usage"}
    assert registry.get_sample_value("koordlet_source_reads_total", source) == 3
    assert registry.get_sample_value("koordlet_source_failures_total", source) == 1
    assert registry.get_sample_value("koordlet_source_seconds_total", source) > 0
    assert registry.get_sample_value("koordlet_source_supported", source) == 1
