"""A prediction and the live evaluation in the fields and units of a report."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from api_types.colocation import controller_config
from koordlet.cluster import spec_in_force
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation_scores import Record, Scores
from koordlet.prediction.peaks import NodePeak, Peak
from koordlet.prediction.server import Prediction
from koordlet.report import evaluation, prediction
from koordlet.samples import Resource

GIB = 1 << 30
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
POLICY = spec_in_force.predict_policy(controller_config.PredictPolicy(predictor="calibrated"))
CPU = Peak(2.0, 0.5, class_peak=1.25, pod_sum_peak=1.5, system_peak=0.125, level="max")
MEMORY = Peak(4.0 * GIB, GIB, class_peak=2.0 * GIB, pod_sum_peak=3.0 * GIB, system_peak=0.5 * GIB, level="calibrated")
WITHOUT_TERMS = {"class_peak": None, "pod_sum_peak": None, "system_peak": None, "level": None}


def predicted(cpu=CPU, memory=MEMORY, node=None):
    return Prediction(
        parameters=spec_in_force.predict_parameters(POLICY),
        since_seconds=NOW.timestamp() - 86_400,
        warm_pods=3,
        cold_pods=1,
        node=node or {},
        prod={Resource.CPU: cpu, Resource.MEMORY: memory},
        prod_peak=WholeAmounts(2000, 4 * GIB),
        prod_allocated=WholeAmounts(4000, 8 * GIB),
        prod_reclaimable=WholeAmounts(1900, 3 * GIB),
    )


def published(found, records=None):
    return prediction.publishable(found, POLICY, NOW, records or {}).prediction.to_wire()


def test_every_term_is_published_in_whole_units():
    prod = published(predicted())["prod"]
    assert prod == {
        "peak": {"cpu": "2", "memory": str(4 * GIB)},
        "classPeak": {"cpu": "1250m", "memory": str(2 * GIB)},
        "podSumPeak": {"cpu": "1500m", "memory": str(3 * GIB)},
        "coldRequests": {"cpu": "500m", "memory": str(GIB)},
        "systemPeak": {"cpu": "125m", "memory": str(GIB // 2)},
    }


@pytest.mark.parametrize("lacking", [{"cpu": True}, {"memory": True}, {"cpu": True, "memory": True}])
def test_a_term_or_level_of_one_resource_alone_is_not_published(lacking):
    found = published(
        predicted(
            dataclasses.replace(CPU, **WITHOUT_TERMS) if "cpu" in lacking else CPU,
            dataclasses.replace(MEMORY, **WITHOUT_TERMS) if "memory" in lacking else MEMORY,
        )
    )
    assert found["prod"].keys() == {"peak", "coldRequests"}
    assert "level" not in found


def test_the_level_of_each_resource_is_published():
    assert published(predicted())["level"] == {"cpu": "max", "memory": "calibrated"}


def test_the_whole_node_has_mean_deviation_and_peak_once_it_was_measured():
    assert "node" not in published(predicted())
    node = {Resource.CPU: NodePeak(1.5, 0.25, 2.75), Resource.MEMORY: NodePeak(3.0, 1.0, 8.0)}
    assert published(predicted(node=node))["node"] == {
        "mean": {"cpu": "1500m", "memory": "3"},
        "stdev": {"cpu": "250m", "memory": "1"},
        "peak": {"cpu": "2750m", "memory": "8"},
    }


def scores(forecasts=8.0, violations=1.0, severities=0.25, peaks=6.0, requests=8.0):
    return Scores(forecasts, violations, severities, peaks, requests)


def evaluated(**of_resources):
    (found,) = evaluation.publishable({"max": Record(3600.0, {}, of_resources)}) or ()
    return found.to_wire()


def test_without_a_closed_forecast_there_is_no_evaluation():
    assert evaluation.publishable({}) is None
    assert "evaluation" not in published(predicted())


def test_scores_are_published_as_percentages():
    found = {"predictor": "max", "horizonSeconds": 3600}
    # one violation in eight forecasts, a quarter above its peak, and peaks of 6 of 8 requested cores
    cpu = {"forecasts": 8.0, "violationPercent": 12.5, "severityPercent": 25.0, "savingsPercent": 25.0}
    records = {"max": Record(3600.0, {}, {Resource.CPU: scores()})}
    assert published(predicted(), records)["evaluation"] == [{**found, "cpu": cpu}]
    assert evaluated(memory=scores())["memory"] == cpu


def test_scores_have_one_decimal_for_forecasts_and_two_for_percentages():
    # 1 / 3 = 33.333 %, and of the third that is a violation 2 / 3 = 66.667 %
    found = evaluated(
        cpu=scores(forecasts=2.3456, violations=2.3456 / 3, severities=2.3456 * 2 / 9, peaks=2, requests=3)
    )
    assert found["cpu"] == {
        "forecasts": 2.3,
        "violationPercent": 33.33,
        "severityPercent": 66.67,
        "savingsPercent": 33.33,
    }


def test_a_predictor_without_a_violation_has_no_severity():
    found = evaluated(cpu=scores(violations=0.0, severities=0.0))["cpu"]
    assert found == {"forecasts": 8.0, "violationPercent": 0.0, "savingsPercent": 25.0}
