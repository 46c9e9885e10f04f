"""When expired reports are the fault of this process, or of most agents at once."""

import pytest

from scheduler_plugin.state import node_columns


@pytest.mark.parametrize(
    ("silent_seconds", "expired", "nodes", "beginning"),
    [
        (None, 0, 0, ""),
        (90.0, 0, 2, ""),
        (90.1, 0, 2, "the watch of NodeMetrics is silent for 90 s"),
        (None, 1, 2, ""),
        (90.0, 2, 3, "the reports of 2 of 3 nodes expired"),
    ],
)
def test_a_watch_may_be_silent_for_90_seconds_and_half_of_the_agents_too(silent_seconds, expired, nodes, beginning):
    found = node_columns.blindness_cause(silent_seconds, expired, nodes)
    assert found.startswith(beginning)
    assert bool(found) is bool(beginning)
