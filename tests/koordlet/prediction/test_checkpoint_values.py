"""Checkpoints with a right checksum and wrong values: a clean start with a reason, or models that predict."""

import copy
import math
import zlib
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction import checkpoint
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpoint import Checkpoint, Refused
from koordlet.prediction.checkpointer import FILE_NAME, Checkpointer
from koordlet.prediction.evaluation import EvaluationState, Forecast, Record, Scores
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.prediction.usage_models import BUCKETS
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKey,
    SeriesKind,
    UsageSample,
)
from tests.koordlet.prediction import test_calibrated_server as a_node
from tests.koordlet.prediction.pods import Pod

NODE_NAME = "node-1"
NOW = 1.7e9
SAVED = NOW + 150
SAMPLES = {
    NODE: UsageSample(1.5, 2e9),
    SYSTEM: UsageSample(0.5, 1e9),
    UNRESERVED_SYSTEM: UsageSample(0.25, 5e8),
    PROD_AND_UNRESERVED_SYSTEM: UsageSample(1.25, 1.5e9),
    SeriesKey(SeriesKind.CLASS, "koord-prod"): UsageSample(1.0, 1e9),
    SeriesKey(SeriesKind.POD, "a"): UsageSample(1.0, math.nan),
}
CAPACITY = WholeAmounts(16_000, 2**36)


def trained(rounds=5):
    server = PredictionServer(PredictParameters())
    for step in range(rounds):
        server.train(NOW + 30 * step, SAMPLES)
    return server


MODELS = trained().export()
CALIBRATION = a_node.known().server.calibration.export()
EVALUATION = EvaluationState(
    SAVED,
    99.0,
    5.0,
    {"n-sigma-v2": Record(3600.0, {"n": 5}, {Resource.CPU: Scores(3.0, 1.0, 0.5, 2.0, 4.0)})},
    Forecast(NOW, 3600.0, {}, ["a"], {Resource.CPU: 1.0}, {}, {"n-sigma-v2": dict.fromkeys(Resource, 1.0)}),
)
WHOLE = Checkpoint(NODE_NAME, SAVED, MODELS, "mark", EVALUATION, CALIBRATION, {"vendor/a": b"state"})
DATA = checkpoint.encode(WHOLE)
CPU = MODELS.banks[Resource.CPU]
WEIGHT, _, _, FIRST, LAST, _, _ = CPU.columns[:, 0].tolist()
LARGEST = 1000 * float(BUCKETS[Resource.CPU].starts[-1])
CELLS = CPU.columns.shape[1] * len(BUCKETS[Resource.CPU].starts)
COLUMNS = ("weight", "mean", "m2", "first", "last", "recorded", "newest")
CENTURY = 3.2e9


def sealed(document):
    """Return bytes with a right checksum."""
    return DATA[:12] + zlib.crc32(document).to_bytes(4, "little") + document


def bank(resource=Resource.CPU, **changes):
    """Return a checkpoint in which a bank has other fields."""
    banks = {**MODELS.banks, resource: replace(MODELS.banks[resource], **changes)}
    return msgspec.structs.replace(WHOLE, models=replace(MODELS, banks=banks))


def row(number=0, resource=Resource.CPU, **changes):
    """Return a checkpoint in which a row of a bank has other values."""
    columns = MODELS.banks[resource].columns.copy()
    for name, value in changes.items():
        columns[COLUMNS.index(name), number] = value
    return bank(resource, columns=columns)


def cells(*numbers):
    return bank(cells=np.array(numbers, CPU.cells.dtype), cell_weights=np.ones(len(numbers)))


def pods(identities):
    """Return a checkpoint of pods with one sample each."""
    columns = np.repeat(np.array([[1.0], [1.0], [0.0], [NOW], [NOW], [0.0], [1.0]]), len(identities), axis=1)
    banks = {
        resource: replace(stored, columns=columns, cells=stored.cells[:0], cell_weights=stored.cell_weights[:0])
        for resource, stored in MODELS.banks.items()
    }
    keys = tuple(SeriesKey(SeriesKind.POD, identity) for identity in identities)
    return Checkpoint(NODE_NAME, NOW, replace(MODELS, keys=keys, banks=banks))


