"""Each bound of the values of a checkpoint: the last value that an agent can have recorded, and the next one."""

import dataclasses
import math

import numpy as np
import pytest

from koordlet.prediction import checkpoint_format
from koordlet.prediction.checkpoint_format import CheckpointError, Refusal
from koordlet.prediction.usage_models import BUCKETS, ModelsState
from koordlet.samples import Resource, SeriesKey, SeriesKind
from tests.koordlet.prediction.test_checkpoint_values import (
    HEADER,
    MODELS,
    NODE_NAME,
    NOW,
    UNTRAINED,
    bank_header,
    of_models,
    sealed,
)

SAVED = HEADER["savedAt"]
CPU = MODELS.banks[Resource.CPU]
WEIGHT, _, _, FIRST, LAST, _, _ = CPU.columns[:, 0].tolist()
LARGEST = 1000 * float(BUCKETS[Resource.CPU].starts[-1])
HALF_LIFE = CPU.half_life_seconds
CENTURY = 3.2e9


def saved_at(seconds):
    return sealed({**HEADER, "savedAt": seconds})


def referred_to(seconds):
    return sealed(bank_header(referenceSeconds=seconds))


def row(**columns):
    """Return a checkpoint whose first row of CPU has these values."""
    names = ("weight", "mean", "m2", "first", "last", "recorded", "newest")
    changed = CPU.columns.copy()
    for name, value in columns.items():
        changed[names.index(name), 0] = value
    return of_models(Resource.CPU, columns=changed)


def of_pods(identities):
    """Return a checkpoint of pods with one sample each."""
    rows = [[1.0], [1.0], [0.0], [NOW], [NOW], [0.0], [1.0]]
    columns = np.repeat(np.array(rows), len(identities), axis=1)
    banks = {
        resource: dataclasses.replace(bank, columns=columns, cells=bank.cells[:0], cell_weights=bank.cell_weights[:0])
        for resource, bank in MODELS.banks.items()
    }
    keys = tuple(SeriesKey(SeriesKind.POD, each) for each in identities)
    return checkpoint_format.encode(ModelsState(keys, banks), NODE_NAME, NOW)


def shifted(seconds, saved):
    """Return the checkpoint of an agent whose clock is ahead, or behind."""
    banks = {}
    for resource, bank in MODELS.banks.items():
        columns = bank.columns.copy()
        columns[3:5] += seconds
        reference = bank.reference_seconds + seconds
        banks[resource] = dataclasses.replace(bank, columns=columns, reference_seconds=reference)
    return checkpoint_format.encode(ModelsState(MODELS.keys, banks), NODE_NAME, saved)


def of_cell_weight(weight):
    return of_models(Resource.CPU, cell_weights=np.full_like(CPU.cell_weights, weight))


def without_rows(**changes):
    bank = dataclasses.replace(UNTRAINED.banks[Resource.CPU], half_life_seconds=HALF_LIFE, **changes)
    models = ModelsState((), {**UNTRAINED.banks, Resource.CPU: bank})
    return checkpoint_format.encode(models, NODE_NAME, SAVED)


