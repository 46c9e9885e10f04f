"""No secret of the configuration is in a log line, an error, a page or the output of check-config."""

import json

import pytest
import yaml

from scheduler_plugin import __main__ as program
from scheduler_plugin.config import loader

SECRET = "TOP-SECRET"


def configured(provider):
    return {
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": provider}],
    }


INFLUXDB = {"type": "InfluxDB", "address": "http://i:8086", "org": "o", "bucket": "b"}
GIVEN = [
    {"metricProvider": {**INFLUXDB, "token": SECRET}},
    {"metricProviders": [{"type": "NodeMetric"}, {**INFLUXDB, "token": SECRET}]},
    {"metricProvider": {"type": "Datadog", "token": SECRET, "applicationKey": SECRET}},
    {"metricProviderType": "SignalFx", "metricProviderToken": SECRET},
]


@pytest.mark.parametrize("args", GIVEN)
def test_the_effective_configuration_shows_no_secret_and_the_provider_gets_it(args, tmp_path, capsys):
    configuration = loader.parse(configured(args))
    assert SECRET not in json.dumps(configuration.document())  # logged at the start, and /debug/config
    assert SECRET not in repr(configuration)
    specs = configuration.args["TargetLoadPacking"].provider_specs()
    assert specs[-1].token.get_secret_value() == SECRET
    file = tmp_path / "profile.yaml"
    file.write_text(yaml.safe_dump(configured(args)))
    assert program.main(["check-config", str(file)]) == 0
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err


@pytest.mark.parametrize(
    "args",
    [
        {"metricProvider": {**INFLUXDB, "tokn": SECRET}},
        {"metricProvider": {**INFLUXDB, "token": [SECRET]}},
        {"metricProvider": {**INFLUXDB, "token": {"a": SECRET}}},
        {"metricProvider": [{**INFLUXDB, "token": SECRET}]},
        {"metricProviders": {**INFLUXDB, "token": SECRET}},
        {"metricProvider": {"type": "Datadog", "aplicationKey": SECRET}},
        {"metricProvider": {**INFLUXDB, "token": SECRET, "queries": "nothing"}},
        {"metricProvider": {**INFLUXDB, "token": SECRET}, "metricProviderToken": "another"},
        {"metricProviderTokn": SECRET},
    ],
)
def test_an_error_shows_no_secret(args):
    with pytest.raises(loader.InvalidConfiguration) as refused:
        loader.parse(configured(args))
    assert refused.value.problems
    assert SECRET not in str(refused.value)
