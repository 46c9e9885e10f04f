"""Settings of the agent: bounds, defaults, and those that depend on each other."""

import argparse
import sys

import pytest

from component_base import settings
from koordlet.settings import ENV_PREFIX, KoordletSettings

HISTORY = ["--influxdb-url=https://influx:8086", "--influxdb-org=o", "--influxdb-bucket=b", "--influxdb-token-file=/t"]


BOUNDS = {
    "checkpoint-interval-seconds": (10, 86_400),
    "max-series": (64, 100_000),
    "http-port": (0, 65_535),
    "debug-port": (0, 65_535),
    "influxdb-interval-seconds": (1, 600),
    "influxdb-timeout-seconds": (0.1, 60),
    "influxdb-batch-points": (1, 10_000),
    "influxdb-queue-points": (1, 100_000),
}


def load(*argv):
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, KoordletSettings, ENV_PREFIX)
    return settings.from_sources(KoordletSettings, parser.parse_args(["--node-name=n", *argv]), {}, ENV_PREFIX)


def test_an_address_without_its_other_settings_reports_all_of_them():
    problems = "\n".join(load("--influxdb-url=http://influx:8086").required_for_run())
    for flag in ("--influxdb-org", "--influxdb-bucket", "--influxdb-token-file"):
        assert f"set {flag}" in problems


def test_a_ca_file_that_would_never_be_used_is_a_contradiction():
    (problem,) = load(*HISTORY, "--influxdb-url=http://influx:8086", "--influxdb-ca-file=/ca.crt").required_for_run()
    assert "/ca.crt" in problem
    assert "want an https address" in problem


@pytest.mark.parametrize(
    "url",
    [
        "influx:8086", "ftp://influx", "https://", "https://:8086", "https://influx:0", "https://influx:99999",
        "https://user:secret@influx", "https://influx?token=secret", "https://influx#x",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_refused(url):
    with pytest.raises(settings.SettingsError, match=r"flag --influxdb-url is .*(want|Port)"):
        load(f"--influxdb-url={url}")


def test_a_history_without_its_library_is_a_problem_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "influxdb_client", None)
    (problem,) = load(*HISTORY).required_for_run()
    assert "influxdb-client is not installed: install koord-suite[influxdb]" in problem


@pytest.mark.parametrize(("name", "bounds"), BOUNDS.items())
def test_a_number_is_taken_up_to_its_bounds_and_no_further(name, bounds):
    least, most = bounds
    for value in bounds:
        assert getattr(load(f"--{name}={value}"), name.replace("-", "_")) == value
    for value in (least - 1, most + 1):
        with pytest.raises(settings.SettingsError, match=f"--{name} is .{value}.: "):
            load(f"--{name}={value}")


def test_a_policy_of_the_settings_is_checked_at_the_start_by_the_keys_of_the_configuration():
    chosen = load('--predict-policy={"predictor": "percentile", "coldStartPeriodSeconds": 86400}')
    assert chosen.policy_below_spec().cold_start_period_seconds == 86400
    for text, named in (("percentile", "JSON"), ('{"n": 99}', "n"), ('{"predictr": "max"}', "predictr")):
        with pytest.raises(settings.SettingsError, match=rf"predict-policy.*{named}"):
            load(f"--predict-policy={text}")
