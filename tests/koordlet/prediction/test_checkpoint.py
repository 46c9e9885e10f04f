"""The checkpoint file: restarts change nothing, every error is one line, history is never erased by accident."""

import copy
import errno
import math
import os
import zlib
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.colocation import controller_config
from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction import checkpoint
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpoint import Checkpoint, Refused
from koordlet.prediction.checkpointer import FILE_NAME, Checkpointer
from koordlet.prediction.evaluation import EvaluationState, Forecast, Record, Scores
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.samples import (
    NODE,
    PROD_AND_UNRESERVED_SYSTEM,
    SYSTEM,
    UNRESERVED_SYSTEM,
    Resource,
    SeriesKey,
    SeriesKind,
    Snapshot,
    UsageSample,
)
from tests.koordlet.prediction.calibration import test_node_calibration as a_node
from tests.koordlet.prediction.pods import Pod
from tests.koordlet.test_agent import open_below

NODE_NAME = "node-1"
START = 1.7e9
DEFAULTS = PredictParameters()
ALLOCATABLE = WholeAmounts(64_000, 2**38)
PREDICTORS = controller_config.PREDICTOR_NAMES


def train(server, at_seconds, usage_of_pod, system_cores=0.5):
    pods = {uid: UsageSample(cores, cores * 2e9) for uid, cores in usage_of_pod.items()}
    system = UsageSample(system_cores, 1e9)
    node = UsageSample(system[0] + sum(p[0] for p in pods.values()), system[1] + sum(p[1] for p in pods.values()))
    snapshot = Snapshot(at_seconds, node, system, pods)
    classes = {"b": PriorityClass.BATCH}
    server.train(at_seconds, series.snapshot_series(snapshot, classes, Reserved(0.1, 1e8)))


def trained_server(rounds, parameters=DEFAULTS, start=START):
    server = PredictionServer(parameters)
    for step in range(rounds):
        train(server, start + 30 * step, {"a": 1.0 + step % 3, "b": 0.5})
    return server


def names_in(folder):
    return [entry.name for entry in folder.iterdir()]


def stored(path, server, saved_seconds, node=NODE_NAME, **options):
    """Save the models of a server."""
    return checkpoint.save(path, Checkpoint(node, saved_seconds, server.export()), **options)


def restarted(path, parameters=DEFAULTS):
    server = PredictionServer(parameters)
    server.restore(checkpoint.load(path, NODE_NAME).models)
    return server


@given(
    rounds=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.floats(0, 50), min_size=1), min_size=1, max_size=12
    ),
    predictor=st.sampled_from(PREDICTORS),
    half_life=st.sampled_from([60, 43_200, controller_config.LONGEST_HALF_LIFE_SECONDS]),
    gap=st.integers(30, 300),
)
@settings(max_examples=60)
def test_a_restart_changes_no_prediction(tmp_path_factory, rounds, predictor, half_life, gap):
    """The limit is 1 %; weights are stored to the last bit, so the result is exact."""
    path = tmp_path_factory.mktemp("state") / "prediction"
    parameters = PredictParameters(predictor=predictor, cold_start_period_seconds=60, cpu_half_life_seconds=half_life)
    server = PredictionServer(parameters)
    for step, usage in enumerate(rounds):
        train(server, START + gap * step, usage)
    now = START + gap * (len(rounds) - 1)
    assert stored(path, server, now) is None
    pods = [Pod("a"), Pod("b", PriorityClass.BATCH), Pod("c"), Pod("never seen")]
    again = restarted(path, parameters)
    assert again.predict(now, pods, ALLOCATABLE) == server.predict(now, pods, ALLOCATABLE)
    for each in (server, again):
        train(each, now + 30, {"a": 3.0, "e": 1.0})
    # Nothing was recorded while the agent was away, so a pod may become warm one training later.
    every_pod_warm = replace(parameters, cold_start_period_seconds=0)
    one, other = (each.predict(now + 30, pods, ALLOCATABLE, every_pod_warm) for each in (again, server))
    assert one == other


def test_how_long_a_pod_has_been_recorded_survives_a_restart(tmp_path):
    path = tmp_path / "prediction"
    server = trained_server(241)  # two hours
    now = START + 7200
    stored(path, server, now)
    prediction = restarted(path).predict(now, [Pod("a")], ALLOCATABLE)
    assert (prediction.warm_pods, prediction.since_seconds) == (1, START)


def test_a_replaced_file_holds_the_newest_models_and_leaves_no_other_file(tmp_path):
    path = tmp_path / "prediction"
    for rounds in (1, 5):
        assert stored(path, trained_server(rounds), START + 30 * rounds) is None
    assert checkpoint.load(path, NODE_NAME).saved_seconds == START + 150
    assert names_in(tmp_path) == ["prediction"]


