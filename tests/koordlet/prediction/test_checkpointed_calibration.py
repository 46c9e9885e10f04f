"""The calibration in the checkpoint: kept over a restart, and never worth the history of the node."""

import logging
import pathlib
import shutil
import struct
import zlib

import pytest

from koordlet.prediction import checkpoint, checkpoint_format
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from tests.koordlet.prediction import test_calibrated_server as a_node

NAME = "node-1"
DAY_SECONDS = 86_400
VERSION_2 = pathlib.Path(__file__).parent / "checkpoints" / "version-2.checkpoint"
"""A day of the node of `test_calibrated_server`, trained and saved by the code of commit 46590698."""


def checkpointer(folder, server):
    return Checkpointer(str(folder), NAME, server)


async def saved(folder):
    node = a_node.known()
    await checkpointer(folder, node.server).save()
    return node


def restarted(folder):
    server = PredictionServer(a_node.CALIBRATED, training_interval_seconds=a_node.STEP_SECONDS)
    found = checkpointer(folder, server)
    found.restore()
    assert found.problem_text is None
    return server


async def test_a_restarted_agent_continues(tmp_path):
    node = await saved(tmp_path)
    server = restarted(tmp_path)
    assert server.calibration.labels() == a_node.labels(node)
    assert server.predict(node.now, a_node.PODS, a_node.ALLOCATABLE, None, a_node.CAPACITY) == node.predict()


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"", lambda data: b"\x00" * len(data)])
async def test_a_damaged_calibration_costs_no_history(tmp_path, damage, caplog):
    node = await saved(tmp_path)
    stored = checkpoint.load(tmp_path / "prediction.checkpoint", NAME)
    assert checkpoint.save(
        tmp_path / "prediction.checkpoint", stored.models, NAME, node.now, calibration=damage(stored.calibration)
    ) is None  # fmt: skip
    server = restarted(tmp_path)
    assert server.calibration.labels() == {}
    assert server.export().keys == stored.models.keys
    if damage(b"x" * 20):
        assert "the calibration is not used and begins again" in caplog.text


def test_a_checkpoint_of_the_version_before_is_read(tmp_path, caplog):
    """The file was written by the last code of version 2, and the expected peaks are those that this code predicted."""
    shutil.copy(VERSION_2, tmp_path / "prediction.checkpoint")
    server = PredictionServer(PredictParameters(), training_interval_seconds=a_node.STEP_SECONDS)
    found = checkpointer(tmp_path, server)
    with caplog.at_level(logging.WARNING):
        found.restore()
    assert (found.problem_text, caplog.text) == (None, "")
    assert found.written_seconds == a_node.START + DAY_SECONDS
    assert found._reset_mark == "2026-11-21"
    assert server.calibration.labels() == {}
    for predictor, peak in (("n-sigma-v2", (7534, 17_619_304_012)), ("percentile", (5716, 19_726_515_034))):
        made = server.predict(
            a_node.START + DAY_SECONDS, a_node.PODS, a_node.ALLOCATABLE,
            PredictParameters(predictor=predictor), a_node.CAPACITY,
        )  # fmt: skip
        assert (made.prod_peak, made.warm_pods, made.cold_pods) == (peak, 4, 0)
        assert made.since_seconds == a_node.START + a_node.STEP_SECONDS


async def test_a_checkpoint_of_the_version_before_is_replaced_by_one_of_this_version(tmp_path):
    path = tmp_path / "prediction.checkpoint"
    shutil.copy(VERSION_2, path)
    before = checkpoint.load(path, NAME)
    server = PredictionServer(PredictParameters(), training_interval_seconds=a_node.STEP_SECONDS)
    found = checkpointer(tmp_path, server)
    found.restore()
    assert stored_version(path) == 2
    await found.save()
    assert found.problem_text is None
    assert stored_version(path) == checkpoint_format.VERSION
    assert checkpoint.load(path, NAME).models.keys == before.models.keys


def stored_version(path):
    return struct.unpack_from("<I", path.read_bytes(), 8)[0]


@pytest.mark.parametrize("claimed", [-1, 10**9])
def test_an_impossible_length_is_refused(claimed):
    data = checkpoint_format.encode(a_node.known().server.export(), NAME, a_node.START)
    prefix = struct.Struct("<8sIIQI")
    magic, version, header_length, body_length, _ = prefix.unpack_from(data)
    header = data[prefix.size : prefix.size + header_length].replace(
        b'"calibrationBytes":0', b'"calibrationBytes":' + str(claimed).encode()
    )
    content = header + data[prefix.size + header_length :]
    changed = prefix.pack(magic, version, len(header), body_length, zlib.crc32(content)) + content
    with pytest.raises(checkpoint_format.CheckpointError, match="calibration"):
        checkpoint_format.decode(changed, NAME)


async def test_a_reset_forgets_it(tmp_path):
    node = await saved(tmp_path)
    server = restarted(tmp_path)
    resetting = checkpointer(tmp_path, server)
    resetting.handle_reset("now")
    await resetting.save()
    assert checkpoint.load(tmp_path / "prediction.checkpoint", NAME).calibration == b""
    assert a_node.labels(node)
