"""Waiting of one pod does not depend on the counters of others."""

from koordlet.mid_suppression.prod_waits import CpuWaits


def test_a_pod_that_waits_is_found_behind_one_whose_counter_stays():
    waits = CpuWaits()
    for second in (0, 60, 120):
        found = waits.waiting(float(second), {"quiet": 5.0, "web": second / 2, "small": second / 5})
    assert found == {"web"}
