"""Properties of every registered predictor, and the choice of one."""

import inspect
import math
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from api_types.colocation import controller_config
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction import predictors
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction, Peak
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Resource, Snapshot, UsageSample
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load
from tests.koordlet.prediction.pods import Pod

pytestmark = pytest.mark.slow

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
@settings(max_examples=30)
@given(load=loads(), more=usage)
def test_a_peak_covers_the_cold_requests_and_rises_by_what_they_rise_at_most(name, load, more):
    parameters = PredictParameters(predictor=name)
    answer = registry.predict(load, parameters)
    raised = registry.predict(replace(load, cold_requests=load.cold_requests + more), parameters)
    assert answer.peak >= answer.cold_requests == load.cold_requests
    assert answer.peak - 1e-6 <= raised.peak <= answer.peak + more + 1e-6


@pytest.mark.parametrize("name", EVERY_PREDICTOR)
@settings(max_examples=30)
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
@settings(max_examples=30)
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


START = 2.0**30
ROUNDING = 1e-9
OF_PERCENTILES = ("borg-default", "resource-central", "percentile")
STEP_SECONDS = 300
BOTH = (Pod("a"), Pod("b"))
PARAMETERS = PredictParameters(cold_start_period_seconds=0)
core_counts = st.floats(0, 50).map(lambda value: round(value, 3))
histories = st.lists(st.tuples(core_counts, core_counts), min_size=2, max_size=12)


def cpu_peaks(history, pods=BOTH, parameters=PARAMETERS):
    """Return the peak by each predictor of a node whose pods a and b used this many cores, one pair per step."""
    server = PredictionServer(parameters)
    for step, pair in enumerate(history):
        now = START + STEP_SECONDS * step
        used = {uid: UsageSample(cores, 1e9) for uid, cores in zip("ab", pair, strict=True)}
        snapshot = Snapshot(now, UsageSample(sum(pair), 2e9), UsageSample(0.0, 0.0), used)
        server.train(now, class_series.snapshot_series(snapshot, {}, Reserved(0.0, 0.0)))
    found = {}
    for name in EVERY_PREDICTOR:
        server.configure(parameters.for_predictor(name))
        server.train(now, {})
        found[name] = server.predict(now, pods, WholeAmounts(10**6, 2**40)).prod[Resource.CPU].peak
    return found


def raised(history, step, cores):
    """Return the same history with one sample of pod a raised by so many cores."""
    return [(a + cores * (step == number), b) for number, (a, b) in enumerate(history)]


def no_lower(before, after, names):
    return [name for name in names if after[name] < before[name] * (1 - ROUNDING)] == []


@settings(max_examples=50)
@given(histories, st.data(), core_counts)
def test_predictors_of_percentiles_and_requests_are_monotone_in_every_single_sample(history, data, more):
    step = data.draw(st.integers(0, len(history) - 1))
    assert no_lower(cpu_peaks(history), cpu_peaks(raised(history, step, more)), OF_PERCENTILES)


def deviations_from_mean(values):
    """Return the deviations of each value above the decayed mean; 0 where there is no deviation."""
    half_lives = np.arange(len(values)) * STEP_SECONDS / PARAMETERS.cpu_half_life_seconds
    weights = 2.0**half_lives
    mean = np.average(values, weights=weights)
    stdev = math.sqrt(np.average((values - mean) ** 2, weights=weights))
    return (values - mean) / stdev if stdev > 1e-6 else np.zeros(len(values))


@settings(max_examples=50)
@given(histories, st.data(), core_counts, st.sampled_from([1.0, 3.0, 5.0, 10.0]))
def test_every_predictor_is_monotone_in_a_sample_not_far_below_the_mean(history, data, more, n):
    """d sig / dx_i = w_i (1 + N z_i), z_i = (x_i - mean) / stdev, and z_i only rises with x_i.

    So `mean + N * stdev` does not fall if a sample is raised that lies 1/N of a deviation or less below the mean, in
    the series of the pod and in that of the class.
    """
    values = np.array(history)
    not_far_below = np.minimum(deviations_from_mean(values[:, 0]), deviations_from_mean(values.sum(axis=1))) >= -1 / n
    assume(not_far_below.any())
    step = data.draw(st.sampled_from(np.flatnonzero(not_far_below).tolist()))
    parameters = replace(PARAMETERS, n=n)
    before, after = (cpu_peaks(each, parameters=parameters) for each in (history, raised(history, step, more)))
    assert no_lower(before, after, EVERY_PREDICTOR)


@settings(max_examples=50)
@given(histories, st.floats(1, 4), core_counts)
def test_every_predictor_rises_with_usage_as_a_whole(history, factor, more):
    """All samples times a number, or all of a pod higher by the same: busier, not less even."""
    busier = [(factor * a + more, factor * b) for a, b in history]
    assert no_lower(cpu_peaks(history), cpu_peaks(busier), EVERY_PREDICTOR)
