"""A window that is fetched again may have other values: only shorter windows can contradict it."""

from scheduler_plugin.load_watcher.providers.provider import Fetched
from tests.scheduler_plugin.load_watcher.test_watcher import NOW, Scripted, nodes, watcher


async def test_the_values_of_the_same_window_may_change():
    provider = Scripted("NodeMetric", Fetched(nodes(a=20.0, b=20.0)), Fetched(nodes(a=80.0, b=20.0)))
    watching, kept = watcher(provider)
    await watching.refresh("15m")
    assert not (await watching.refresh("15m")).anomalies
    assert kept.latest("15m", NOW).data.nodes["a"].metrics[0].value == 80
