"""The calibration in the checkpoint: kept over a restart, and never worth the history of the node."""

import struct
import zlib

import pytest

from koordlet.prediction import checkpoint, checkpoint_format
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.server import PredictionServer
from tests.koordlet.prediction import test_calibrated_server as a_node

NAME = "node-1"


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


def test_a_checkpoint_of_the_version_before_is_read():
    models = a_node.known().server.export()
    data = bytearray(checkpoint_format.encode(models, NAME, a_node.START))
    data[8:12] = struct.pack("<I", 2)
    found = checkpoint_format.decode(bytes(data), NAME)
    assert found.models.keys == models.keys
    assert found.calibration == b""


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
