"""Bounds of the settings of the scheduler plugin and of the load watcher."""

import pytest

from scheduler_plugin.load_watcher.settings import LoadWatcherSettings
from scheduler_plugin.settings import SchedulerPluginSettings
from tests.component_base.settings_bounds import check_number

DAY_SECONDS = 24 * 60 * 60


@pytest.mark.parametrize(
    ("settings", "field", "least", "most"),
    [
        (LoadWatcherSettings, "http_port", 0, 65_535),
        (LoadWatcherSettings, "interval_seconds", 1.0, 3600.0),
        (LoadWatcherSettings, "greatest_age_seconds", 1.0, float(DAY_SECONDS)),
        (LoadWatcherSettings, "database_hours", 0.01, 720.0),
        (SchedulerPluginSettings, "extender_port", 0, 65_535),
        (SchedulerPluginSettings, "http_port", 0, 65_535),
        (SchedulerPluginSettings, "debug_port", 0, 65_535),
        (SchedulerPluginSettings, "startup_patience_seconds", 0.0, 3600.0),
        (SchedulerPluginSettings, "assumed_pod_ttl_seconds", 0.01, float(DAY_SECONDS)),
        (SchedulerPluginSettings, "short_list_nodes", 0, 15_000),
        (SchedulerPluginSettings, "decision_record_mebibytes", 0, 1024),
        (SchedulerPluginSettings, "measurement_interval_seconds", 1.0, 3600.0),
        (SchedulerPluginSettings, "measurement_age_seconds", 1.0, float(DAY_SECONDS)),
        (SchedulerPluginSettings, "resync_interval_seconds", 0.0, float(DAY_SECONDS)),
        (SchedulerPluginSettings, "max_body_mebibytes", 1, 1024),
    ],
)
def test_a_number_at_its_bounds_is_accepted_and_one_beyond_is_not(settings, field, least, most):
    check_number(settings, field, least, most)
