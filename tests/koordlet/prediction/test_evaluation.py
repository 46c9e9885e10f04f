"""The live evaluation: what is counted, what is dropped, and what survives restarts and changes."""

import math

import numpy as np
import pytest

from koordlet.metric_cache.aggregation import TimeWindow, WindowSamples
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import Dropped, LiveEvaluation, Outcome, Plan, Scores, total_usage
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction
from koordlet.samples import UNRESERVED_SYSTEM, Resource, UsageSample, pod_key

HOUR = 3600.0
WEEK = 7 * 24 * HOUR
NOW = 1.7e9
GIB = 2**30
PODS = ["a", "b"]
CAPACITY = WholeAmounts(8000, 8 * GIB)
REQUESTED = WholeAmounts(4000, 4 * GIB)


def plan(*names, horizon=HOUR, **parameters):
    return Plan(names or ("n-sigma-v2",), PredictParameters(horizon_seconds=horizon, **parameters))


def predicted(cpu_millis, memory_bytes=2 * GIB, requested=REQUESTED):
    peak = WholeAmounts(cpu_millis, memory_bytes)
    return Prediction(PredictParameters(), NOW, 2, 0, {}, {}, peak, requested, WholeAmounts(0, 0))


class Node:
    """An evaluation whose forecasts are observed every 30 s on two clocks."""

    def __init__(self):
        self.evaluation = LiveEvaluation()
        self.now, self.boot = NOW, 5000.0

    def pass_time(self, seconds):
        self.now += seconds
        self.boot += seconds

    def observe(self, usage, times=1, every=30.0):
        for _ in range(times):
            self.pass_time(every)
            self.evaluation.observe(self.boot, usage)

    def begin(self, peaks=None, of=None, **prediction):
        of = of or plan()
        peaks = peaks or dict.fromkeys(of.predictors, 2000)
        predictions = {name: predicted(peak, **prediction) for name, peak in peaks.items()}
        assert self.evaluation.is_due(of)
        self.evaluation.begin(self.now, of, predictions, PODS, CAPACITY)

    def horizon(self, usage, peaks=None, of=None, **prediction):
        """Make a forecast and pass its horizon with one usage."""
        self.observe(None)
        self.begin(peaks, of, **prediction)
        self.observe(usage, times=math.ceil((of or plan()).horizon_seconds / 30))

    def scores(self, name="n-sigma-v2", resource=Resource.CPU):
        return self.evaluation.records[name].scores[resource]

    def restarted(self, pause=10.0, booted=False, clock_step=0.0):
        stored = self.evaluation.export(self.now, self.boot)
        self.pass_time(pause)
        if booted:
            self.boot = 60.0
        self.now += clock_step
        self.evaluation = LiveEvaluation()
        self.evaluation.restore(stored, self.now, self.boot)


@pytest.fixture
def node():
    begun = Node()
    begun.observe(None)
    return begun


# What is counted


def test_a_peak_that_usage_never_exceeds_is_kept(node):
    node.horizon(UsageSample(2.0, GIB))
    scores = node.scores()
    assert (scores.forecasts, scores.violation_ratio, scores.severity_ratio) == (1, 0, None)
    assert scores.savings_ratio == pytest.approx(0.5)


def test_a_peak_above_the_requests_saves_nothing_and_takes_nothing_from_what_others_save():
    scores = Scores()
    for peak in (3.0, 50.0):
        scores.add(peak, 10.0, 1.0)
    assert scores.savings_ratio == pytest.approx(0.7 / 2)


def test_a_peak_below_usage_is_a_violation_with_its_severity(node):
    node.horizon(UsageSample(2.5, GIB))
    assert node.scores().violation_ratio == 1
    assert node.scores().severity_ratio == pytest.approx(0.5 / 2.5)
    assert node.scores(resource=Resource.MEMORY).violation_ratio == 0
    assert node.evaluation.outcomes == {
        Outcome("n-sigma-v2", Resource.CPU, True): 1,
        Outcome("n-sigma-v2", Resource.CPU, False): 0,
        Outcome("n-sigma-v2", Resource.MEMORY, True): 0,
        Outcome("n-sigma-v2", Resource.MEMORY, False): 1,
    }


