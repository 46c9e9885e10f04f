"""Bucket starts and buckets of values, compared with numbers of Koordinator's agent and computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction import buckets
from koordlet.prediction.buckets import ExponentialBuckets


def positions(scheme, *values):
    return scheme.positions(np.array(values, float)).tolist()


def test_exponential_buckets_double_when_the_ratio_is_two():
    scheme = ExponentialBuckets(max_value=100.0, first_bucket_size=10.0, ratio=2.0, epsilon=0.001)
    assert scheme.starts.tolist() == [0.0, 10.0, 30.0, 70.0, 150.0]
    assert positions(scheme, -1, 0, 9.99, 10, 29.99, 30, 69.99, 70, 149.99, 150, 1e6) == [
        0,
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]


@pytest.mark.parametrize(
    ("scheme", "count", "last_start"),
    [
        (ExponentialBuckets(1024, 0.025, 1.05, 0.0001), 158, 1060.4378860),
        (ExponentialBuckets(2**41, 5 * 2**20, 1.05, 0.0001), 205, 2203922208858.5415),
    ],
    ids=["upstream cpu", "upstream memory"],
)
def test_the_schemes_of_koordinator_match_its_documentation(scheme, count, last_start):
    assert len(scheme.starts) == count
    assert scheme.starts[-1] == pytest.approx(last_start, rel=1e-9)


def test_the_schemes_reach_from_a_millicore_and_a_mebibyte_past_1024_cores_and_two_tebibytes():
    for scheme, first, last in [(buckets.CPU_CORES, 0.001, 1024), (buckets.MEMORY_BYTES, 2**20, 2**41)]:
        assert scheme.starts[1] == pytest.approx(first)
        assert scheme.starts[-2] < last <= scheme.starts[-1]


@pytest.mark.parametrize("ratio", [1.01, 1.05, 1.1, 2.0])
def test_the_first_start_itself_is_in_the_second_bucket(ratio):
    assert positions(ExponentialBuckets(1024, 0.025, ratio, 0.0001), 0.0249, 0.025) == [0, 1]


@given(st.floats(0.001, 1024))
def test_a_value_lies_between_the_ends_of_its_bucket(cores):
    (bucket,) = positions(buckets.CPU_CORES, cores)
    starts = buckets.CPU_CORES.starts
    assert starts[bucket] <= cores * (1 + 1e-12)
    assert cores <= starts[bucket + 1] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ExponentialBuckets(0.0, 0.3, 1.5, 0.1), "max_value of buckets is 0.0"),
        (lambda: ExponentialBuckets(1.0, 0.3, 1.0, 0.1), "ratio of exponential buckets is 1.0"),
        (lambda: ExponentialBuckets(1.0, 0.0, 1.5, 0.1), "first_bucket_size of buckets is 0.0"),
        (lambda: ExponentialBuckets(1.0, 0.3, 1.5, 0.0), "epsilon of buckets is 0.0"),
    ],
)
def test_impossible_numbers_are_refused_by_name(make, named):
    with pytest.raises(ValueError, match=named):
        make()