def shifted(seconds, saved):
    """Return the checkpoint of an agent whose clock is ahead, or behind."""
    banks = {}
    for resource, stored in MODELS.banks.items():
        columns = stored.columns.copy()
        columns[3:5] += seconds
        banks[resource] = replace(stored, columns=columns, reference_seconds=stored.reference_seconds + seconds)
    return Checkpoint(NODE_NAME, saved, replace(MODELS, banks=banks))


def changed(*path, to):
    """Return a checkpoint in which the value at a path has another value."""
    document = copy.deepcopy(WHOLE)
    holder = document
    for name in path[:-1]:
        holder = holder[name] if isinstance(holder, dict) else getattr(holder, name)
    if isinstance(holder, dict):
        holder[path[-1]] = to
    else:
        setattr(holder, path[-1], to)
    return document


def scores(**changes):
    return changed("evaluation", "records", "n-sigma-v2", "scores", Resource.CPU, to=Scores(
        **{"forecasts": 3.0, "violations": 1.0, "severities": 0.5, "peaks": 2.0, "requests": 4.0, **changes}
    ))  # fmt: skip


OF_CPU = "calibration", "resources", Resource.CPU
OF_FORECAST = "evaluation", "forecast"
BOUNDS = {
    "saved in the year 1653": (lambda by: shifted(-1e10 - FIRST, -1e10 - by), 1.0),
    "last sample in the year 9892": (lambda by: shifted(2.5e11 - LAST + by, 2.5e11), 1.0),
    "half-life of a second": (lambda by: bank(half_life_seconds=1 - by, reference_seconds=SAVED), 1e-9),
    "half-life of 300,000 years": (lambda by: bank(half_life_seconds=1e13 + by), 1.0),
    "reference a minute after the end": (lambda by: bank(reference_seconds=SAVED + 60 + by), 1.0),
    "reference 61 half-lives before": (lambda by: bank(reference_seconds=LAST - 61 * CPU.half_life_seconds - by), 1.0),
    "weight": (lambda by: row(weight=2.0**100 * (1 + by)), 1e-9),
    "cell weight of zero": (lambda by: bank(cell_weights=np.full_like(CPU.cell_weights, -by)), 1e-9),
    "cell weight": (lambda by: bank(cell_weights=np.full_like(CPU.cell_weights, 2.0**100 * (1 + by))), 1e-9),
    "last cell": (lambda by: cells(0, 1, CELLS - 1 + by), 1),
    "first cell": (lambda by: cells(-by, 1), 1),
    "cells in order": (lambda by: cells(3, 4 - by), 1),
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
    "rows": (lambda by: pods([str(number) for number in range(4096 + by)]), 1),
    "characters of a name": (lambda by: pods(["x" * (1024 + by), "y"]), 1),
}  # fmt: skip
"""Makes a checkpoint whose value is so far beyond a bound, and the smallest distance at which it is refused."""


@pytest.mark.parametrize(("made", "step"), BOUNDS.values(), ids=BOUNDS.keys())
def test_a_value_is_accepted_up_to_its_bound_and_refused_beyond_it(made, step):
    checkpoint.decode(checkpoint.encode(made(0)), NODE_NAME)
    with pytest.raises(Refused):
        checkpoint.decode(checkpoint.encode(made(step)), NODE_NAME)


