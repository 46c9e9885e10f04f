"""Departures free the requests of a pod once, and the product wakes pods at full seconds."""

import math

import numpy as np

from scheduler_plugin.simulation import scenario
from scheduler_plugin.simulation.replay import Replay
from tests.scheduler_plugin.simulation.test_replay import GIB, a_cluster, parts


def test_a_departure_frees_the_requests_of_one_pod():
    cluster = a_cluster(
        [0.1] * 3, [8] * 3, nodes=1, at_seconds=[0, 60, 120], lifetime_seconds=[600, math.inf, math.inf]
    )
    result = Replay(cluster).run()
    assert {index: placed.at_seconds for index, placed in result.placements.items()} == {0: 0, 1: 600}


def test_the_product_wakes_pods_at_the_next_full_second():
    # The first pod uses 9 of 10 cores for 600 s, then almost none: the report at 660 s is the first that shows it.
    cluster = scenario.from_series(
        node_count=1,
        node_cpu_millis=10_000,
        node_memory_bytes=100 * GIB,
        cpu_millis=[np.array([9000.0] * 10 + [100.0]), np.array([500.0])],
        request_cpu_millis=[1000, 1000],
        step_seconds=60,
        steps=60,
        at_seconds=[0, 361.5],
    )
    result = Replay(cluster, parts({"usageThresholds": {"cpu": 65}})).run()
    assert (result.placements[1].at_seconds, result.tries[1]) == (660, 2)


def test_progress_is_the_share_of_the_time_until_each_event():
    shares = []
    Replay(a_cluster([0.5] * 3, [1] * 3, at_seconds=[0, 900, 2700])).run(shares.append)
    assert shares == [0, 0.25, 0.75, 1]
