"""The sum of squares in a checkpoint: at most the weight times the square of the largest value."""

import pytest

from koordlet.prediction import checkpoint_format
from koordlet.prediction.checkpoint_format import CheckpointError
from koordlet.prediction.checkpoint_values import _MOST_TIMES_THE_LARGEST_BUCKET
from koordlet.prediction.usage_models import BUCKETS
from koordlet.samples import Resource
from tests.koordlet.prediction.test_checkpoint_values import MODELS, NODE_NAME, column_set


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY])
def test_a_sum_of_squares_beyond_that_of_the_largest_values_is_refused(resource):
    largest = _MOST_TIMES_THE_LARGEST_BUCKET * float(BUCKETS[resource].starts[-1])
    most = float(MODELS.banks[resource].columns[0, 0]) * largest**2
    assert checkpoint_format.decode(column_set(2, 0.99 * most, resource=resource), NODE_NAME)
    with pytest.raises(CheckpointError, match="M2"):
        checkpoint_format.decode(column_set(2, 1.01 * most, resource=resource), NODE_NAME)