WRONG = {
    "deep": sealed(b"\x91" * 200_000),
    "nothing": sealed(b""),
    "other buckets": checkpoint.encode(msgspec.structs.replace(WHOLE, buckets="others")),
    **{name: checkpoint.encode(document) for name, document in {
        "saved at NaN": msgspec.structs.replace(WHOLE, saved_seconds=math.nan),
        "half-life missing": bank(half_life_seconds=math.inf),
        "reference missing": bank(reference_seconds=math.nan),
        "no memory": msgspec.structs.replace(WHOLE, models=replace(MODELS, banks={Resource.CPU: CPU})),
        "a row less": bank(columns=CPU.columns[:, 1:]),
        "a column less": bank(columns=CPU.columns[1:]),
        "a cell weight less": bank(cell_weights=CPU.cell_weights[1:]),
        "cells of two dimensions": bank(cells=CPU.cells[None], cell_weights=CPU.cell_weights[None]),
        "other numbers": bank(columns=CPU.columns.astype(np.float32)),
        "a series twice": msgspec.structs.replace(
            WHOLE, models=replace(MODELS, keys=MODELS.keys[:1] * len(MODELS.keys))),
        "a container": msgspec.structs.replace(
            WHOLE, models=replace(MODELS, keys=(SeriesKey(SeriesKind.CONTAINER, "c"), *MODELS.keys[1:]))),
        "a cell weight NaN": bank(cell_weights=CPU.cell_weights * math.nan),
        "a weight infinite": row(weight=math.inf),
        "a mean NaN": row(mean=math.nan),
        "recorded NaN": row(recorded=math.nan),
        "newest value missing": row(newest=math.nan),
        "a weight without a sample": row(last=math.nan),
        "a last sample four centuries later": row(last=13.4e9),
        "a row without a sample": row(5, weight=0.0, first=math.nan, last=math.nan, recorded=0.0, newest=math.nan),
        "a newest value without a sample": row(5, Resource.MEMORY, newest=1.0),
        "recorded without a sample": row(5, Resource.MEMORY, recorded=60.5),
    }.items()},
}  # fmt: skip


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_an_agent_starts_without_history_from_values_that_no_agent_recorded_and_replaces_them(data, tmp_path):
    path = tmp_path / FILE_NAME
    path.write_bytes(data)
    server = PredictionServer(PredictParameters())
    checkpointer = Checkpointer(str(tmp_path), NODE_NAME, server)
    checkpointer.restore()
    assert checkpointer.problem_text.startswith(f"{path} is not used: ")
    assert len(checkpointer.problem_text) < 900
    server.train(NOW, SAMPLES)
    assert checkpoint.save(path, Checkpoint(NODE_NAME, NOW, server.export())) is None
    assert isinstance(checkpoint.load(path, NODE_NAME), Checkpoint)


WRONG_PARTS = {
    "a unit of zero": changed("calibration", "units", Resource.CPU, to=0.0),
    "a row of the calibration less": changed(*OF_CPU, "now", to=np.zeros(2)),
    "usage NaN": changed(*OF_CPU, "begin", to=CALIBRATION.resources[Resource.CPU].begin * math.nan),
    "rises of three days": changed(
        *OF_CPU, "rises", to=CALIBRATION.resources[Resource.CPU].rises[:, :3].copy()),
    "a day infinite": changed(*OF_CPU, "day_seconds", to=-math.inf),
    "scores of memory": changed(*OF_CPU, "scores", "resource", to=Resource.MEMORY),
    "labels without weights": changed(*OF_CPU, "scores", "labels", to=0),
    "a negative weight": changed(
        *OF_CPU, "scores", "weights", to=-CALIBRATION.resources[Resource.CPU].scores.weights),
    "scores NaN": scores(peaks=math.nan),
    "a peak of CPU alone": changed(*OF_FORECAST, "peaks", to={"a": {Resource.CPU: 1.0}}),
    "a request of zero": changed(*OF_FORECAST, "requested", to={Resource.CPU: 0.0}),
    "a capacity below zero": changed(*OF_FORECAST, "capacity", to={Resource.CPU: -1.0}),
    "a head beyond the ring": changed(*OF_CPU, "ring", "head", to=288),
    "33 predictors": changed(*OF_FORECAST, "peaks", to={
        f"p{number}": dict.fromkeys(Resource, 1.0) for number in range(33)}),
    "negative seconds": changed(*OF_FORECAST, "elapsed_seconds", to=-1e-9),
    "requests of zero": scores(requests=0.0),
    "more violations than forecasts": scores(violations=3.5),
    "more severe than violations": scores(severities=1.5),
    "a large state": changed("packages", "vendor/a", to=bytes(65_537)),
}  # fmt: skip


