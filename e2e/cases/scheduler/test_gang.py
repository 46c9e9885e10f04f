"""40 identical pods at once spread evenly: each counts before the next is placed."""

from __future__ import annotations

import collections

import pytest

from e2e.support import lone_scheduler

NODES = [f"n{index}" for index in range(10)]
GANG = [f"gang-{index:02d}" for index in range(40)]


@pytest.mark.timeout(300)
def test_a_gang_that_waits_in_the_queue_spreads_evenly() -> None:
    with lone_scheduler.running() as lone:
        for name in NODES:
            lone.add_node(name, used_percent=47)
        for name in GANG:
            lone.create_pod(name)
        lone.start()
        lone.wait_bound(*GANG)
        assert collections.Counter(lone.nodes_of("gang-")) == dict.fromkeys(NODES, len(GANG) // len(NODES))
        assert lone.attempts() == len(GANG)
