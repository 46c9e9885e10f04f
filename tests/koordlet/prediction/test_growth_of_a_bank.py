"""A bank that gets more rows than its capacity has what a larger one has."""

import numpy as np

from koordlet.prediction.buckets import ExponentialBuckets
from koordlet.prediction.histogram_bank import HistogramBank

SMALL = ExponentialBuckets(max_value=100.0, first_bucket_size=1.0, ratio=1.5, epsilon=1e-4)
START = 1.7e9
ROWS = np.arange(4)


def fill(bank, rows, seconds):
    rows = np.array(rows)
    bank.add(rows, 1.0 + 20.0 * rows, START + seconds)
    bank.add(rows, 3.0 + 20.0 * rows, START + seconds + 30)


def contents(bank):
    return {
        "percentiles": bank.percentiles(ROWS, (0.0, 0.5, 1.0)),
        "mean": bank.mean(ROWS),
        "stdev": bank.stdev(ROWS),
        "first": bank.first_seconds(ROWS),
        "last": bank.last_seconds(ROWS),
        "recorded": bank.recorded_seconds(ROWS),
        "newest": bank.newest_values(ROWS),
    }


def test_rows_keep_their_samples_when_more_are_made_and_new_ones_are_empty():
    grown, large = HistogramBank(SMALL, 3600.0, capacity=2), HistogramBank(SMALL, 3600.0, capacity=8)
    fill(grown, [0, 1], 0)
    fill(large, [0, 1], 0)
    grown.ensure_rows(4)
    for name, expected in contents(large).items():
        np.testing.assert_array_equal(contents(grown)[name], expected, err_msg=name)
    assert np.isnan(grown.first_seconds(np.array([2, 3]))).all()
    for bank in (grown, large):
        fill(bank, [2, 3], 60)
        fill(bank, [0], 60)
    for name, expected in contents(large).items():
        np.testing.assert_array_equal(contents(grown)[name], expected, err_msg=name)
    state = grown.state_of(ROWS)
    np.testing.assert_array_equal(state.cells, large.state_of(ROWS).cells)
    restored = HistogramBank(SMALL, capacity=4)
    restored.restore(ROWS, state)
    for name, expected in contents(large).items():
        np.testing.assert_array_equal(contents(restored)[name], expected, err_msg=name)
