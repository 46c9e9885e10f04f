"""Arguments of the Trimaran plugins at the end of their range, and their defaults."""

import pytest

from scheduler_plugin.plugins.trimaran.args import PowerModel, TargetLoadPackingArgs, target_load_packing_problems


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"targetUtilization": 1}, None),
        ({"targetUtilization": 0}, "targetUtilization"),
        ({"targetUtilization": 100}, None),
        ({"targetUtilization": 101}, "targetUtilization"),
        ({"defaultRequests": {"cpu": "0"}}, None),
        ({"defaultRequests": {"cpu": "-1m"}}, "defaultRequests.cpu"),
    ],
)
def test_the_bounds_of_a_range_belong_to_it(args, path):
    completed = TargetLoadPackingArgs.model_validate(args).with_defaults()
    problems = [str(each) for each in target_load_packing_problems(completed)]
    assert len(problems) == (0 if path is None else 1)
    assert all(path in text for text in problems)


@pytest.mark.parametrize(
    ("provider", "skips"),
    [
        ({"type": "Prometheus"}, True),
        ({"type": "Prometheus", "insecureSkipVerify": False}, False),
        ({"type": "InfluxDB"}, None),
    ],
)
def test_only_a_prometheus_without_the_setting_is_not_verified_as_upstream_does(provider, skips):
    args = TargetLoadPackingArgs.model_validate({"metricProvider": {"address": "https://server", **provider}})
    (spec,) = args.provider_specs()
    assert spec.insecure_skip_verify is skips


def test_a_coefficient_that_is_not_given_is_zero():
    assert PowerModel() == PowerModel(k0=0, k1=0, k2=0)
