"""Tests of the parser of usage files."""

import pytest

from scheduler_plugin.simulation import recorded_cluster
from scheduler_plugin.simulation.recorded_cluster import BadUsage


def test_a_line_applies_until_the_next_and_the_first_also_before():
    text = "pod,seconds,cpu,memory\na/x,90,500m,1Ki\na/x,30,1,2Ki\nb/y,0,0,0\n"
    series = recorded_cluster.usage_series(text, 60)
    assert {pod: own.tolist() for pod, own in series.items()} == {
        "a/x": [[1000, 1000, 500], [2048, 2048, 1024]],  # at 0, 60 and 120 s
        "b/y": [[0], [0]],
    }


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pod,cpu\n", "line 1 is 'pod,cpu', want pod,seconds,cpu,memory"),
        ("", "line 1"),
        ("pod,seconds,cpu,memory\na/x,0,much,1Gi\n", "line 2 cannot be read"),
        ("pod,seconds,cpu,memory\na/x,0,1\n", "line 2 cannot be read"),
        ("pod,seconds,cpu,memory\na/x,0,1,1\na/x,nan,1,1\n", "line 3"),
        ("pod,seconds,cpu,memory\na/x,0,-1,1\n", "line 2 is 'a/x,0,-1,1', want numbers of 0 or more"),
        ("pod,seconds,cpu,memory\na/x,1e30,1,1\n", "line 2 is 'a/x,1e30,1,1', want .* up to a year"),
        (f"pod,seconds,cpu,memory\n{'a' * 200_000},0,1,1\n", "line 2 cannot be read: field larger"),
    ],
)
def test_names_an_unusable_line(text, wrong):
    with pytest.raises(BadUsage, match=wrong):
        recorded_cluster.usage_series(text, 60)
