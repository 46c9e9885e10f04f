"""The feed selects after a refresh alone, and rewrites every node."""

import asyncio
import contextlib

import prometheus_client

from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from tests.scheduler_plugin.plugins.trimaran.test_feed import NOW, node, parts, report


async def test_without_a_refresh_nothing_is_selected_again_and_all_rows_are_rewritten(monkeypatch):
    selected = []
    select = Measurements.select

    def counted(self, windows, now):
        selected.append(now)
        select(self, windows, now)

    monkeypatch.setattr(Measurements, "select", counted)
    running = parts()
    names = [f"n{index}" for index in range(45)]
    for name in names:
        running.cluster.node_changed(node(name))
        running.cluster.metric_changed(report(name, "3"))
    feed = MeasurementFeed(running.provider_specs, running.measurements, running.measured, running.cluster, lambda: NOW)
    task = asyncio.create_task(feed.run(None, prometheus_client.CollectorRegistry(), 3600))
    async with asyncio.timeout(20):
        while running.measurements.newest_ends[0] < 0:
            await asyncio.sleep(0.005)
    for _ in range(200):  # turns in which nothing is refreshed
        await asyncio.to_thread(int)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    (plugin,) = running.measured
    assert plugin.columns.mean_percent[0, running.vectors.find(names)].tolist() == [75.0] * 45
    assert 1 <= len(selected) <= 10
