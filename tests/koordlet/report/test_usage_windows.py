"""The usages of a report over windows of any length, from what the agent holds."""

from __future__ import annotations

import pytest

from api_types.node_metric.types import MetricCollectPolicy
from koordlet.collectors.interface import RingShape
from koordlet.collectors.numa.collector import NumaCollector
from koordlet.metric_cache.store import MetricStore
from koordlet.node_observer import CACHE_SECONDS
from koordlet.report import usage_windows
from koordlet.samples import NODE, SYSTEM, Snapshot, UsageSample, pod_key
from tests.koordlet.report.test_status import pod

START, HOUR, BUSY_UNTIL = 1.7e9, 3600, 2000
POLICY = MetricCollectPolicy.model_validate(
    {"aggregateDurationSeconds": 2 * HOUR, "nodeAggregatePolicy": {"durations": ["45m", "1h", "6h"]}}
)


@pytest.fixture(scope="module")
def reported():
    """Return the usage after two hours and a half: 8 cores until 33 minutes ago, then 1; the pod half of it."""
    store = MetricStore(CACHE_SECONDS, 100, {NumaCollector.name: RingShape(10, 16)})
    end = 5 * HOUR // 2
    for second in range(1, end + 1):
        cores = 8.0 if second <= end - BUSY_UNTIL else 1.0
        used = UsageSample(cores, 1e9)
        series = {NODE: used, SYSTEM: UsageSample(cores / 2, 1e9), pod_key("a"): UsageSample(cores / 2, 5e8)}
        store.append(Snapshot(START + second, used, None), series)
    return usage_windows.usage_until(START + end, store, [pod("a")], POLICY)


def mean_of(seconds):
    return (8.0 * (seconds - BUSY_UNTIL) + BUSY_UNTIL) / seconds


def test_the_plain_usages_are_means_over_the_whole_window(reported):
    assert reported.node.cpu_cores == pytest.approx(mean_of(2 * HOUR), rel=0.01)
    assert reported.system.cpu_cores == pytest.approx(mean_of(2 * HOUR) / 2, rel=0.01)
    ((_, used),) = reported.pods
    assert used.cpu_cores == pytest.approx(mean_of(2 * HOUR) / 2, rel=0.01)


def test_a_long_window_has_its_own_statistics_and_one_with_too_little_data_has_none(reported):
    windows = dict(reported.node_windows)
    assert set(windows) == {900, 2700, 3600, 6 * HOUR}
    for seconds in (2700, 3600):
        assert windows[seconds]["avg"].cpu_cores == pytest.approx(mean_of(seconds), rel=0.03)
        assert windows[seconds]["p99"].cpu_cores == 8.0
        assert windows[seconds]["std"].cpu_cores > 2
    assert windows[900]["p99"].cpu_cores == 1.0
    assert set(windows[6 * HOUR].values()) == {None}
