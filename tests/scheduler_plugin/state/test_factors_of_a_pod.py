"""Factors that a pod states in its annotation."""

from scheduler_plugin.state import estimator


def test_a_factor_of_null_counts_as_0():
    assert estimator.integer_map('{"cpu":null,"memory":70}') == {"cpu": 0, "memory": 70}


def test_factors_have_64_bits():
    largest = 2**63 - 1
    assert estimator.integer_map(f'{{"cpu":{largest}}}') == {"cpu": largest}
    assert estimator.integer_map(f'{{"cpu":{largest + 1},"memory":1}}') is None
