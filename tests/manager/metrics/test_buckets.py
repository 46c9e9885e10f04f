"""The buckets of the manager's histograms, whose bounds are part of the metrics page."""

import pytest
from prometheus_client import CollectorRegistry

from api_types.colocation import controller_config
from manager.metrics.telemetry import Telemetry

OF_THE_GO_CLIENT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]


@pytest.fixture
def registry():
    return CollectorRegistry()


def bounds(registry, name):
    samples = [each for family in registry.collect() for each in family.samples if each.name == f"{name}_bucket"]
    return {float(each.labels["le"]) for each in samples} - {float("inf")}


def test_writes_have_the_default_buckets_of_the_go_client(registry):
    with Telemetry(registry, reasons=[], states=[]).write("node_status"):
        pass
    assert bounds(registry, "koord_manager_write_seconds") == set(OF_THE_GO_CLIENT)


def test_ages_of_samples_have_round_bounds_up_to_the_age_at_which_mid_is_taken_back_by_default(registry):
    made = Telemetry(registry, reasons=[], states=[])
    made.sample_age.observe(0.5)
    minutes = {1, 2, 5, controller_config.DEFAULTS.degrade_time_minutes}
    assert bounds(registry, "koord_manager_sample_age_seconds") == {1, 2, 5, 10, 30, *(60 * each for each in minutes)}
