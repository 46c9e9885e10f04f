"""40 identical pods at once spread as with a plugin inside kube-scheduler: each counts before the next is placed."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import pytest

from e2e.support import lone_scheduler
from e2e.support.lone_scheduler import LoneScheduler

NODES = [f"n{index}" for index in range(10)]
GANG = [f"gang-{index:02d}" for index in range(40)]
USED_PERCENT = 47
MOST_PER_NODE = 5
"""By estimate a pod uses 3.4 of 100 cores: 47 + 5 * 3.4 is 64, one more is 67, and the threshold is 65."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        for name in NODES:
            lone.add_node(name, used_percent=USED_PERCENT)
        yield lone


def placed(lone: LoneScheduler) -> collections.Counter[str]:
    """Start kube-scheduler, which finds the whole gang in its queue, and return the number of pods on each node."""
    lone.start()
    lone.wait_bound(*GANG)
    return collections.Counter(lone.nodes_of("gang-"))


def test_a_gang_spreads_evenly(lone: LoneScheduler) -> None:
    for name in GANG:
        lone.create_pod(name)
    assert placed(lone) == dict.fromkeys(NODES, len(GANG) // len(NODES))
    assert lone.attempts() == len(GANG)


def test_a_gang_that_prefers_one_node_fills_it_up_to_its_threshold(lone: LoneScheduler) -> None:
    """The extender learns of each placement by the bind call, which may come after filter calls of the next pods."""
    for name in GANG:
        lone.create_pod(name, preferred="n0")
    counts = placed(lone)
    assert MOST_PER_NODE <= counts.pop("n0") < 2 * MOST_PER_NODE
    assert max(counts.values()) - min(counts.values()) <= 1
    assert len(counts) == len(NODES) - 1