def test_a_forecast_ends_with_its_horizon(node):
    node.begin()
    node.observe(UsageSample(1.0, 0), times=119)
    assert node.evaluation.records == {}
    node.observe(UsageSample(1.0, 0))
    assert node.scores().forecasts == 1
    node.observe(UsageSample(9.0, 0))
    assert node.scores().violation_ratio == 0


def test_usage_above_capacity_is_an_error_of_measurement_and_no_violation(node):
    node.horizon(UsageSample(8.01, 0), {"n-sigma-v2": 8000})
    assert node.scores().violation_ratio == 0


def test_rounding_of_samples_is_no_violation(node):
    node.horizon(UsageSample(2.0 * (1 + 2**-24), 0))
    assert node.scores().violation_ratio == 0


def test_without_requests_or_predictions_there_is_no_forecast(node):
    node.begin(requested=WholeAmounts(0, 0))
    assert node.evaluation.forecast is None
    node.evaluation.begin(node.now, plan(), {}, PODS, CAPACITY)
    assert node.evaluation.forecast is None
    assert node.evaluation.watched() == []


def test_a_forecast_counts_half_after_a_week(node):
    node.horizon(UsageSample(2.5, 0))
    node.observe(None, every=WEEK - HOUR - 30)
    node.horizon(UsageSample(1.0, 0))
    assert node.scores().forecasts == pytest.approx(1.5)
    assert node.scores().violation_ratio == pytest.approx(1 / 3)
    assert node.scores().severity_ratio == pytest.approx(0.2)


# What is dropped


def test_a_gap_of_more_than_five_minutes_drops_the_forecast(node):
    node.begin()
    node.observe(UsageSample(1.0, 0), times=100)
    node.observe(None, times=10)
    assert node.evaluation.forecast is not None
    node.observe(UsageSample(1.0, 0), every=0.1)
    assert node.evaluation.forecast is None
    assert node.evaluation.dropped[Dropped.GAP] == 1
    assert node.evaluation.records == {}


def test_a_shorter_gap_is_bridged(node):
    node.begin()
    node.observe(UsageSample(1.0, 0), times=100)
    node.observe(None, times=9)
    node.observe(UsageSample(1.0, 0), times=11)
    assert node.scores().forecasts == 1


# Changes of the policy


def test_another_predictor_in_force_keeps_the_scores(node):
    node.horizon(UsageSample(1.0, 0), of=plan("n-sigma-v2", "borg-default"))
    node.horizon(UsageSample(1.0, 0), of=plan("borg-default", "n-sigma-v2"))
    assert [node.scores(name).forecasts for name in ("n-sigma-v2", "borg-default")] == pytest.approx([2, 2], abs=0.02)
    node.begin(of=plan("borg-default", "n-sigma-v2"))
    assert list(node.evaluation.records) == ["borg-default", "n-sigma-v2"]


def test_a_predictor_that_is_no_longer_evaluated_loses_its_scores(node):
    node.horizon(UsageSample(1.0, 0), of=plan("n-sigma-v2", "borg-default"))
    node.horizon(UsageSample(1.0, 0), of=plan("n-sigma-v2"))
    assert node.evaluation.records.keys() == {"n-sigma-v2"}
    node.horizon(UsageSample(1.0, 0), of=plan("n-sigma-v2", "borg-default"))
    assert node.scores("borg-default").forecasts == 1
    assert node.scores().forecasts > 2


def test_other_parameters_begin_new_scores(node):
    node.horizon(UsageSample(2.5, 0))
    node.horizon(UsageSample(1.0, 0), of=plan(n=3.0))
    assert (node.scores().forecasts, node.scores().violation_ratio) == (1, 0)


def test_another_horizon_drops_the_forecast_and_begins_new_scores(node):
    node.horizon(UsageSample(2.5, 0))
    node.begin()
    node.observe(UsageSample(1.0, 0), times=3)
    assert node.evaluation.is_due(plan(horizon=900.0))
    assert node.evaluation.dropped[Dropped.HORIZON_CHANGED] == 1
    assert node.scores().violation_ratio == 1, "until a forecast with the other horizon has ended"
    node.horizon(UsageSample(1.0, 0), of=plan(horizon=900.0))
    assert (node.scores().forecasts, node.scores().violation_ratio) == (1, 0)
    assert node.evaluation.records["n-sigma-v2"].horizon_seconds == 900


