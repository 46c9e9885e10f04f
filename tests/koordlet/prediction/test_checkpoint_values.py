"""Checkpoints with a right checksum and wrong values: a clean start with a reason, or models that predict."""

import json
import math
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction import checkpoint, checkpoint_format
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpoint_format import CheckpointError, Refusal, Stored
from koordlet.prediction.checkpointer import FILE_NAME, Checkpointer
from koordlet.prediction.histogram_bank import BankState
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.prediction.usage_models import ModelsState
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    RESOURCES,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKey,
    SeriesKind,
    UsageSample,
)
from tests.koordlet.prediction.pods import Pod

NODE_NAME = "node-1"
NOW = 1.7e9
PREFIX = struct.Struct("<8sIIQI")
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
DATA = checkpoint_format.encode(MODELS, NODE_NAME, NOW + 150)
HEADER_LENGTH = PREFIX.unpack_from(DATA)[2]
HEADER = json.loads(DATA[PREFIX.size : PREFIX.size + HEADER_LENGTH])
BODY = DATA[PREFIX.size + HEADER_LENGTH :]


def sealed(header, body=BODY):
    """Return a checkpoint with a right checksum."""
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = encoded + body
    return PREFIX.pack(b"koordprd", 2, len(encoded), len(body), zlib.crc32(content)) + content


def of_models(resource, **changes):
    """Return a checkpoint whose bank of a resource is changed."""
    changed = replace(MODELS.banks[resource], **changes)
    return checkpoint_format.encode(ModelsState(MODELS.keys, {**MODELS.banks, resource: changed}), NODE_NAME, NOW + 150)


def column_set(index, value, row=0, resource=Resource.CPU):
    columns = MODELS.banks[resource].columns.copy()
    columns[index, row] = value
    return of_models(resource, columns=columns)


def assert_a_clean_start_or_valid_models(data):
    """Decode; restore and train what is accepted. It must predict, and no peak may be absurd."""
    try:
        stored = checkpoint_format.decode(data, NODE_NAME)
    except CheckpointError:
        return
    assert isinstance(stored, Stored)
    server = PredictionServer(PredictParameters())
    server.restore(stored.models)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for step in range(3):
            server.train(NOW + 300 + 30 * step, SAMPLES)
        for predictor in ("n-sigma-v2", "resource-central", "percentile"):
            parameters = PredictParameters(predictor=predictor)
            answer = server.predict(NOW + 360, [Pod("a")], CAPACITY, parameters, CAPACITY)
            assert isinstance(answer, Prediction)
            assert 0 <= answer.prod_peak.cpu_millis <= CAPACITY.cpu_millis
            assert 0 <= answer.prod_peak.memory_bytes <= CAPACITY.memory_bytes
    data = checkpoint_format.encode(server.export(), NODE_NAME, NOW + 400)
    assert checkpoint_format.decode(data, NODE_NAME).models.keys == server.export().keys


def bank_header(**changes):
    return {**HEADER, "banks": {**HEADER["banks"], "cpu": {**HEADER["banks"]["cpu"], **changes}}}


