"""Pods whose groups are not found for a moment."""

from tests.koordlet.collectors.test_pod_pressure import Host


def test_a_pod_that_was_not_found_for_a_tick_begins_without_a_ratio(tmp_path):
    host = Host(tmp_path)
    host.set_pod("a", own=(100, 10), container=(50, 5))
    host.tick()
    found, host.pods = host.pods, {}
    host.tick()
    assert host.pressure.pods == {}
    host.pods = found
    host.set_pod("a", own=(200, 110), container=(60, 6))
    host.tick()
    assert host.pressure.pods["a"].throttled_ratio is None
