"""A feed over a provider that does not answer, or that has problems."""

import asyncio
import contextlib

import prometheus_client

from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.load_watcher.providers import registry
from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from tests.scheduler_plugin.plugins.trimaran.test_feed import NOW, measured, node, parts, report


class Silent:
    """A provider that never answers, and has one problem."""

    name = "Silent"
    has_deviation = True

    async def check(self):
        return ["it has no series of a node"]

    async def fetch(self, _window):
        await asyncio.Event().wait()

    async def is_healthy(self):
        return False

    async def close(self):
        pass


@contextlib.asynccontextmanager
async def running(monkeypatch, of, database=None):
    """Run a feed over the silent provider; everything in the context has ten seconds."""
    monkeypatch.setattr(registry, "build", lambda _spec, _context: Silent())
    feed = MeasurementFeed(of.provider_specs, of.measurements, of.measured, of.cluster, lambda: NOW, database=database)
    task = asyncio.create_task(feed.run(None, prometheus_client.CollectorRegistry(), 3600))
    try:
        async with asyncio.timeout(10):
            yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_restored_measurements_are_used_before_the_first_answer_of_a_provider(tmp_path, monkeypatch):
    file, before, after = tmp_path / "windows.sqlite", parts(), parts()
    for each in (before, after):
        each.cluster.node_changed(node("hot"))
    before.cluster.metric_changed(report("hot", "3"))
    await measured(before, prometheus_client.CollectorRegistry(), [NOW], file)
    (plugin,) = after.measured
    row = after.vectors.find(["hot"])
    async with running(monkeypatch, after, Database(file, 3600)):
        while plugin.columns.packing_percent[row].tolist() != [75.0]:
            await asyncio.sleep(0.005)


async def test_the_problems_of_a_provider_are_logged_at_the_start(monkeypatch, caplog):
    async with running(monkeypatch, parts()):
        while "Silent: it has no series of a node" not in caplog.messages:
            await asyncio.sleep(0.005)