@pytest.mark.parametrize("document", WRONG_PARTS.values(), ids=WRONG_PARTS.keys())
def test_a_wrong_part_costs_itself_alone(document, caplog):
    stored = checkpoint.decode(checkpoint.encode(document), NODE_NAME)
    assert stored.models.keys == MODELS.keys
    (record,) = caplog.records
    assert "of the checkpoint is not used and begins again" in record.getMessage()
    assert [bool(part) for part in (stored.evaluation, stored.calibration, stored.packages)].count(False) == 1


def test_everything_survives_a_round_trip_to_the_last_bit():
    again = checkpoint.decode(DATA, NODE_NAME)
    written = checkpoint.encode(again)
    assert checkpoint.encode(checkpoint.decode(written, NODE_NAME)) == written
    assert (again.reset_mark, again.evaluation, again.packages) == ("mark", EVALUATION, {"vendor/a": b"state"})
    assert again.models.banks[Resource.CPU].columns.tobytes() == CPU.columns.tobytes()


def test_a_clock_far_in_the_future_is_that_of_all_samples():
    later = SAVED + 2 * CENTURY
    assert checkpoint.decode(checkpoint.encode(shifted(2 * CENTURY, later)), NODE_NAME).saved_seconds == later


def test_models_that_were_never_trained_or_were_reset_are_stored_too():
    untrained = Checkpoint(NODE_NAME, NOW, PredictionServer(PredictParameters()).export())
    assert checkpoint.decode(checkpoint.encode(untrained), NODE_NAME).models.keys == ()


def test_a_file_larger_than_any_checkpoint_is_not_read_to_its_end(tmp_path):
    path = tmp_path / FILE_NAME
    with path.open("wb") as file:
        file.write(DATA)
        file.truncate(1 << 40)
    assert "more than 33554432 bytes, want" in checkpoint.load(path, NODE_NAME).message


@given(st.lists(st.tuples(st.integers(0, len(DATA) - 17), st.integers(1, 255)), min_size=1, max_size=4))
def test_any_changed_byte_under_a_right_checksum_is_refused_or_harmless(changes):
    """Restore and train what is accepted. It must predict, and no peak may be absurd."""
    document = bytearray(DATA[16:])
    for position, change in changes:
        document[position] ^= change
    try:
        accepted = checkpoint.decode(sealed(bytes(document)), NODE_NAME)
    except Refused:
        return
    server = PredictionServer(PredictParameters())
    server.restore(accepted.models, accepted.calibration, accepted.packages)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for step in range(3):
            server.train(NOW + 300 + 30 * step, SAMPLES)
        for predictor in ("n-sigma-v2", "resource-central", "percentile"):
            parameters = PredictParameters(predictor=predictor)
            answer = server.predict(NOW + 360, [Pod("a")], CAPACITY, parameters, CAPACITY)
            if "koord-prod" in {key.identity for key in accepted.models.keys}:
                assert isinstance(answer, Prediction)
                assert 0 <= answer.prod_peak.cpu_millis <= CAPACITY.cpu_millis
                assert 0 <= answer.prod_peak.memory_bytes <= CAPACITY.memory_bytes
    again = checkpoint.encode(Checkpoint(NODE_NAME, NOW + 400, server.export()))
    assert checkpoint.decode(again, NODE_NAME).models.keys == server.export().keys
