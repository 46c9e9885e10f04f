"""The checkpointer across restarts: every error is reported with its path and stops nothing; a reset is done once."""

import asyncio
import contextlib
import os
import pathlib
import stat
import struct
import threading
import time

import prometheus_client
import pytest

from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import NoCluster
from koordlet.prediction import checkpoint, checkpointer
from koordlet.prediction.checkpoint import Checkpoint
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.packages.guard import MOST_STATE_BYTES, GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.report.builder import ReportBuilder
from koordlet.samples import NODE, UsageSample
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.prediction.calibration import test_node_calibration as a_node

NODE_NAME = "node-1"
FILE = "prediction.checkpoint"
NOW = time.time()


def learnt(rounds=3, end=NOW):
    server = PredictionServer(PredictParameters())
    for step in range(rounds):
        server.train(end - 30 * (rounds - 1 - step), {NODE: UsageSample(1.0, 1e9)})
    return server


def restored(folder, server=None):
    saved = Checkpointer(str(folder), NODE_NAME, server or PredictionServer(PredictParameters()))
    saved.restore()
    return saved


def series(saved):
    return checkpoint.load(saved.path, NODE_NAME).models.keys


# Faults


def good_bytes(folder, node_name=NODE_NAME, saved_seconds=NOW):
    path = folder / "elsewhere"
    assert checkpoint.save(path, Checkpoint(node_name, saved_seconds, learnt().export())) is None
    data = path.read_bytes()
    path.unlink()
    return data


def of_version(data, version):
    return data[:8] + struct.pack("<I", version) + data[12:]


UNREADABLE = {
    "corrupt": (lambda folder: good_bytes(folder)[:-3] + b"bad", "checksum"),
    "truncated": (lambda folder: good_bytes(folder)[:-3], "damaged or cut off"),
    "foreign": (lambda folder: good_bytes(folder, "node-2"), "belongs to node 'node-2', this is 'node-1'"),
    "future version": (lambda folder: of_version(good_bytes(folder), 99), "version 99, this agent reads version 4"),
    "something else": (lambda _folder: b"hello", "begin with b'hello'"),
}


def degraded(state_dir, tmp_path, before_save=lambda: None):
    """Return the PredictionDegraded condition of an agent with this state folder, after one training."""
    host = PlainHost(tmp_path / "host")
    host.set_node(1000, 1 << 30)
    observer = node_observer.NodeObserver(tmp_path / "host", 100)
    settings = KoordletSettings(node_name=NODE_NAME, state_dir=str(state_dir))
    agent = Agent(settings, observer, prometheus_client.CollectorRegistry())
    agent.checkpointer.restore()
    cluster = NoCluster(observer.machine_capacity())
    policy = spec_in_force.predict_policy(None)
    for second in range(3):
        observer.observe(NOW + second, cluster)
    observer.train(NOW + 2, spec_in_force.predict_parameters(policy))
    before_save()
    asyncio.run(agent.checkpointer.save())
    reports = ReportBuilder(observer)
    forecast = reports.predict(NOW + 2, cluster, policy)
    found = reports.build(forecast, cluster, agent.checkpointer.problem_text).conditions
    observer.collector.close()
    return agent, next(each for each in found if each.type == "PredictionDegraded")