WRONG = {
    "deep JSON": sealed(b"[" * 200_000 + b"]" * 200_000),
    "deep JSON in an unknown key": sealed(b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "saved at NaN": sealed({**HEADER, "savedAt": math.nan}),
    "saved at 1e20": sealed({**HEADER, "savedAt": 1e20}),
    "saved at null": sealed({**HEADER, "savedAt": None}),
    "half-life 0": sealed(bank_header(halfLifeSeconds=0)),
    "half-life negative": sealed(bank_header(halfLifeSeconds=-60)),
    "half-life missing": sealed(bank_header(halfLifeSeconds=None)),
    "half-life too long": sealed(bank_header(halfLifeSeconds=1e300)),
    "reference missing": sealed(bank_header(referenceSeconds=None)),
    "reference far in the future": sealed(bank_header(referenceSeconds=NOW + 1e8)),
    "reference far in the past": sealed(bank_header(referenceSeconds=NOW - 1e8)),
    "carried weight negative": sealed(bank_header(carriedWeight=-1)),
    "cells negative": sealed(bank_header(cells=-1)),
    "cells a text": sealed(bank_header(cells="all")),
    "a series twice": sealed({**HEADER, "rows": [HEADER["rows"][0]] * len(HEADER["rows"])}),
    "a container": sealed({**HEADER, "rows": [["container", "c"], *HEADER["rows"][1:]]}),
    "a name without end": sealed({**HEADER, "rows": [["pod", "x" * 5000], *HEADER["rows"][1:]]}),
    "all bytes 1": sealed(HEADER, b"\xff" * len(BODY)),
    "a cell twice": of_models(Resource.CPU, cells=np.zeros_like(MODELS.banks[Resource.CPU].cells)),
    "a cell weight NaN": of_models(Resource.CPU, cell_weights=MODELS.banks[Resource.CPU].cell_weights * math.nan),
    "a cell weight negative": of_models(Resource.CPU, cell_weights=-MODELS.banks[Resource.CPU].cell_weights),
    "a weight infinite": column_set(0, math.inf),
    "a weight negative": column_set(0, -1.0),
    "a mean NaN": column_set(1, math.nan),
    "a mean negative": column_set(1, -1e300),
    "a mean huge": column_set(1, 1e300),
    "M2 negative": column_set(2, -1.0),
    "M2 beyond any deviation": column_set(2, 1e300),
    "a first sample after the last": column_set(3, NOW + 1e6),
    "a last sample in the year 1e6": column_set(4, 3e13),
    "a last sample four centuries later": column_set(4, 13.4e9),
    "a weight without a sample": column_set(4, math.nan),
    "more recorded than passed": column_set(5, 7200.0),
    "recorded NaN": column_set(5, math.nan),
    "recorded negative": column_set(5, -1.0),
    "recorded without a sample": column_set(5, 60.5, 5, Resource.MEMORY),
    "newest value negative": column_set(6, -1.0),
    "newest value missing": column_set(6, math.nan),
    "newest value of a series without a sample": column_set(6, math.inf, 5, Resource.MEMORY),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_values_that_no_agent_recorded_are_refused(data):
    with pytest.raises(CheckpointError) as caught:
        checkpoint_format.decode(data, NODE_NAME)
    assert caught.value.refusal is Refusal.CORRUPT
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_an_agent_starts_without_history_from_such_a_file_and_replaces_it(data, tmp_path):
    path = tmp_path / FILE_NAME
    path.write_bytes(data)
    server = PredictionServer(PredictParameters())
    checkpointer = Checkpointer(str(tmp_path), NODE_NAME, server)
    checkpointer.restore()
    assert checkpointer.problem.reason == Refusal.CORRUPT
    assert str(path) in checkpointer.problem_text
    server.train(NOW, SAMPLES)
    assert checkpoint.save(path, server.export(), NODE_NAME, NOW) is None
    assert isinstance(checkpoint.load(path, NODE_NAME), Stored)


def test_a_file_larger_than_any_checkpoint_is_not_read_to_its_end(tmp_path):
    path = tmp_path / FILE_NAME
    with path.open("wb") as file:
        file.write(DATA)
        file.truncate(1 << 40)
    assert "more than 33554432 bytes, want" in checkpoint.load(path, NODE_NAME).message


def test_models_that_were_never_trained_or_were_reset_are_stored_too():
    stored = checkpoint_format.decode(checkpoint_format.encode(UNTRAINED, NODE_NAME, NOW), NODE_NAME)
    assert stored.models.keys == ()
    assert stored.models.banks[Resource.CPU].half_life_seconds == math.inf


UNTRAINED = PredictionServer(PredictParameters()).export()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths_of(value, path=()):
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths_of(value[key], (*path, key))


def with_value_at(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value_at(copy[path[0]], path[1:], new)
    return copy


@given(st.sampled_from(list(paths_of(HEADER))), json_values)
def test_any_value_in_the_header_is_refused_or_harmless(path, new):
    assert_a_clean_start_or_valid_models(sealed(with_value_at(HEADER, path, new)))


@given(st.integers(0, len(BODY) // 8 - 1), st.floats() | st.sampled_from([1e9, 2.0**60, 2.0**100, 1e-320, 0.0, NOW]))
def test_any_number_in_the_body_is_refused_or_harmless(index, number):
    cells = [4 * len(MODELS.banks[resource].cells) for resource in RESOURCES]
    body = bytearray(BODY)
    offset = 8 * index + cells[0] % 8  # aligned with the columns of the first bank
    body[offset : offset + 8] = struct.pack("<d", number)
    assert_a_clean_start_or_valid_models(sealed(HEADER, bytes(body[: len(BODY)])))


@given(st.lists(st.tuples(st.integers(0, len(DATA) - PREFIX.size - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_any_changed_byte_under_a_right_checksum_is_refused_or_harmless(changes):
    content = bytearray(DATA[PREFIX.size :])
    for position, change in changes:
        content[position] ^= change
    assert_a_clean_start_or_valid_models(sealed(bytes(content[:HEADER_LENGTH]), bytes(content[HEADER_LENGTH:])))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.floats(0, 1e18)), min_size=1, max_size=5))
def test_any_column_is_refused_or_harmless(changes):
    columns = MODELS.banks[Resource.MEMORY].columns.copy()
    for column, row, value in changes:
        columns[column, row] = value
    state: BankState = replace(MODELS.banks[Resource.MEMORY], columns=columns)
    models = ModelsState(MODELS.keys, {**MODELS.banks, Resource.MEMORY: state})
    assert_a_clean_start_or_valid_models(checkpoint_format.encode(models, NODE_NAME, NOW + 150))
