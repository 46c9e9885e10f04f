"""Merge of the arguments' thresholds with a node's annotation."""

import pytest

from scheduler_plugin.plugins.load_aware import thresholds as load_aware_thresholds
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs
from scheduler_plugin.plugins.load_aware.thresholds import Aggregated, ThresholdMerge, Thresholds

ARGS = Thresholds({"cpu": 65}, {"cpu": 50}, Aggregated({"cpu": 60}, "p95", 0))
PLAIN_ONLY = ARGS._replace(aggregated=None)
OWN_AGGREGATED = '{"aggregatedUsage": {"usageThresholds": {"cpu": 7}, "usageAggregationType": "avg"}}'


def merge(annotation, thresholds=ARGS):
    return load_aware_thresholds.merge(thresholds, annotation)


def test_each_part_comes_from_the_annotation_if_present():
    assert merge('{"usageThresholds": {"memory": 7}}') == ARGS._replace(plain={"memory": 7})
    assert merge('{"prodUsageThresholds": {"cpu": 7}}') == ARGS._replace(prod={"cpu": 7})
    assert merge(OWN_AGGREGATED, PLAIN_ONLY).aggregated == Aggregated({"cpu": 7}, "avg", 0)


def test_keys_match_in_any_case_and_unknown_ones_are_ignored():
    assert merge('{"USAGETHRESHOLDS": {"cpu": 7}, "more": []}').plain == {"cpu": 7}


def test_an_aggregated_block_without_limits_or_statistic_is_dropped():
    assert merge('{"aggregatedUsage": {"usageThresholds": {"cpu": 7}}}') == ARGS
    assert merge('{"aggregatedUsage": {"usageAggregationType": "avg"}}') == ARGS


def test_a_window_is_a_go_duration():
    own = OWN_AGGREGATED.replace('"avg"', '"x", "usageAggregatedDuration": "5m"')
    assert merge(own).aggregated == Aggregated({"cpu": 7}, "x", 300 * 10**9)


@pytest.mark.parametrize(
    "annotation",
    [
        "nonsense",
        "[]",
        '{"usageThresholds": {"cpu": 7.0}}',
        '{"usageThresholds": {"cpu": "7"}}',
        '{"usageThresholds": {"cpu": true}}',
        '{"usageThresholds": {"cpu": 7, "memory": "7"}}',
        '{"usageThresholds": {"cpu": 9223372036854775808}}',
        '{"usageThresholds": {"cpu": 7}, "prodUsageThresholds": {"cpu": 1.5}}',
        '{"usageThresholds": {"cpu": 7}, "aggregatedUsage": {"usageAggregatedDuration": 300}}',
        '{"usageThresholds": {"cpu": 7}, "aggregatedUsage": {"usageAggregatedDuration": ""}}',
        '{"usageThresholds": {"cpu": 7}, "aggregatedUsage": {"usageAggregationType": 0}}',
        '{"usageThresholds": {"cpu": 7}} x',
        "[" * 100_000,
        '{"usageThresholds":' * 20_000,
    ],
)
def test_a_malformed_annotation_changes_nothing_and_is_reported(annotation):
    limits = ThresholdMerge(ARGS, ("cpu", "memory"))
    assert limits.profiles(annotation) == limits.profiles(None)._replace(is_malformed=True)


@pytest.mark.parametrize("annotation", ["", "null", None])
def test_an_empty_annotation_changes_nothing(annotation):
    limits = ThresholdMerge(ARGS, ("cpu", "memory"))
    assert limits.profiles(annotation) == limits.profiles(None)


def test_a_limit_of_zero_switches_the_check_off():
    profiles = ThresholdMerge(ARGS, ("cpu", "memory")).profiles('{"usageThresholds": {"cpu": 0}}')
    assert profiles.plain == (0, 0)
    assert profiles.prod == (50, 0)


def test_the_arguments_filter_by_a_statistic_only_with_limits_and_statistic():
    def aggregated(**block):
        return load_aware_thresholds.of_args(LoadAwareArgs.model_validate({"aggregated": block})).aggregated

    assert aggregated(usageThresholds={"cpu": 60}) is None
    assert aggregated(usageAggregationType="p95") is None
    both = aggregated(usageThresholds={"cpu": 60}, usageAggregationType="p95", usageAggregatedDuration="5m")
    assert both == Aggregated({"cpu": 60}, "p95", 300 * 10**9)


@pytest.mark.parametrize(
    ("limit", "fits"), [(-(2**63), True), (2**63 - 1, True), (-(2**63) - 1, False), (2**63, False)]
)
def test_a_limit_has_64_bits_as_in_go(limit, fits):
    profile = ThresholdMerge(PLAIN_ONLY, ("cpu",)).profiles(f'{{"usageThresholds": {{"cpu": {limit}}}}}')
    assert profile == load_aware_thresholds.Profiles(
        plain=(limit if fits else 65,), prod=(50,), aggregated=None, statistic="", window_nanos=0, is_malformed=not fits
    )
