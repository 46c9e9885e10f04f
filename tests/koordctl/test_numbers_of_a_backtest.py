"""Numbers of `koordctl backtest`: what is replayed of a node, the scores, the table, and missing samples."""

import re

import numpy as np
import pytest

from koordctl.backtest import command, replay, report, scores
from koordctl.backtest.candidates import all_candidates
from koordctl.backtest.node_history import GIB, BoundPod, NodeHistory, nodes_of_one_resource
from koordctl.backtest.placement import Pod
from koordctl.backtest.results import Span, Summary
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.samples import NODE, SYSTEM, Resource, UsageSample, pod_key

STEP = 300


def of_one_resource(resource, used, requested=(2.0, 3.0)):
    used = np.array(used, float)
    stays = [Pod(number, 0, used.shape[1]) for number in range(len(used))]
    return nodes_of_one_resource("n1", stays, used, requested, STEP, resource)


def test_usage_and_requests_of_memory_are_bytes_of_the_gib_of_a_trace():
    history = of_one_resource(Resource.MEMORY, [[0.5, 1.0], [2.0, 0.25]])
    assert history.usage[Resource.MEMORY].tolist() == [[0.5 * GIB, GIB], [2 * GIB, 0.25 * GIB]]
    assert [pod.memory_request_bytes for pod in history.bound] == [2 * GIB, 3 * GIB]
    assert history.usage[Resource.CPU].tolist() == [[1.0, 1.0]] * 2


def test_usage_and_requests_of_cpu_are_cores():
    history = of_one_resource(Resource.CPU, [[0.5, 1.0], [2.0, 0.25]])
    assert history.usage[Resource.CPU].tolist() == [[0.5, 1.0], [2.0, 0.25]]
    assert [pod.cpu_request_millis for pod in history.bound] == [2000, 3000]
    assert history.usage[Resource.MEMORY].tolist() == [[GIB, GIB]] * 2


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY])
def test_a_node_of_unknown_capacity_is_measured_by_all_requests(resource):
    history = of_one_resource(resource, [[0.5], [2.0]])
    assert replay._sum_of_requests(history) == WholeAmounts(5_000, 5 * GIB)


@pytest.mark.parametrize(
    ("capacity", "allocatable", "reserved"),
    [
        (WholeAmounts(8_000, 16 * GIB), WholeAmounts(7_500, 14 * GIB), (0.5, 2 * GIB)),
        (WholeAmounts(8_000, 16 * GIB), WholeAmounts(9_000, 17 * GIB), (0.0, 0.0)),
        (WholeAmounts(8_000, 16 * GIB), None, (0.0, 0.0)),
        (None, WholeAmounts(8_000, 16 * GIB), (0.0, 0.0)),
        (None, None, (0.0, 0.0)),
    ],
)
def test_a_node_reserves_what_it_leaves_to_no_pod(capacity, allocatable, reserved):
    usage = dict.fromkeys(Resource, np.ones((1, 1)))
    history = NodeHistory("n1", STEP, [BoundPod("u")], [Pod(0, 0, 1)], usage, None, capacity, allocatable)
    assert replay._reserved(history) == reserved


def measured(used, of_node):
    """Return the series of the one step of a node with a pod for each (cores, bytes) of `used`."""
    usage = {each: np.array([[of_pod[number]] for of_pod in used]) for number, each in enumerate(Resource)}
    whole = {each: np.array([of_node[number]]) for number, each in enumerate(Resource)} if of_node else None
    bound = [BoundPod(f"u{number}") for number in range(len(used))]
    history = NodeHistory("n1", STEP, bound, [Pod(number, 0, 1) for number in range(len(used))], usage, whole)
    return replay._measured(history, replay.START_SECONDS, bound, np.array(used, float), 0)


@pytest.mark.parametrize(
    ("of_node", "node", "system"),
    [
        ((4.0, 8.0 * GIB), (4.0, 8.0 * GIB), (1.0, 3.0 * GIB)),
        ((2.5, 4.0 * GIB), (2.5, 4.0 * GIB), (0.0, 0.0)),  # read a moment before the pods
        (None, (3.0, 5.0 * GIB), (0.0, 0.0)),
    ],
)
def test_the_system_uses_what_the_node_uses_beyond_its_pods(of_node, node, system):
    found = measured([(1.0, 2.0 * GIB), (2.0, 3.0 * GIB)], of_node)
    assert (found[NODE], found[SYSTEM]) == (node, system)
    assert found[pod_key("u1")] == UsageSample(2.0, 3.0 * GIB)


@pytest.mark.parametrize("missing", [(np.nan, 3.0 * GIB), (2.0, np.nan), (np.inf, 3.0 * GIB), (2.0, np.inf)])
def test_beside_a_pod_that_was_not_measured_the_system_is_not_known(missing):
    found = measured([(1.0, 2.0 * GIB), missing], (4.0, 8.0 * GIB))
    assert found[NODE] == (4.0, 8.0 * GIB)
    assert SYSTEM not in found
    assert pod_key("u1") not in found


