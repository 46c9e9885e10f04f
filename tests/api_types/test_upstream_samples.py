"""Configurations of the documentation and the tests of Koordinator, which must load unchanged."""

import json

import pytest

from api_types.colocation import controller_config as slo
from api_types.colocation import document as colocation_document

# The ConfigMap template of Koordinator's manual and of its API package, same keys and values; its versions differ in
# the name of the entry and in metricMemoryCollectPolicy.
TEMPLATE = {
    "enable": False,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m", "10m", "15m"]},
    "cpuReclaimThresholdPercent": 60,
    "memoryReclaimThresholdPercent": 65,
    "memoryCalculatePolicy": "usage",
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "nodeConfigs": [
        {
            "name": "anolis",
            "nodeSelector": {"matchLabels": {"kubernetes.io/kernel": "anolis"}},
            "updateTimeThresholdSeconds": 360,
            "resourceDiffThreshold": 0.2,
        }
    ],
}
SAMPLES = {
    "as shipped": {"enable": True},
    "template of the manual": TEMPLATE,
    "template of the API package": {**TEMPLATE, "metricMemoryCollectPolicy": "usageWithoutPageCache"},
    "Batch on": {
        "enable": True, "cpuReclaimThresholdPercent": 60, "memoryReclaimThresholdPercent": 65,
        "memoryCalculatePolicy": "usage",
    },
    "Mid on": {
        "enable": True, "cpuReclaimThresholdPercent": 95, "memoryReclaimThresholdPercent": 95,
        "memoryCalculatePolicy": "usage", "midCPUThresholdPercent": 100, "midMemoryThresholdPercent": 100,
        "midUnallocatedPercent": 0,
    },
    "defaults written out": {
        "enable": False, "metricAggregateDurationSeconds": 300, "metricReportIntervalSeconds": 60,
        "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
        "metricMemoryCollectPolicy": "usageWithoutPageCache", "cpuReclaimThresholdPercent": 60,
        "cpuCalculatePolicy": "usage", "memoryReclaimThresholdPercent": 65, "memoryCalculatePolicy": "usage",
        "degradeTimeMinutes": 15, "updateTimeThresholdSeconds": 300, "resourceDiffThreshold": 0.1,
        "midCPUThresholdPercent": 100, "midMemoryThresholdPercent": 100, "midUnallocatedPercent": 0,
        "extensions": {"key": {"flag": True}},
    },
}  # fmt: skip
PROPOSAL = {
    "enable": True,
    "metricReportIntervalSeconds": 60,
    "predictPolicy": {"resourceDiffThresholdPercent": 5, "coldStartPeriodSeconds": 300},
    "midCPUThresholdPercent": 60,
    "midMemoryThresholdPercent": 70,
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_koordinators_samples_load_unchanged(sample):
    reading = colocation_document.read_config(json.dumps(SAMPLES[sample], indent=2))
    assert reading.config is not None
    assert reading.problems == ()


def test_koordinators_template_has_its_meaning():
    config = colocation_document.read_config(json.dumps(TEMPLATE)).config
    assert config.enable is False
    assert config.metric_aggregate_policy.durations == ["5m0s", "10m0s", "15m0s"]
    [entry] = config.node_configs
    assert (entry.name, entry.update_time_threshold_seconds, entry.resource_diff_threshold) == ("anolis", 360, 0.2)


def test_names_koordinators_keys_without_effect():
    reading = colocation_document.read_config(json.dumps(TEMPLATE))
    assert reading.unused == ("cpuReclaimThresholdPercent", "memoryCalculatePolicy", "memoryReclaimThresholdPercent")


def test_the_proposals_example_loads_with_its_alias_predict_policy():
    reading = colocation_document.read_config(json.dumps(PROPOSAL, indent=4))
    assert (reading.problems, reading.unused) == ((), ())
    policy = reading.config.node_predict_policy
    assert (policy.resource_diff_threshold_percent, policy.cold_start_period_seconds) == (5, 300)
    merged = slo.merge(slo.DEFAULTS, reading.config)
    assert (merged.mid_cpu_threshold_percent, merged.mid_memory_threshold_percent) == (60, 70)


def test_defaults_equal_koordinators_for_its_keys():
    defaults = slo.DEFAULTS.to_wire()
    theirs = {key: value for key, value in SAMPLES["defaults written out"].items() if key != "extensions"}
    assert {key: defaults[key] for key in theirs} == theirs
