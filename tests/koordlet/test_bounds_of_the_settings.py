"""The smallest and the largest value of each setting of the agent that is a number, and texts that may not be empty."""

import argparse

import pytest

from component_base import settings
from koordlet.cli.limiter.settings import LimiterSettings
from koordlet.settings import ENV_PREFIX, KoordletSettings

BOUNDS = {
    "checkpoint-interval-seconds": (10, 86_400),  # a day
    "max-series": (64, 100_000),
    "http-port": (0, 65_535),
    "debug-port": (0, 65_535),
    "influxdb-interval-seconds": (1, 600),
    "influxdb-timeout-ms": (100, 60_000),  # a minute
    "influxdb-batch-points": (1, 10_000),
    "influxdb-queue-points": (1, 100_000),  # as in the values of the chart
}


def load(name, value, model=KoordletSettings):
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, model, ENV_PREFIX)
    found = settings.from_sources(model, parser.parse_args([f"--{name}={value}"]), {}, ENV_PREFIX)
    return getattr(found, name.replace("-", "_"))


@pytest.mark.parametrize(("name", "bounds"), BOUNDS.items())
def test_a_number_is_taken_up_to_its_bounds_and_no_further(name, bounds):
    least, most = bounds
    for value in bounds:
        assert load(name, value) == value
    for value in (least - 1, most + 1):
        with pytest.raises(settings.SettingsError, match=f"--{name} is .{value}.: "):
            load(name, value)


def test_a_name_of_a_node_has_as_many_characters_as_kubernetes_permits():
    assert len(load("node-name", "n" * 253)) == 253
    with pytest.raises(settings.SettingsError, match="--node-name is"):
        load("node-name", "n" * 254)


def test_every_setting_with_bounds_is_in_the_table():
    bounded = {
        name.replace("_", "-") for name, field in KoordletSettings.model_fields.items() if field.annotation is int
    }
    assert bounded == set(BOUNDS)


@pytest.mark.parametrize("name", ["input-file", "cpu-folder", "memory-folder"])
def test_a_path_of_the_limiter_has_at_least_one_character(name):
    assert load(name, "/", LimiterSettings) == "/"
    with pytest.raises(settings.SettingsError, match=f"--{name} is"):
        load(name, "", LimiterSettings)
