"""Buckets, banks, amounts and checkpoints at their edges."""

import math

import numpy as np
import pytest

from koordlet.prediction import allocation, buckets, checkpoint_format, checkpoint_values
from koordlet.prediction.buckets import ExponentialBuckets
from koordlet.prediction.decayed_moments import DecayedMoments
from koordlet.prediction.evaluation_scores import Scores
from koordlet.prediction.histogram_bank import MAX_HALF_LIVES_FROM_REFERENCE, HistogramBank
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Resource, SeriesKey, SeriesKind, UsageSample
from tests.koordlet.prediction.pods import Pod

START = 1.7e9
ONE = np.array([0])
DOUBLING = ExponentialBuckets(max_value=100.0, first_bucket_size=1.0, ratio=2.0, epsilon=1e-4)


@pytest.mark.parametrize(("largest", "starts"), [(14.5, 5), (15.0, 5), (16.0, 6), (30.9, 6), (31.1, 7)])
def test_the_last_bucket_begins_at_the_largest_value_or_above_it(largest, starts):
    """Buckets of ratio 2 begin at 0, 1, 3, 7, 15, 31 and 63."""
    made = ExponentialBuckets(max_value=largest, first_bucket_size=1.0, ratio=2.0, epsilon=1e-4)
    assert made.starts.tolist() == [0, 1, 3, 7, 15, 31, 63][:starts]


def test_the_buckets_that_checkpoints_name_are_those_of_the_last_versions():
    """Other buckets would drop the history of every node at the next upgrade."""
    names = "ExponentialBuckets(max_value={}, first_bucket_size={}, ratio=1.05, epsilon=0.0001)"
    assert buckets.CPU_CORES.identity == names.format(1024, 0.001)
    assert buckets.MEMORY_BYTES.identity == names.format(2 * 1024**4, 1024**2)


def test_recorded_time_begins_with_the_first_sample_and_ends_at_the_longest_gap():
    bank = HistogramBank(DOUBLING, 3600.0, capacity=2, longest_recorded_gap_seconds=60.0)
    for seconds, recorded in ((0, 0), (30, 30), (89, 89), (150, 149), (1000, 209)):
        bank.add(ONE, np.ones(1), START + seconds)
        assert bank.recorded_seconds(ONE).tolist() == [recorded]


def test_a_sample_of_an_earlier_time_adds_no_recorded_time():
    bank = HistogramBank(DOUBLING, 3600.0, capacity=1, longest_recorded_gap_seconds=60.0)
    for seconds in (0, 30, 20):
        bank.add(ONE, np.ones(1), START + seconds)
    assert bank.recorded_seconds(ONE).tolist() == [30]
    assert bank.last_seconds(ONE).tolist() == [START + 30]


def test_there_is_room_for_one_row_more_than_the_capacity():
    bank = HistogramBank(DOUBLING, 3600.0, capacity=2)
    bank.ensure_rows(3)
    bank.add(np.array([2]), np.array([3.0]), START)
    assert bank.mean(np.array([2])).tolist() == [3.0]


@pytest.mark.parametrize(("half_lives", "moved"), [(0, 0), (1, 1)])
def test_the_reference_moves_beyond_its_largest_distance(half_lives, moved):
    bank = HistogramBank(DOUBLING, 100.0, capacity=1)
    bank.add(ONE, np.ones(1), START)
    bank.add(ONE, np.ones(1), START + 100 * (MAX_HALF_LIVES_FROM_REFERENCE + half_lives))
    assert (bank.reference_seconds != START) == bool(moved)


def test_moments_grow_to_the_capacity_that_is_wanted():
    moments = DecayedMoments(2)
    moments.add(np.array([0, 1]), np.array([3.0, 5.0]), np.ones(2))
    moments.grow(5)
    assert [len(column) for column in moments.columns()] == [5, 5, 5]
    assert moments.weight.tolist() == [1, 1, 0, 0, 0]


def test_a_cpu_limit_is_in_cores_and_infinite_where_there_is_none():
    limits = allocation.cpu_limits([Pod("a", cpu_limit_millis=1500), Pod("b", cpu_limit_millis=None)])
    assert limits.tolist() == [1.5, math.inf]


@pytest.mark.parametrize(("resource", "charged"), [(Resource.CPU, 3.5), (Resource.MEMORY, 3 * 2**30)])
def test_a_cold_pod_is_charged_what_it_uses_above_its_request(resource, charged):
    pods = [Pod("a", cpu_request_millis=1000), Pod("b", cpu_request_millis=2000)]
    unit = 1 if resource is Resource.CPU else 2**30
    used = np.array([1.5, math.nan]) if resource is Resource.CPU else np.array([2.0, 0.5]) * unit
    assert allocation.charged_while_cold(pods, resource, used) == charged


def trained(identity="a"):
    server = PredictionServer(PredictParameters())
    for step in range(3):
        server.train(START + 30 * step, {SeriesKey(SeriesKind.POD, identity): UsageSample(1.5, 2e9)})
    return server.export()


@pytest.mark.parametrize(("length", "is_valid"), [(1024, True), (1025, False)])
def test_the_longest_name_of_a_series_is_read(length, is_valid):
    data = checkpoint_format.encode(trained("a" * length), "n", START + 90)
    if is_valid:
        assert [len(key.identity) for key in checkpoint_format.decode(data, "n").models.keys] == [length]
    else:
        with pytest.raises(checkpoint_format.CheckpointError, match="name of more than 1024 characters"):
            checkpoint_format.decode(data, "n")


@pytest.mark.parametrize(("most", "is_valid"), [(1, True), (0, False)])
def test_as_many_rows_as_an_agent_has_are_read(monkeypatch, most, is_valid):
    monkeypatch.setattr(checkpoint_values, "MOST_ROWS", most)
    data = checkpoint_format.encode(trained(), "n", START + 90)
    if is_valid:
        assert len(checkpoint_format.decode(data, "n").models.keys) == 1
    else:
        with pytest.raises(checkpoint_format.CheckpointError, match="1 rows of 1 series"):
            checkpoint_format.decode(data, "n")


@pytest.mark.parametrize(("missing", "wanted"), [(1, "{} and more"), (0, "{}")])
def test_a_file_that_is_exactly_a_prefix_lacks_its_content(missing, wanted):
    data, size = checkpoint_format.encode(trained(), "n", START + 90), checkpoint_format._PREFIX.size
    wanted = wanted.format(size if missing else len(data))
    with pytest.raises(checkpoint_format.CheckpointError, match=f"{size - missing} bytes, want {wanted}$"):
        checkpoint_format.decode(data[: size - missing], "n")


@pytest.mark.parametrize(("usage", "is_violation"), [(2.0, False), (2.0 * (1 + 1e-6), False), (2.00001, True)])
def test_usage_above_a_peak_by_a_rounding_is_no_violation(usage, is_violation):
    scores = Scores()
    assert scores.add(2.0, 4.0, usage) is is_violation
    assert (scores.forecasts, scores.violations, scores.peaks, scores.requests) == (1, is_violation, 2.0, 4.0)