@pytest.mark.parametrize(("content", "detail"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unusable_file_starts_without_history_and_is_reported_with_its_path(tmp_path, content, detail):
    path = tmp_path / FILE
    path.write_bytes(content(tmp_path))
    saved = restored(tmp_path)
    assert saved.problem_text.startswith(f"{path} is not used: ")
    assert detail in saved.problem_text
    assert saved.written_seconds is None
    agent, condition = degraded(tmp_path, tmp_path / "other")
    assert (condition.status, condition.reason) == ("False", "Predicting")  # replaced by a valid one
    assert checkpoint.load(path, NODE_NAME).saved_seconds == agent.checkpointer.written_seconds


def full_disk(folder):
    (folder / f"{FILE}.tmp").symlink_to("/dev/full")
    return folder


def file_as_folder(folder):
    (folder / "file").write_text("")
    return folder / "file"


def read_only_folder(_folder):
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _device, place, _type, options, *_ = line.split()
        if "ro" in options.split(",") and pathlib.Path(place).is_dir():
            return pathlib.Path(place)
    pytest.skip("nothing is mounted read-only here")


UNWRITABLE = pytest.mark.parametrize(
    ("prepare", "detail"),
    [
        (full_disk, "No space left on device"),
        (file_as_folder, "Not a directory"),
        (lambda folder: folder / "absent", "No such file or directory"),
        (read_only_folder, "Read-only file system"),
    ],
)


@UNWRITABLE
def test_an_unwritable_folder_is_reported_at_start(tmp_path, prepare, detail, caplog):
    state_dir = prepare(tmp_path)
    saved = restored(state_dir)
    assert str(state_dir / FILE) in saved.problem_text
    assert saved.problem_text.count(detail) == 1
    assert [detail in record.message for record in caplog.records if record.levelname == "WARNING"] == [True]
    assert (saved.writes, saved.failures) == (0, 0)


@contextlib.contextmanager
def another_user():
    """Return a user without rights: root may write everywhere, and the agent is not root."""
    own = os.geteuid()
    os.seteuid(65532 if own == 0 else own)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_folder_of_another_user_is_reported_at_start_with_the_fix(tmp_path):
    (tmp_path / "forbidden").mkdir(mode=0o500)
    with another_user():
        problem = restored(tmp_path / "forbidden").problem_text
    assert str(tmp_path / "forbidden" / FILE) in problem
    assert "Permission denied" in problem
    assert "give the folder to the agent's user" in problem


def test_an_unreadable_file_in_an_unwritable_folder_reports_both(tmp_path):
    (tmp_path / FILE).write_bytes(b"hello")
    full_disk(tmp_path)
    problem = restored(tmp_path).problem_text
    assert "begin with b'hello'" in problem
    assert "No space left on device" in problem


@UNWRITABLE
def test_an_unwritable_folder_keeps_history_in_memory_only(tmp_path, prepare, detail):
    state_dir = prepare(tmp_path)
    fill_again = (lambda: full_disk(tmp_path)) if prepare is full_disk else (lambda: None)
    agent, condition = degraded(state_dir, tmp_path / "other", fill_again)
    assert (condition.status, condition.reason) == ("True", "HistoryInMemoryOnly")
    assert str(state_dir / FILE) in condition.message
    assert detail in condition.message
    assert (agent.checkpointer.writes, agent.checkpointer.failures) == (0, 1)
    assert agent.observer.server.export().keys  # the models are still there


def test_a_checkpoint_from_the_future_is_loaded_and_its_samples_keep_their_age(tmp_path):
    """The clock was set back: stored samples are not younger than before."""
    day, now = 86_400.0, time.time()  # a slow run imports this module minutes earlier
    ahead = learnt(rounds=100, end=now + day)
    checkpoint.save(tmp_path / FILE, Checkpoint(NODE_NAME, now + day, ahead.export()))
    server = PredictionServer(PredictParameters())
    saved = restored(tmp_path, server)
    assert saved.problem_text is None
    server.train(now, {NODE: UsageSample(1.0, 1e9)})
    asyncio.run(saved.save())
    assert (saved.problem_text, saved.failures) == (None, 0)
    first, last = (float(server.export().banks["cpu"].columns[row, 0]) for row in (3, 4))
    assert last == now
    assert last - first == pytest.approx(99 * 30, abs=31)


async def test_the_last_write_waits_for_a_cancelled_one(tmp_path, monkeypatch):
    """SIGTERM while a slow disk writes a checkpoint: both use the same temporary file."""
    saved = restored(tmp_path, learnt())
    is_writing, both_write, is_written = (threading.Event() for _ in range(3))
    to_disk = os.fsync

    def slow(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):  # the folder's, after the temporary file was renamed
            is_written.set()
        elif not is_writing.is_set():
            is_writing.set()
            both_write.wait(0.2)
        else:
            both_write.set()
            is_written.wait(5.0)
        to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    periodic = asyncio.create_task(saved.save())
    await asyncio.to_thread(is_writing.wait)
    periodic.cancel()
    await asyncio.gather(periodic, return_exceptions=True)
    await saved.save()
    assert (saved.problem, saved.writes) == (None, 1)
    assert series(saved) == (NODE,)


class Unwilling(PredictionServer):
    """Fails the first time."""

    asked = 0

    def export(self):
        self.asked += 1
        if self.asked == 1:
            raise ArithmeticError("for once")
        return learnt().export()


async def test_an_error_in_one_write_does_not_end_the_next(tmp_path, caplog):
    saved = restored(tmp_path, Unwilling(PredictParameters()))
    running = asyncio.create_task(saved.run(0.001))
    async with asyncio.timeout(10):
        while not (saved.writes or running.done()):
            await asyncio.sleep(0.002)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (saved.failures, series(saved)) == (1, (NODE,))
    assert "checkpoint failed unexpectedly" in caplog.text


# Reset


def test_a_reset_request_is_handled_once_and_replaces_a_richer_checkpoint(tmp_path):
    checkpoint.save(tmp_path / FILE, Checkpoint(NODE_NAME, NOW, learnt(rounds=500).export()))
    server = PredictionServer(PredictParameters())
    saved = restored(tmp_path, server)
    assert server.export().keys
    saved.handle_reset("2026-11-21")
    assert not server.export().keys
    asyncio.run(saved.save())
    assert series(saved) == ()
    server.train(NOW + 30, {NODE: UsageSample(2.0, 1e9)})
    saved.handle_reset("2026-11-21")
    assert server.export().keys == (NODE,)


def test_a_handled_reset_request_is_remembered_across_restarts_and_a_new_one_is_handled(tmp_path):
    saved = restored(tmp_path, learnt())
    saved.handle_reset("once")
    asyncio.run(saved.save())
    again = PredictionServer(PredictParameters())
    saved = restored(tmp_path, again)
    again.train(NOW, {NODE: UsageSample(1.0, 1e9)})
    saved.handle_reset("once")
    assert again.export().keys
    saved.handle_reset("")  # the annotation is gone
    assert again.export().keys
    saved.handle_reset("twice")
    assert not again.export().keys


def test_a_reset_that_could_not_be_written_is_written_when_it_can(tmp_path):
    checkpoint.save(tmp_path / FILE, Checkpoint(NODE_NAME, NOW, learnt(rounds=500).export()))
    saved = restored(tmp_path)
    saved.handle_reset("now")
    full_disk(tmp_path)
    asyncio.run(saved.save())
    assert "No space left" in saved.problem_text
    asyncio.run(saved.save())  # the temporary file is removed after the failure
    assert saved.problem_text is None
    assert series(saved) == ()


def test_an_old_reset_request_does_not_erase_an_unreadable_checkpoint(tmp_path):
    (tmp_path / FILE).mkdir()
    server = learnt()
    saved = restored(tmp_path, server)
    saved.handle_reset("long ago")
    assert server.export().keys
    saved.handle_reset("just now")
    assert not server.export().keys


async def test_a_reset_is_written_at_once(tmp_path):
    saved = restored(tmp_path, learnt())
    running = asyncio.create_task(saved.run(3600.0))
    await asyncio.sleep(0)
    saved.handle_reset("now")
    async with asyncio.timeout(10):
        while not saved.writes:
            await asyncio.sleep(0.002)
    running.cancel()
    assert checkpointer.FILE_NAME == FILE
    assert series(saved) == ()


# Calibration and packages


async def test_a_restarted_agent_continues_its_calibration_and_a_reset_forgets_it(tmp_path):
    node = a_node.known()
    await Checkpointer(str(tmp_path), NODE_NAME, node.server).save()
    server = PredictionServer(a_node.CALIBRATED, training_interval_seconds=a_node.STEP_SECONDS)
    saved = restored(tmp_path, server)
    assert saved.problem_text is None
    assert server.calibration.labels() == a_node.labels(node)
    assert server.predict(node.now, a_node.PODS, a_node.ALLOCATABLE, None, a_node.CAPACITY) == node.predict()
    saved.handle_reset("now")
    await saved.save()
    assert checkpoint.load(saved.path, NODE_NAME).calibration is None


class Keeps:
    """A predictor whose state is what it was given."""

    def __init__(self):
        self.state = b"new"

    def predict(self, _load):
        return 1.0

    def save(self):
        return self.state

    def restore(self, state):
        if state == b"refused":
            raise SystemExit(1)
        self.state = state


def with_packages(*names):
    """Return a server with a predictor of each name, the objects that were built for each, and the warnings."""
    warnings = []
    built = {name: [] for name in names}

    def building(name):
        return lambda: built[name].append(Keeps()) or built[name][-1]

    predictors = [GuardedPredictor(name, building(name), lambda: 0.0, warnings.append) for name in names]
    server = PredictionServer(PredictParameters(), packages=LoadedPredictors("n1", predictors))
    server.train(NOW, {NODE: UsageSample(1.0, 1e9)})
    return server, built, warnings


def test_states_survive_a_restart_and_that_of_a_removed_package_is_dropped_quietly(tmp_path, caplog):
    server, built, _ = with_packages("kept", "removed", "refusing")
    built["kept"][0].state, built["removed"][0].state, built["refusing"][0].state = b"k", b"r", b"refused"
    asyncio.run(Checkpointer(str(tmp_path), NODE_NAME, server).save())
    after, built, warnings = with_packages("kept", "added", "refusing")
    after.forget()
    saved = restored(tmp_path, after)
    assert [built[name][-1].state for name in ("kept", "added", "refusing")] == [b"k", b"new", b"new"]
    assert (len(warnings), caplog.records, saved.problem) == (1, [], None)
    assert len(after.export().keys) == 1


def test_states_that_are_too_large_together_are_left_out_and_logged_once(tmp_path):
    server, built, warnings = with_packages(*(f"p{number}" for number in range(5)))
    for objects in built.values():
        objects[0].state = bytes(MOST_STATE_BYTES)
    saved = Checkpointer(str(tmp_path), NODE_NAME, server)
    for _ in range(2):
        asyncio.run(saved.save())
    (warning,) = warnings
    assert warning.startswith("predictor p4: its state has 65536 bytes, want at most 0: it is not stored")
    assert set(checkpoint.load(saved.path, NODE_NAME).packages) == {"p0", "p1", "p2", "p3"}