# Restarts


def test_a_short_restart_continues_scores_and_forecast(node):
    node.horizon(UsageSample(2.5, 0))
    node.begin()
    node.observe(UsageSample(1.9, 0), times=60)
    node.restarted(pause=100)
    assert node.evaluation.forecast is not None
    assert node.evaluation.watched() == [UNRESERVED_SYSTEM, *map(pod_key, PODS)]
    node.observe(UsageSample(0.1, 0), times=56)
    assert node.evaluation.forecast is not None
    node.observe(UsageSample(0.1, 0))
    assert node.scores().forecasts == pytest.approx(2, abs=0.02)
    assert node.evaluation.closed[-1].highest[Resource.CPU] == 1.9


def test_a_long_restart_drops_the_forecast_and_keeps_the_scores(node):
    node.horizon(UsageSample(2.5, 0))
    node.begin()
    node.observe(UsageSample(1.9, 0))
    node.restarted(pause=301)
    assert node.evaluation.forecast is None
    assert node.evaluation.dropped[Dropped.GAP] == 1
    assert node.scores().violation_ratio == 1


@pytest.mark.parametrize("change", [{"booted": True}, {"clock_step": 60.0}, {"clock_step": -60.0}])
def test_a_pause_of_uncertain_length_drops_the_forecast(node, change):
    node.horizon(UsageSample(2.5, 0))
    node.begin()
    node.observe(UsageSample(1.9, 0))
    node.restarted(**change)
    assert node.evaluation.forecast is None
    assert node.evaluation.dropped[Dropped.RESTART] == 1
    assert node.scores().violation_ratio == 1


def test_scores_age_while_the_agent_is_away(node):
    node.horizon(UsageSample(2.5, 0))
    node.restarted(pause=WEEK - HOUR - 30)
    node.horizon(UsageSample(1.0, 0))
    assert node.scores().forecasts == pytest.approx(1.5)


def test_scores_age_by_a_day_at_most_after_a_boot_in_another_century(node):
    node.horizon(UsageSample(2.5, 0))
    node.restarted(booted=True, clock_step=3e9)
    node.horizon(UsageSample(1.0, 0))
    assert node.scores().forecasts == pytest.approx(1 + 2 ** -((24 + 1) / (7 * 24)), rel=1e-3)


def test_a_reset_discards_everything(node):
    node.horizon(UsageSample(2.5, 0))
    node.begin()
    node.evaluation.forget()
    assert (node.evaluation.records, node.evaluation.forecast) == ({}, None)
    assert node.evaluation.dropped[Dropped.RESET] == 1


# The stored state


# Usage of the pods of a forecast


def samples(*rows):
    """Return samples of CPU, and of memory with the same numbers, of S and of pods."""
    values = np.array([rows, rows], np.float32)
    keys = (UNRESERVED_SYSTEM, *(pod_key(str(number)) for number in range(1, len(rows))))
    return WindowSamples(TimeWindow(NOW, 30.0), keys, np.arange(values.shape[-1], dtype=float), values)


def test_usage_is_the_p90_of_the_sum():
    rows = ([1.0] * 10, list(range(10)), list(range(9, -1, -1)))
    assert total_usage(samples(*rows)) == UsageSample(10.0, 10.0)
    assert total_usage(samples([0.0] * 10, list(range(10)))) == UsageSample(8.0, 8.0)


def test_a_pod_without_a_sample_has_ended():
    assert total_usage(samples([1.0, 1.0], [2.0, np.nan])) == UsageSample(1.0, 1.0)
    assert total_usage(samples([1.0], [np.nan])) == UsageSample(1.0, 1.0)


def test_instants_without_s_are_not_observed():
    assert total_usage(samples([1.0, np.nan], [2.0, 9.0])) == UsageSample(3.0, 3.0)
    assert total_usage(samples([np.nan], [2.0])) is None
    assert total_usage(samples([], [])) is None
