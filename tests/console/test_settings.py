"""Settings of the console: their defaults, as the chart names them, and their bounds."""

import argparse

import pytest

from component_base import settings
from console.settings import ENV_PREFIX, ConsoleSettings


def load(**variables):
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, ConsoleSettings, ENV_PREFIX)
    environ = {f"KOORD_CONSOLE_{name.upper()}": value for name, value in variables.items()}
    return settings.from_sources(ConsoleSettings, parser.parse_args([]), environ, ENV_PREFIX)


def test_the_defaults_are_the_ports_of_the_chart_and_a_read_each_minute():
    assert load().model_dump() == {
        "page_port": 10270,
        "http_address": "::",
        "http_port": 9319,
        "namespace": "koordinator-system",
        "kubeconfig": "",
        "interval_seconds": 60.0,
        "prometheus": "",
        "prometheus_selector": "",
        "log_format": "text",
        "log_level": "info",
    }


@pytest.mark.parametrize(
    ("name", "least", "below", "most", "above"),
    [
        ("page_port", "0", "-1", "65535", "65536"),
        ("http_port", "0", "-1", "65535", "65536"),
        ("interval_seconds", "5", "4.9", "3600", "3600.1"),
    ],
)
def test_a_number_beyond_its_bounds_is_refused(name, least, below, most, above):
    for text in (least, most):
        assert getattr(load(**{name: text}), name) == float(text)
    for text in (below, above):
        with pytest.raises(settings.SettingsError, match=f"KOORD_CONSOLE_{name.upper()} is '{text}'"):
            load(**{name: text})
