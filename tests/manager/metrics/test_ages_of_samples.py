"""The age of a sample is measured in fractions of a second, and is never negative."""

import datetime as dt

import pytest
from prometheus_client import CollectorRegistry

from manager.metrics.telemetry import Telemetry

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(("age_seconds", "observed"), [(0.25, 0.25), (90.0, 90.0), (0.0, 0.0), (-3.0, 0.0)])
def test_an_age_is_observed_as_it_is_and_a_sample_of_the_future_as_new(age_seconds, observed):
    telemetry = Telemetry(CollectorRegistry(), reasons=[], states=[])
    telemetry.show_sample("n1", NOW - dt.timedelta(seconds=age_seconds), NOW)
    assert telemetry.registry.get_sample_value("koord_manager_sample_age_seconds_sum") == observed
