"""Candidates of `koordctl backtest`: which there are for a horizon, and the policy and configuration of each."""

import json

import pytest

from koordctl.backtest.results import all_candidates
from koordlet.samples import Resource

PLAIN = ["n-sigma-v1", "n-sigma-v2", "borg-default", "resource-central", "percentile", "percentile, cold 24 h"]
CALIBRATED = ["calibrated, 1 %", "calibrated, 2 %", "preset balanced", "preset aggressive"]
THREE_HOURS = 3 * 3_600


def by_name(horizon_seconds=3_600):
    return {each.name: each for each in all_candidates(horizon_seconds)}


@pytest.mark.parametrize(
    ("horizon", "watched", "has_calibrated"),
    [
        (300, 900, True), (900, 900, True), (901, 901, True), (THREE_HOURS, THREE_HOURS, True),
        (THREE_HOURS + 1, THREE_HOURS, False), (86_400, THREE_HOURS, False),
    ],
)  # fmt: skip
def test_a_calibrated_peak_is_for_three_hours_at_most(horizon, watched, has_calibrated):
    found = by_name(horizon)
    assert set(found) == {*PLAIN, "preset conservative", *(CALIBRATED if has_calibrated else [])}
    assert {each.parameters.horizon_seconds for each in found.values()} == {watched}


def test_each_candidate_has_the_policy_that_its_configuration_sets():
    for name, each in by_name().items():
        if not each.snippet:
            assert name in {"percentile", "calibrated, 1 %", "calibrated, 2 %"}
            continue
        given = json.loads(each.snippet)
        assert given["enable"] is True
        if "preset" in given:
            assert name == f"preset {given['preset']}"
        else:
            policy = given["nodePredictPolicy"]
            assert policy["predictor"] == each.parameters.predictor
            if "coldStartPeriodSeconds" in policy:
                assert policy["coldStartPeriodSeconds"] == each.parameters.cold_start_period_seconds == 86_400
    keeps_with = {name: each.keeps_with for name, each in by_name().items() if each.keeps_with}
    assert keeps_with == {"percentile, cold 24 h": "percentile"}
    assert by_name()["percentile"].parameters.cold_start_period_seconds < 86_400


def test_the_mid_policy_is_that_of_the_preset_and_the_defaults_otherwise():
    found = {
        name: (each.threshold_percent[Resource.CPU], each.threshold_percent[Resource.MEMORY])
        for name, each in by_name().items()
    }
    presets = {"preset conservative": (40, 30), "preset balanced": (65, 50), "preset aggressive": (90, 80)}
    assert found == dict.fromkeys([*PLAIN, *CALIBRATED], (100, 100)) | presets
    assert {(each.reclaim_ratio_percent, each.unallocated_percent) for each in by_name().values()} == {(100, 0)}
