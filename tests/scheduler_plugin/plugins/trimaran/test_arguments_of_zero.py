"""Arguments that are 0, and those that are given in part."""

import math

import pytest

from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import InvalidConfiguration
from scheduler_plugin.plugins.trimaran.args import Contradiction, PeaksArgs, TargetLoadPackingArgs, peaks_problems
from scheduler_plugin.plugins.trimaran.target_load_packing import predicted_millis
from scheduler_plugin.state.pod_resources import NOTHING, ContainerCpu, PodResources
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster, metrics, pod


def lvrb_scores(**args):
    cluster = MeasuredCluster("LoadVariationRiskBalancing", **args)
    for name in ("steady", "swinging"):
        cluster.node(name)
    cluster.measure({"steady": metrics(50, 50, 0, 0), "swinging": metrics(50, 50, 50, 50)})
    return cluster.scores(pod(), ["steady", "swinging"])


@pytest.mark.parametrize("formula", ["corrected", "upstream", "kep"])
def test_with_a_margin_of_zero_the_deviation_does_not_count(formula):
    steady, swinging = lvrb_scores(formula=formula, safeVarianceMargin=0)
    assert steady == swinging


@pytest.mark.parametrize("formula", ["corrected", "upstream"])
def test_with_a_sensitivity_of_zero_only_a_deviation_as_large_as_the_node_counts(formula):
    steady, swinging = lvrb_scores(formula=formula, safeVarianceSensitivity=0)
    assert steady == swinging


def test_a_type_beside_a_provider_without_one_is_no_contradiction():
    args = {"metricProvider": {"address": "http://p"}, "metricProviderType": "Prometheus"}
    name = "TargetLoadPacking"
    chosen = loader.parse(
        {
            "plugins": {"score": {"enabled": [{"name": name}]}},
            "pluginConfig": [{"name": name, "args": args}],
        }
    )
    (spec,) = chosen.args[name].provider_specs()
    assert (spec.type, spec.address) == ("Prometheus", "http://p")


def test_a_type_that_differs_from_that_of_the_provider_is_a_contradiction():
    args = {"metricProvider": {"type": "Prometheus", "address": "http://p"}, "metricProviderType": "InfluxDB"}
    name = "TargetLoadPacking"
    with pytest.raises(InvalidConfiguration) as caught:
        loader.parse(
            {
                "plugins": {"score": {"enabled": [{"name": name}]}},
                "pluginConfig": [{"name": name, "args": args}],
            }
        )
    assert any("metricProviderType" in each for each in caught.value.problems)


def test_a_contradiction_names_the_plugin_and_what_is_wanted():
    error = Contradiction("Peaks", "the providers of TargetLoadPacking")
    assert str(error) == "Peaks: want the providers of TargetLoadPacking"
    assert (error.plugin, error.wanted) == ("Peaks", "the providers of TargetLoadPacking")


def test_a_power_model_has_zeros_where_nothing_is_given():
    (found,) = peaks_problems(PeaksArgs.model_validate({"nodePowerModel": {"n": {"k1": math.inf}}}))
    assert found.path[-2:] == ("nodePowerModel", "n")
    model = PeaksArgs.model_validate({"nodePowerModel": {"n": {}}}).node_power_model["n"]
    assert (model.k0, model.k1, model.k2) == (0.0, 0.0, 0.0)


def test_the_usage_of_a_container_is_its_limit_even_of_zero_then_its_rounded_request_then_the_default():
    containers = (ContainerCpu(100, 0), ContainerCpu(3, None), ContainerCpu(0, None), ContainerCpu(None, None))
    demand = PodResources(NOTHING, NOTHING, NOTHING, NOTHING, containers, (ContainerCpu(None, 7),), 10)
    # 0 of the limit, 4.5 of the request rounds to 5, 0, the default of 1000, and 10 of overhead
    assert predicted_millis(demand, 1.5, 1000, with_sidecars=False) == 1015
    assert predicted_millis(demand, 1.5, 1000, with_sidecars=True) == 1022


@pytest.mark.parametrize(
    ("args", "millis"),
    [({"defaultRequests": {"cpu": 1}}, 1000), ({"defaultRequests": {"cpu": 0.5}}, 500), ({"defaultRequests": {}}, 0)],
)
def test_default_requests_may_be_numbers_and_absent_ones_are_zero(args, millis):
    assert TargetLoadPackingArgs.model_validate(args).with_defaults().default_millis() == millis
