"""Test of the example predictor alone: `pytest` in this folder. It needs numpy and pytest, not the koordlet."""

from types import SimpleNamespace

import numpy as np
import pytest
from koordlet_recent_peak import RecentPeak


def series(*rings):
    ring = np.full((len(rings), 288), np.nan)
    for row, values in enumerate(rings):
        ring[row, : len(values)] = values
    return SimpleNamespace(
        mean=np.full(len(rings), 0.5), stdev=np.full(len(rings), 0.1), newest=ring[:, 0].copy(), ring=ring
    )


def load(resource="cpu", pods=((1.0, 3.0), (2.0, 1.5))):
    return SimpleNamespace(resource=resource, pods=series(*pods), unreserved_system=series((0.25, 0.5)))


def test_the_peak_is_the_highest_total_of_a_slot():
    assert RecentPeak().predict(load()) == pytest.approx(3.0 + 1.5 + 0.5)


def test_a_node_without_warm_pods_has_the_peak_of_the_system():
    assert RecentPeak().predict(load(pods=())) == pytest.approx(0.6)


def test_a_series_without_a_sample_is_no_prediction_with_a_reason():
    unknown = load()
    unknown.pods.mean[0] = np.nan
    assert RecentPeak().predict(unknown) == "a series has no sample yet"


def test_a_total_that_was_observed_outlives_a_restart():
    before, after = RecentPeak(), RecentPeak()
    before.observe(load(pods=((9.0,),)))
    after.restore(before.save())
    assert after.predict(load()) == pytest.approx(9.25)
    assert after.predict(load("memory")) < 9


def test_a_state_with_impossible_values_is_refused():
    with pytest.raises(ValueError, match="want amounts"):
        RecentPeak().restore(b'{"cpu": -1, "memory": 0}')