def test_the_first_start_without_a_checkpoint_is_not_an_error(tmp_path):
    problem = checkpoint.load(tmp_path / "prediction", NODE_NAME)
    assert problem.is_first_start
    assert problem.message == f"{tmp_path / 'prediction'} does not exist: starting without history"


@pytest.mark.parametrize(
    ("spoil", "detail"),
    [
        (lambda data: data[:-5], "cut off"),
        (lambda data: data[:-5] + b"wrong", "damaged"),
        (lambda data: b"not " + data, "begin with b'not koor'"),
        (lambda _data: b"", "0 bytes that begin with b'', want 16 or more"),
        (lambda data: data[:15], "15 bytes"),
        (lambda data: data[:8] + b"\x63\0\0\0" + data[12:], "version 99, this agent reads version 4"),
        (lambda data: data.replace(b"max_value=1024", b"max_value=2048"), "is not"),
    ],
)
def test_a_corrupt_file_is_refused_with_path_and_reason_and_replaced_at_the_next_save(tmp_path, spoil, detail):
    path = tmp_path / "prediction"
    stored(path, trained_server(50), START + 1500)
    path.write_bytes(spoil(path.read_bytes()))
    problem = checkpoint.load(path, NODE_NAME)
    assert not problem.is_first_start
    assert problem.message.startswith(f"{path} is not used: ")
    assert detail in problem.message
    assert stored(path, trained_server(1), START + 1530) is None
    assert checkpoint.load(path, NODE_NAME).saved_seconds == START + 1530


def test_a_checkpoint_of_another_node_is_refused(tmp_path):
    path = tmp_path / "prediction"
    stored(path, trained_server(1), START, "node-2")
    assert "belongs to node 'node-2', this is 'node-1'" in checkpoint.load(path, NODE_NAME).message


def test_history_is_not_replaced_by_less_unless_reset_on_purpose(tmp_path):
    path = tmp_path / "prediction"
    now = START + 3000
    stored(path, trained_server(100), now)
    young = trained_server(3, start=now)
    problem = stored(path, young, now + 90)
    assert problem.reason == "LessHistory"
    assert str(path) in problem.message
    assert checkpoint.load(path, NODE_NAME).saved_seconds == now
    assert stored(path, young, now + 90, is_reset=True) is None
    assert checkpoint.load(path, NODE_NAME).saved_seconds == now + 90


def test_new_history_replaces_the_old_one_once_it_weighs_more(tmp_path):
    path = tmp_path / "prediction"
    parameters = PredictParameters(cpu_half_life_seconds=600, memory_half_life_seconds=600)
    stored(path, trained_server(100, parameters), START + 3000)
    newcomer = PredictionServer(parameters)
    outcomes = []
    for step in range(100):
        now = START + 3000 + 30 * step
        train(newcomer, now, {"a": 1.0})
        outcomes.append(stored(path, newcomer, now) is None)
    assert 15 <= outcomes.index(True) <= 25  # about a half-life, which is 20 rounds
    assert all(outcomes[outcomes.index(True) :])


def test_a_process_that_goes_on_may_always_save_also_after_its_half_life_was_shortened(tmp_path):
    path = tmp_path / "prediction"
    server = trained_server(100)
    assert stored(path, server, START + 3000) is None
    assert stored(path, server, START + 9000) is None  # without samples in between
    shorter = replace(DEFAULTS, cpu_half_life_seconds=600, memory_half_life_seconds=600)
    server.configure(shorter)
    for step in range(20):
        now = START + 9030 + 30 * step
        train(server, now, {"a": 1.0})
        assert stored(path, server, now) is None
    server.configure(DEFAULTS)
    server.train(START + 9700, {})
    assert stored(path, server, START + 9700) is None
    server.configure(shorter)
    server.train(START + 9800, {})
    assert stored(path, server, START + 20_000) is None  # it decayed faster than stored


@pytest.mark.parametrize("years", [1e-4, 1, 40])
def test_a_clock_that_is_set_back_before_a_save_makes_no_history_weigh_more(tmp_path, years):
    path = tmp_path / "prediction"
    server, back = trained_server(100), years * 365 * 86_400
    assert stored(path, server, START + 2970 - back) is None
    read = checkpoint.load(path, NODE_NAME)
    carried = read.models.history(read.saved_seconds)
    assert all(0 < weight <= 8 * 100 for weight in carried.values())  # eight series that never expire, 100 rounds
    train(server, START + 3000 - back, {"a": 1.0})
    assert stored(path, server, START + 3000 - back) is None


