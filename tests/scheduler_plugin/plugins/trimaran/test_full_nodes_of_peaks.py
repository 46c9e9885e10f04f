"""Peaks on nodes that a pod would fill."""

import pytest

from tests.scheduler_plugin.plugins.trimaran.measured_cluster import pod
from tests.scheduler_plugin.plugins.trimaran.test_peaks import measured


@pytest.mark.parametrize(("cpu", "score"), [("1", 100), ("1020m", 0)])
def test_a_node_may_be_filled_and_no_more_than_that(cpu, score):
    """75 % of 4 cores and one more are 100 %, with 20 milli-cores more it is 100.5 %."""
    assert measured(flat=75).scores(pod(cpu), ["flat"]) == [score]


def test_a_full_node_alone_has_the_lowest_score_of_upstream():
    assert measured("upstream", full=95).scores(pod("1"), ["full"]) == [0]
