"""What the log shows of one window: providers without data, and the first problems."""

import logging

import pytest

from scheduler_plugin.load_watcher.providers.provider import Fetched
from tests.scheduler_plugin.load_watcher.test_watcher import DOWN, Scripted, nodes, watcher


@pytest.mark.parametrize(("count", "rest"), [(5, []), (7, ["window 15m: 2 more problems"])])
async def test_a_provider_without_data_is_named_and_of_many_problems_the_first_five(caplog, count, rest):
    caplog.set_level(logging.WARNING)
    problems = [f"query {number} failed" for number in range(count)]
    found = Fetched(nodes(a=20.0, b=30.0), problems)
    watching, _ = watcher(Scripted("Prometheus", DOWN), Scripted("NodeMetric", found))
    await watching.refresh("15m")
    assert caplog.messages == [
        f"window 15m: no data from Prometheus: {DOWN}",
        *(f"window 15m: {problem}" for problem in problems[:5]),
        *rest,
    ]
