"""Pods are tried in the order of their arrival, and those of one instant by priority."""

from __future__ import annotations

import dataclasses

import numpy as np
from msgspec.structs import replace

from scheduler_plugin.simulation import scenario
from scheduler_plugin.simulation.replay import Replay

GIB = 1024**3


def a_node_for_one(at_seconds):
    """Build a node of 10 cores on which one of the arriving pods of 8 cores has room."""
    count = len(at_seconds)
    return scenario.from_series(
        node_count=1,
        node_cpu_millis=10_000,
        node_memory_bytes=100 * GIB,
        cpu_millis=[np.array([1000.0])] * count,
        request_cpu_millis=[8000] * count,
        step_seconds=60,
        steps=60,
        at_seconds=at_seconds,
    )


def test_pods_that_are_listed_in_another_order_are_tried_as_they_arrive():
    result = Replay(a_node_for_one([900.0, 600.0, 0.0])).run()
    assert {index: placed.at_seconds for index, placed in result.placements.items()} == {2: 0.0}


def test_a_pod_without_a_priority_comes_after_one_of_the_lowest_positive_priority():
    cluster = a_node_for_one([0.0, 0.0])
    arriving = [
        dataclasses.replace(each, pod=replace(each.pod, spec=replace(each.pod.spec, priority=priority)))
        for each, priority in zip(cluster.pods, (None, 1), strict=True)
    ]
    assert list(Replay(dataclasses.replace(cluster, pods=arriving)).run().placements) == [1]
