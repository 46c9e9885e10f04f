"""States of package predictors in the checkpoint: one that is unreadable costs itself alone."""

import asyncio
import logging
import time

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction import checkpoint, checkpoint_format
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.packages import states
from koordlet.prediction.packages.guard import MOST_STATE_BYTES, GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from tests.koordlet.prediction.test_server import NOW, START, train


@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=100), max_size=5))
def test_what_is_stored_is_restored(saved):
    encoded, left_out = states.encode(saved)
    assert states.decode(encoded) == (saved, [])
    assert left_out == []


@given(st.binary(max_size=60))
def test_foreign_bytes_are_problems_and_no_error(stored):
    states.decode(stored)


def test_one_unreadable_state_costs_only_itself():
    stored = msgspec.json.encode({"a": b"abc", "bad": 7, "worse": "no base64!", "c": b"", "large": bytes(1 << 17)})
    found, problems = states.decode(stored)
    assert found == {"a": b"abc", "c": b""}
    assert [each.partition(":")[0].partition(" has")[0] for each in problems] == [
        "the state of 'bad'", "the state of 'worse'", "the state of 'large'",
    ]  # fmt: skip


def test_the_states_are_bounded_together():
    largest = bytes(MOST_STATE_BYTES)
    encoded, left_out = states.encode({**{f"p{n}": largest for n in range(5)}, "small": b""})
    assert left_out == ["p4"]
    assert set(states.decode(encoded)[0]) == {"p0", "p1", "p2", "p3", "small"}


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


def server_with(*names):
    warnings = []
    built = {name: [] for name in names}

    def building(name):
        return lambda: built[name].append(Keeps()) or built[name][-1]

    predictors = [GuardedPredictor(name, building(name), lambda: 0.0, warnings.append) for name in names]
    server = PredictionServer(PredictParameters(), packages=LoadedPredictors("n1", predictors))
    return server, built, warnings


def stored_by(tmp_path, packages):
    """Write a checkpoint of now with these package states."""
    server, _, _ = server_with()
    train(server, time.time() - 30, {"old": 1.0})
    path = tmp_path / "prediction.checkpoint"
    assert checkpoint.save(path, server.export(), "n1", time.time(), packages=packages) is None
    return path


def test_states_survive_a_restart_and_that_of_a_removed_package_is_dropped_quietly(tmp_path, caplog):
    server, built, _ = server_with("kept", "removed")
    train(server, time.time() - 30, {"old": 1.0})
    built["kept"][0].state, built["removed"][0].state = b"k", b"r"
    asyncio.run(Checkpointer(str(tmp_path), "n1", server).save())
    after, built, warnings = server_with("kept", "added")
    with caplog.at_level(logging.WARNING):
        checkpointer = Checkpointer(str(tmp_path), "n1", after)
        checkpointer.restore()
    assert (built["kept"][-1].state, built["added"][-1].state) == (b"k", b"new")
    assert (warnings, caplog.records, checkpointer.problem) == ([], [], None)
    assert len(after.export().keys) == len(server.export().keys)


def test_unreadable_and_refused_states_cost_only_themselves(tmp_path, caplog):
    stored_by(tmp_path, msgspec.json.encode({"good": b"g", "bad": 7, "refusing": b"refused"}))
    server, built, warnings = server_with("good", "bad", "refusing")
    with caplog.at_level(logging.WARNING):
        Checkpointer(str(tmp_path), "n1", server).restore()
    assert [built[name][-1].state for name in ("good", "bad", "refusing")] == [b"g", b"new", b"new"]
    assert len(server.export().keys) > 0
    assert [record.getMessage().partition("checkpoint: ")[2][:20] for record in caplog.records] == [
        "the state of 'bad': "
    ]
    assert len(warnings) == 1
    assert all(each.off_reason is None for each in server.packages.by_name.values())


def test_a_checkpoint_of_before_has_no_states():
    server, _, _ = server_with()
    train(server, START, {"old": 1.0})
    encoded = checkpoint_format.encode(server.export(), "n1", NOW)
    assert states.decode(checkpoint_format.decode(encoded, "n1").packages) == ({}, [])


def test_a_reset_begins_without_states():
    server, built, _ = server_with("a")
    built["a"][0].state = b"old"
    server.forget()
    assert server.packages.states() == {"a": b"new"}


def test_states_that_are_too_large_together_are_logged_once(tmp_path, caplog):
    names = [f"p{n}" for n in range(5)]
    server, built, _ = server_with(*names)
    train(server, time.time() - 30, {"old": 1.0})
    for name in names:
        built[name][0].state = bytes(MOST_STATE_BYTES)
    checkpointer = Checkpointer(str(tmp_path), "n1", server)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            asyncio.run(checkpointer.save())
    assert [record.getMessage() for record in caplog.records] == [
        "the state of predictor p4 is not stored: all states have more than 262144 bytes"
    ]
    assert checkpointer.problem is None