def test_a_pod_is_charged_its_request_while_it_is_cold_and_its_usage_then():
    history = of_one_resource(Resource.CPU, [[0.5] * 31, [1.0] * 31])
    policy = PredictParameters(predictor="percentile", cold_start_period_seconds=2 * 3600, safety_margin_percent=0)
    found = replay.replay(history, [policy], [0, 30], 1).forecasts[Resource.CPU]
    assert found.requests.tolist() == [5.0, 5.0]
    assert found.peaks[0, 0] == 5.0
    assert 1.5 <= found.peaks[0, 1] < 1.5 * 1.05 + 0.002  # the upper end of a bucket of each pod


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY])
def test_the_pods_of_a_trace_request_no_mid_resources(resource):
    history = of_one_resource(resource, [[0.5, 0.5], [1.0, 1.0]])
    found = replay.replay(history, [PredictParameters()], [0, 1], 1).forecasts[resource]
    assert found.mid_requests.tolist() == [0.0, 0.0]


def test_percentiles_of_violations_are_over_the_machines():
    peaks = np.array([[0.0] * number + [2.0] * (100 - number) for number in range(101)])
    found = scores.score(peaks, np.ones_like(peaks), np.full_like(peaks, 4.0), 1.0)
    assert found.violation_rate == pytest.approx(0.5)
    rates = (found.violation_rate_p50, found.violation_rate_p90, found.violation_rate_p99)
    assert rates == pytest.approx((0.5, 0.9, 0.99))


def test_the_severity_is_the_missing_share_of_the_oracle():
    peaks = np.array([[100.0 - number for number in range(101)]])
    found = scores.score(peaks, np.full_like(peaks, 100.0), np.full_like(peaks, 200.0), 1.0)
    assert found.severity == pytest.approx(0.5)
    assert found.severity_p99 == pytest.approx(0.99)
    assert found.shortfall == pytest.approx(0.505)  # the mean of 0.01 to 1
    assert found.violation_rate == pytest.approx(100 / 101)
    assert found.savings == pytest.approx(0.75)
    assert found.saved_cores == pytest.approx(150.0)


def test_violations_one_after_the_other_are_one_episode():
    peaks = np.ones((2, 168))
    peaks[0, [0, 1, 7]] = 0.5
    peaks[1, 100:168] = 0.5
    found = scores.score(peaks, np.ones_like(peaks), np.full_like(peaks, 2.0), 1.0)
    assert found.episodes_a_machine_week == pytest.approx(3 / 2)
    twice = scores.score(peaks, np.ones_like(peaks), np.full_like(peaks, 2.0), 2.0)
    assert twice.episodes_a_machine_week == pytest.approx(3 / 4)


def test_without_a_violation_or_a_request_there_is_no_shortfall_and_no_saving():
    found = scores.score(np.ones((1, 2)), np.ones((1, 2)), np.zeros((1, 2)), 1.0)
    assert (found.violation_rate, found.severity, found.episodes_a_machine_week) == (0.0, 0.0, 0.0)
    assert np.isnan([found.shortfall, found.savings]).all()


def spans(line):
    return [each.span() for each in re.finditer(r"\S+(?: \S+)*", line)]


def test_names_are_at_the_left_of_their_columns_and_numbers_at_the_right():
    summaries = [
        Summary("cpu", "max", 4, 10, 1.5, 2.0, 3.0, 0.5, 2.0, 50.0, 1.0, 0.5),
        Summary("memory", "a longer name", 4_000, 10, 100.0, 100.0, 100.0, 10.25, 1234.0, 5.0, 1000.0, 100.0),
    ]
    columns = list(zip(*map(spans, report.table(summaries).splitlines()), strict=True))
    assert len(columns) == 11
    for number, column in enumerate(columns):
        starts, ends = zip(*column, strict=True)
        assert len(set(starts if number < 2 else ends)) == 1, number


class Recorded:
    """A source of one history."""

    def __init__(self, history):
        self.history = history

    def load(self, _node):
        return self.history


@pytest.mark.parametrize(("gaps", "seen"), [(1, 18), (2, 16)])
def test_a_node_whose_samples_are_missing_for_more_than_a_tenth_of_its_forecasts_is_named(gaps, seen):
    used = np.full((1, 31), 0.5)
    used[0, [15, 20][:gaps]] = np.nan  # each spoils its own forecast, and the horizon of the one before
    source = Recorded(of_one_resource(Resource.CPU, used, (2.0,)))
    candidates = [each for each in all_candidates(STEP) if each.name == "n-sigma-v2"]
    rows, problems = command._replay_node(source, candidates, Span(STEP, STEP, 10 * STEP), "n1")
    assert {row.forecasts for row in rows} == {seen}
    named = [f"partial data: node n1: {seen} of 20 forecasts have complete series; check the scrapes"]
    assert problems == (named if gaps > 1 else [])


def test_a_pod_of_a_trace_requests_no_mid_unless_it_is_given():
    assert allocation.allocated_to_mid([BoundPod("u")]) == allocation.WholeAmounts(0, 0)