BOUNDS = {
    "saved in the year 1653": (lambda by: saved_at(-1e10 - by), 1.0),
    "saved in the year 9892": (lambda by: saved_at(2.5e11 + by), 1.0),
    "first sample in the year 1653": (lambda by: shifted(-1e10 - FIRST - by, -1e10), 1.0),
    "last sample in the year 9892": (lambda by: shifted(2.5e11 - LAST + by, 2.5e11), 1.0),
    "half-life of a second": (lambda by: sealed(bank_header(halfLifeSeconds=1 - by, referenceSeconds=SAVED)), 1e-9),
    "half-life of 300,000 years": (lambda by: sealed(bank_header(halfLifeSeconds=1e13 + by)), 1.0),
    "reference a minute after the end": (lambda by: referred_to(SAVED + 60 + by), 1.0),
    "reference 61 half-lives before": (lambda by: referred_to(LAST - 61 * HALF_LIFE - by), 1.0),
    "reference without rows": (lambda by: without_rows(reference_seconds=SAVED + 60 + by), 1.0),
    "no carried weight": (lambda by: sealed(bank_header(carriedWeight=-by)), 1e-9),
    "carried weight of every row": (lambda by: sealed(bank_header(carriedWeight=2.0**112 * (1 + by))), 1e-9),
    "weight": (lambda by: row(weight=2.0**100 * (1 + by)), 1e-9),
    "cell weight of zero": (lambda by: of_cell_weight(-by), 1e-9),
    "cell weight": (lambda by: of_cell_weight(2.0**100 * (1 + by)), 1e-9),
    "mean of zero": (lambda by: row(mean=-by), 1e-9),
    "mean": (lambda by: row(mean=LARGEST * (1 + by)), 1e-9),
    "M2 of zero": (lambda by: row(m2=-by), 1e-9),
    "M2": (lambda by: row(m2=WEIGHT * LARGEST**2 * (1 + by)), 1e-9),
    "M2 of a weight of zero": (lambda by: row(weight=0.0, m2=2.0**-900 * LARGEST**2 * (1 + by)), 1e-9),
    "newest value of zero": (lambda by: row(newest=-by), 1e-9),
    "newest value": (lambda by: row(newest=LARGEST * (1 + by)), 1e-9),
    "one sample": (lambda by: row(first=LAST + by, recorded=0.0), 1.0),
    "nothing recorded": (lambda by: row(recorded=-by), 1e-9),
    "recorded a minute more than passed": (lambda by: row(recorded=LAST - FIRST + 60 + by), 1e-3),
    "a century": (lambda by: row(first=LAST - CENTURY - by), 1.0),
    "rows": (lambda by: of_pods([str(number) for number in range(4096 + by)]), 1),
    "characters of a name": (lambda by: of_pods(["x" * (1024 + by), "y"]), 1),
}
"""Makes a checkpoint whose value is so far beyond a bound, and the smallest distance at which it is refused."""


@pytest.mark.parametrize(("made", "step"), BOUNDS.values(), ids=BOUNDS.keys())
def test_a_value_is_accepted_up_to_its_bound_and_refused_beyond_it(made, step):
    checkpoint_format.decode(made(0), NODE_NAME)
    with pytest.raises(CheckpointError) as caught:
        checkpoint_format.decode(made(step), NODE_NAME)
    assert caught.value.refusal is Refusal.CORRUPT


def test_a_clock_far_in_the_future_is_that_of_all_samples():
    later = SAVED + 2 * CENTURY
    assert checkpoint_format.decode(shifted(2 * CENTURY, later), NODE_NAME).saved_seconds == later


def test_a_row_without_a_sample_of_any_resource_is_refused():
    """Copy the last row of memory, where that pod was never measured."""
    nothing = dataclasses.replace(CPU, columns=CPU.columns.copy())
    nothing.columns[:, -1] = MODELS.banks[Resource.MEMORY].columns[:, -1]
    with pytest.raises(CheckpointError, match="1 rows without a sample"):
        checkpoint_format.decode(of_models(Resource.CPU, columns=nothing.columns), NODE_NAME)


@pytest.mark.parametrize(
    ("resource", "row_number", "changes"),
    [
        (Resource.CPU, 0, {3: math.nan}),
        (Resource.MEMORY, 5, {3: NOW}),
        (Resource.MEMORY, 5, {6: 1.0}),
        (Resource.MEMORY, 5, {0: 0.5}),
    ],
)
def test_a_row_has_all_of_its_first_last_and_newest_sample_and_weight_or_none(resource, row_number, changes):
    columns = MODELS.banks[resource].columns.copy()
    for index, value in changes.items():
        columns[index, row_number] = value
    with pytest.raises(CheckpointError, match="rows have a weight or a value without times"):
        checkpoint_format.decode(of_models(resource, columns=columns), NODE_NAME)
