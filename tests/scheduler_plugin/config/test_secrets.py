"""No secret of the configuration is in a log line, an error, a page or the result of a check."""

import json

import pytest
import yaml

from scheduler_plugin.config import checking, loader

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
def test_the_effective_configuration_shows_no_secret_and_the_provider_gets_it(args):
    configuration = loader.parse(configured(args))
    assert SECRET not in json.dumps(configuration.document())  # logged at the start, and /debug/config
    assert SECRET not in repr(configuration)
    specs = configuration.args["TargetLoadPacking"].provider_specs()
    assert specs[-1].token.get_secret_value() == SECRET
    assert SECRET not in repr(checking.check(yaml.safe_dump(configured(args)))[0].result)


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
