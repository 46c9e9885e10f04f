"""Properties of every registered predictor, and the choice of one."""

import inspect
import math
import pkgutil
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.colocation import controller_config
from koordlet.prediction import predictors
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.predictors import registry
from koordlet.samples import Resource
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load

EVERY_PREDICTOR = controller_config.PREDICTOR_NAMES
usage = st.floats(0, 1000).map(lambda value: round(value, 3))


@st.composite
def statistics(draw, count):
    values = [[draw(usage) for _ in range(count)] for _ in range(3)]
    return PlainStatistics(values[0], values[1], dict.fromkeys((95, 98, 99), values[2]))


@st.composite
def loads(draw):
    series = {
        name: draw(statistics(1)) for name in ("prod", "system", "unreserved_system", "prod_and_unreserved_system")
    }
    return prod_load(
        draw(st.sampled_from(Resource)),
        warm_pods=draw(statistics(draw(st.integers(0, 4)))),
        warm_requests=draw(usage),
        cold_requests=draw(usage),
        **series,
    )


def test_the_registry_has_every_name_of_the_configuration_and_no_other():
    assert tuple(registry.PREDICTORS) == EVERY_PREDICTOR


def test_every_module_of_a_predictor_is_registered():
    written = {module.name for module in pkgutil.iter_modules(predictors.__path__)}
    registered = {inspect.getmodule(predictor).__name__ for predictor in registry.PREDICTORS.values()}
    assert registered == {f"{predictors.__name__}.{name}" for name in written}


@pytest.mark.parametrize("name", EVERY_PREDICTOR)
@given(load=loads(), more=usage)
def test_a_peak_covers_the_cold_requests_and_rises_by_what_they_rise_at_most(name, load, more):
    parameters = PredictParameters(predictor=name)
    answer = registry.predict(load, parameters)
    raised = registry.predict(replace(load, cold_requests=load.cold_requests + more), parameters)
    assert answer.peak >= answer.cold_requests == load.cold_requests
    assert answer.peak - 1e-6 <= raised.peak <= answer.peak + more + 1e-6


@pytest.mark.parametrize("name", EVERY_PREDICTOR)
@given(load=loads(), margins=st.tuples(st.floats(0, 100), st.floats(0, 100)))
def test_a_peak_rises_with_the_margin(name, load, margins):
    low, high = (
        registry.predict(load, PredictParameters(predictor=name, safety_margin_percent=margin)).peak
        for margin in sorted(margins)
    )
    assert low <= high + 1e-6


@pytest.mark.parametrize("name", EVERY_PREDICTOR)
def test_a_predictor_without_any_sample_has_no_prediction(name):
    assert isinstance(registry.predict(prod_load(cold_requests=1.0), PredictParameters(predictor=name)), NoPrediction)


@pytest.mark.parametrize("name", EVERY_PREDICTOR)
def test_a_peak_that_is_not_a_number_is_no_prediction(name):
    broken = PlainStatistics([math.nan], [math.nan], {percent: [math.nan] for percent in (95, 98, 99)})
    load = prod_load(
        warm_pods=broken, prod=broken, system=broken, unreserved_system=broken, prod_and_unreserved_system=broken
    )
    answer = registry.predict(load, PredictParameters(predictor=name))
    assert isinstance(answer, NoPrediction)
    assert "nan" in answer.reason


@given(load=loads(), members=st.sets(st.sampled_from([name for name in EVERY_PREDICTOR if name != "max"]), min_size=1))
def test_max_is_the_largest_of_its_members_each_with_its_own_default_margin(load, members):
    answer = registry.predict(load, PredictParameters(predictor="max", members=tuple(members)))
    assert answer.peak == max(registry.predict(load, PredictParameters(predictor=name)).peak for name in members)


def test_an_unknown_predictor_is_refused_with_the_known_ones():
    answer = registry.predict(prod_load(), PredictParameters(predictor="oracle"))
    assert answer.reason.startswith("predictor 'oracle' is unknown, want one of n-sigma-v1, ")


@pytest.mark.parametrize(("member", "named"), [("max", "member of itself"), ("oracle", "'oracle' is unknown")])
def test_max_refuses_itself_and_unknown_members(member, named):
    answer = registry.predict(prod_load(), PredictParameters(predictor="max", members=(member,)))
    assert named in answer.reason


def test_one_scenario_by_hand_through_all_predictors():
    """CPU: two warm pods requesting 5.5 cores, one cold pod requesting 2."""
    load = prod_load(
        warm_pods=PlainStatistics([1.0, 0.5], [0.2, 0.1], {95: [1.4, 0.8], 99: [1.6, 0.9]}),
        warm_requests=5.5,
        cold_requests=2.0,
        prod=PlainStatistics([1.5], [0.2], {95: [2.0], 99: [2.1]}),
        system=PlainStatistics([0.6], [0.1], {95: [0.8], 99: [0.9]}),
        unreserved_system=PlainStatistics([0.1], [0.1], {95: [0.3], 99: [0.4]}),
        prod_and_unreserved_system=PlainStatistics([1.6], [0.3], {}),
    )
    expected = {
        "n-sigma-v1": 1.6 + 5 * 0.3 + 2,
        "n-sigma-v2": (1.0 + 5 * 0.2) + (0.5 + 5 * 0.1) + (0.1 + 5 * 0.1) + 2,
        "borg-default": 5.5 / 1.1 + (0.1 + 5 * 0.1) + 2,
        "resource-central": 1.6 + 0.9 + 0.4 + 2,
        "percentile": 1.540 + 0.880 + 2,
        "max": 5.6,
    }
    peaks = {name: registry.predict(load, PredictParameters(predictor=name)).peak for name in expected}
    assert peaks == pytest.approx(expected)


@pytest.mark.parametrize("name", EVERY_PREDICTOR)
@given(load=loads(), capacity=usage)
def test_a_peak_is_at_most_the_capacity_of_the_node_and_its_terms_do_not_change(name, load, capacity):
    parameters = PredictParameters(predictor=name)
    free, limited = (registry.predict(each, parameters) for each in (load, replace(load, capacity=capacity)))
    assert limited == replace(free, peak=min(free.peak, capacity))


def test_the_level_of_a_calibrated_member_is_kept_beside_a_larger_peak(monkeypatch):
    answers = {"calibrated": Peak(3.0, 1.0, level="max"), "n-sigma-v2": Peak(5.0, 1.0, class_peak=4.0)}
    for name, answer in answers.items():
        monkeypatch.setitem(registry.PREDICTORS, name, lambda *_, answer=answer: answer)
    policy = PredictParameters(predictor="max", members=tuple(answers))
    assert registry.predict(prod_load(), policy) == Peak(5.0, 1.0, class_peak=4.0, level="max")