def test_a_file_where_the_folder_should_be_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    assert stored(tmp_path / "file" / "x", trained_server(1), START).reason == "NoFolder"
    assert checkpoint.load(tmp_path / "file" / "x", NODE_NAME).reason == "NoFolder"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_reported_and_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "prediction"
    stored(path, trained_server(1), START)
    (tmp_path / "prediction.tmp").symlink_to("/dev/full")
    problem = stored(path, trained_server(2), START + 30)
    assert (problem.reason, str(path) in problem.message) == ("DiskFull", True)
    assert checkpoint.load(path, NODE_NAME).saved_seconds == START
    assert names_in(tmp_path) == ["prediction"]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.EROFS, "ReadOnlyDisk"), (errno.EDQUOT, "DiskFull"), (errno.EIO, "InputOutputError")],
)
def test_errors_of_the_disk_have_a_reason_each(number, reason):
    problem = checkpoint.problem_of_disk(OSError(number, os.strerror(number)), "cannot write /state/prediction")
    assert problem.reason == reason
    assert problem.message.startswith(f"cannot write /state/prediction: {os.strerror(number)}; ")


def test_the_file_is_flushed_before_its_name_and_the_folder_after_it(tmp_path, monkeypatch):
    path = tmp_path / "prediction"
    flushed = []
    fsync = os.fsync

    def noting(descriptor):
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        size = os.fstat(descriptor).st_size if target.is_file() else None
        flushed.append((target.name, path.exists(), size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    assert stored(path, trained_server(3), START + 90) is None
    assert flushed == [("prediction.tmp", False, path.stat().st_size), (tmp_path.name, True, None)]
    assert open_below(tmp_path) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_probe_writes_and_leaves_everything_as_it_was(tmp_path, is_there):
    path = tmp_path / "prediction"
    if is_there:
        assert stored(path, trained_server(3), START + 90) is None
    before = path.read_bytes() if is_there else None
    assert checkpoint.probe(path) is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["prediction"] * is_there
    assert (path.read_bytes() if is_there else None) == before
    assert open_below(tmp_path) == []


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
COLUMNS = ("weight", "mean", "m2", "first", "last", "recorded", "newest")


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
    return changed("evaluation", "records", "n-sigma-v2", "scores", Resource.CPU, to={
        "forecasts": 3.0, "violations": 1.0, "severities": 0.5, "peaks": 2.0, "requests": 4.0, **changes,
    })  # fmt: skip


OF_CPU = "calibration", "resources", Resource.CPU
OF_FORECAST = "evaluation", "forecast"
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
        "a cell weight less": bank(cell_weights=CPU.cell_weights[1:]),
        "a series twice": msgspec.structs.replace(
            WHOLE, models=replace(MODELS, keys=MODELS.keys[:1] * len(MODELS.keys))),
        "a cell weight NaN": bank(cell_weights=CPU.cell_weights * math.nan),
        "a weight infinite": row(weight=math.inf),
        "a mean NaN": row(mean=math.nan),
        "newest value missing": row(newest=math.nan),
        "a weight without a sample": row(last=math.nan),
        "a row without a sample": row(5, weight=0.0, first=math.nan, last=math.nan, recorded=0.0, newest=math.nan),
        "a newest value without a sample": row(5, Resource.MEMORY, newest=1.0),
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
    "usage NaN": changed(*OF_CPU, "begin", to=CALIBRATION.resources[Resource.CPU].begin * math.nan),
    "rises of three days": changed(
        *OF_CPU, "rises", to=CALIBRATION.resources[Resource.CPU].rises[:, :3].copy()),
    "a day infinite": changed(*OF_CPU, "day_seconds", to=-math.inf),
    "scores of memory": changed(*OF_CPU, "scores", "resource", to=Resource.MEMORY),
    "labels without weights": changed(*OF_CPU, "scores", "labels", to=0),
    "an evaluation of text": changed("evaluation", to="text"),
    "scores NaN": scores(peaks=math.nan),
    "a peak of CPU alone": changed(*OF_FORECAST, "peaks", to={"a": {Resource.CPU: 1.0}}),
    "a request of zero": changed(*OF_FORECAST, "requested", to={Resource.CPU: 0.0}),
    "a capacity below zero": changed(*OF_FORECAST, "capacity", to={Resource.CPU: -1.0}),
    "a head beyond the ring": changed(*OF_CPU, "ring", "head", to=288),
    "more violations than forecasts": scores(violations=3.5),
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
