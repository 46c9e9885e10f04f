"""Refused bytes and their reasons. The round trip of contents is tested through files (test_checkpoint)."""

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction import checkpoint_format
from koordlet.prediction.checkpoint_format import CheckpointError, Refusal
from koordlet.prediction.usage_models import UsageModels
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind, UsageSample

NOW = 1.7e9
HALF_LIVES = {Resource.CPU: 43_200.0, Resource.MEMORY: 86_400.0}
PREFIX_LENGTH = 28


def models():
    trained = UsageModels()
    for step in range(3):
        samples = {
            NODE: UsageSample(1.0 + step, 1e9),
            SYSTEM: UsageSample(0.1, 1e8),
            SeriesKey(SeriesKind.POD, "a"): UsageSample(step, 5e8),
        }
        trained.train(NOW + 30 * step, samples, HALF_LIVES)
    return trained.export()


DATA = checkpoint_format.encode(models(), "node-1", NOW + 60)


def refusal_of(data, node="node-1"):
    with pytest.raises(CheckpointError) as caught:
        checkpoint_format.decode(data, node)
    return caught.value.refusal, str(caught.value)


def with_header(change):
    """Return the same checkpoint with a changed header and a matching checksum."""
    _, version, header_length, body_length, _ = struct.unpack_from("<8sIIQI", DATA)
    header = json.loads(DATA[PREFIX_LENGTH : PREFIX_LENGTH + header_length])
    change(header)
    encoded = json.dumps(header).encode()
    content = encoded + DATA[PREFIX_LENGTH + header_length :]
    prefix = struct.pack("<8sIIQI", b"koordprd", version, len(encoded), body_length, zlib.crc32(content))
    return prefix + content


def test_content_comes_back_as_it_was_given():
    stored, given_models = checkpoint_format.decode(DATA, "node-1"), models()
    assert stored.saved_seconds == NOW + 60
    assert stored.models.keys == given_models.keys
    for resource, bank in given_models.banks.items():
        back = stored.models.banks[resource]
        assert (back.half_life_seconds, back.reference_seconds) == (bank.half_life_seconds, bank.reference_seconds)
        for name in ("cells", "cell_weights", "columns"):
            np.testing.assert_array_equal(getattr(back, name), getattr(bank, name))


def test_the_state_of_the_evaluation_comes_back_and_may_be_missing():
    stored = b'{"records":{},"savedSeconds":1.5}'
    data = checkpoint_format.encode(models(), "node-1", NOW, evaluation=stored)
    assert checkpoint_format.decode(data, "node-1").evaluation == stored
    assert (
        checkpoint_format.decode(with_header(lambda header: header.pop("evaluation")), "node-1").evaluation == b"null"
    )


def test_the_weight_carried_is_that_of_series_that_never_expire_now():
    """Node and system, three samples each, a day after the last one: CPU two half-lives, memory one."""
    weight = checkpoint_format.carried_weight(models(), NOW + 60 + 86_400)
    assert weight[Resource.CPU] == pytest.approx(2 * 3 / 4, rel=2e-3)
    assert weight[Resource.MEMORY] == pytest.approx(2 * 3 / 2, rel=2e-3)


@pytest.mark.parametrize(
    ("data", "refusal", "text"),
    [
        (b"", Refusal.TRUNCATED, "0 bytes, want 28 and more"),
        (DATA[:20], Refusal.TRUNCATED, "20 bytes, want 28 and more"),
        (DATA[:-1], Refusal.TRUNCATED, f"{len(DATA) - 1} bytes, want {len(DATA)}"),
        (DATA + b"x", Refusal.CORRUPT, "checksum"),
        (b"PK\x03\x04" + DATA, Refusal.NOT_A_CHECKPOINT, "begins with b'PK"),
        (
            b"koordprd" + struct.pack("<I", 4) + DATA[12:],
            Refusal.OTHER_VERSION,
            "version 4, this agent reads versions 2 and 3",
        ),
        (
            b"koordprd" + struct.pack("<I", 1) + DATA[12:],
            Refusal.OTHER_VERSION,
            "version 1, this agent reads versions 2 and 3",
        ),
    ],
    ids=["empty", "cut in the prefix", "cut at the end", "too long", "another file", "future version", "older version"],
)
def test_incomplete_checkpoints_are_refused(data, refusal, text):
    found, message = refusal_of(data)
    assert found is refusal
    assert text in message


@given(st.integers(PREFIX_LENGTH, len(DATA) - 1), st.integers(1, 255))
def test_any_changed_byte_is_found(position, change):
    data = bytearray(DATA)
    data[position] ^= change
    assert refusal_of(bytes(data))[0] is Refusal.CORRUPT


@given(st.integers(0, len(DATA) - 1))
def test_any_truncation_is_refused(length):
    assert refusal_of(DATA[:length])[0] is Refusal.TRUNCATED


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_and_never_crash_the_reader(data):
    refusal_of(data)
    refusal_of(b"koordprd" + data)


def test_a_checkpoint_of_another_node_is_refused():
    assert refusal_of(DATA, "node-2") == (Refusal.FOREIGN_NODE, "belongs to node 'node-1', this is 'node-2'")


def test_other_buckets_are_refused():
    def change(header):
        header["banks"]["cpu"]["buckets"] = "ExponentialBuckets(max_value=1024, first_bucket_size=0.025, ...)"

    found, message = refusal_of(with_header(change))
    assert found is Refusal.OTHER_BUCKETS
    assert "cpu has ExponentialBuckets(max_value=1024, first_bucket_size=0.025, ...), want" in message


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("rows"),
        lambda header: header["rows"].pop(),
        lambda header: header["rows"].append(["pod", "b"]),
        lambda header: header["rows"].append(["planet", "b"]),
        lambda header: header.update(rows=7),
        lambda header: header.update(rows=[]),
        lambda header: header["banks"]["memory"].update(halfLifeSeconds="long"),
        lambda header: header["banks"]["memory"].update(cells=10**9),
        lambda header: header["banks"]["memory"].update(cells=1),
        lambda header: header["banks"].pop("cpu"),
    ],
)
def test_a_header_that_does_not_fit_its_body_is_corrupt_even_with_a_right_checksum(change):
    assert refusal_of(with_header(change))[0] is Refusal.CORRUPT
