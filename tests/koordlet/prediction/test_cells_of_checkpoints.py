"""Cells and weights of a checkpoint: neighbours are valid, a cell beyond the last row and an absurd weight are not."""

import numpy as np
import pytest

from koordlet.prediction import checkpoint_format
from koordlet.prediction.checkpoint_format import CheckpointError
from koordlet.prediction.usage_models import BUCKETS
from koordlet.samples import Resource
from tests.koordlet.prediction.test_checkpoint_values import MODELS, NODE_NAME, column_set, of_models

BANK = MODELS.banks[Resource.CPU]
CELLS = BANK.columns.shape[1] * len(BUCKETS[Resource.CPU].starts)


def with_cells(*cells):
    weights = np.ones(len(cells), BANK.cell_weights.dtype)
    return of_models(Resource.CPU, cells=np.array(cells, BANK.cells.dtype), cell_weights=weights)


@pytest.mark.parametrize("cells", [(0, 1, 2), (CELLS - 2, CELLS - 1)])
def test_cells_side_by_side_up_to_the_last_one_are_accepted(cells):
    stored = checkpoint_format.decode(with_cells(*cells), NODE_NAME)
    assert stored.models.banks[Resource.CPU].cells.tolist() == list(cells)


@pytest.mark.parametrize("cells", [(CELLS,), (3, 3), (3, 2)])
def test_a_cell_beyond_the_last_one_and_cells_out_of_order_are_refused(cells):
    with pytest.raises(CheckpointError, match="cells are not ascending"):
        checkpoint_format.decode(with_cells(*cells), NODE_NAME)


def test_a_finite_weight_beyond_any_number_of_samples_is_refused():
    with pytest.raises(CheckpointError, match="cpu weights"):
        checkpoint_format.decode(column_set(0, 2.0**101), NODE_NAME)
