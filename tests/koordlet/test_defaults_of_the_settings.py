"""Settings of an agent that sets its name only: as documented, and nothing is served or changed that was not asked."""

from koordlet.settings import KoordletSettings


def test_an_agent_without_settings_changes_no_pod_and_serves_no_debug_pages():
    chosen = KoordletSettings(node_name="n1")
    assert (chosen.enable_suppression, chosen.enable_debug_pages, chosen.limiter_file) == (False, False, "")
    assert (chosen.http_port, chosen.debug_port) == (9316, 9318)
    assert chosen.influxdb_url == ""


def test_an_agent_without_settings_has_the_documented_times_and_sizes():
    chosen = KoordletSettings(node_name="n1")
    assert chosen.checkpoint_interval_seconds == 10 * 60
    assert chosen.max_series == 1500
    assert (chosen.influxdb_interval_seconds, chosen.influxdb_timeout_ms) == (10, 5000)
    assert (chosen.influxdb_batch_points, chosen.influxdb_queue_points) == (1000, 10_000)
