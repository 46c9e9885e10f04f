"""Training, expiry, the limit on pods, steps of the clock, and restoring."""

import dataclasses
import math
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction import checkpoint
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpoint import Checkpoint
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.prediction.usage_models import MAX_PODS, UsageModels
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind, Snapshot, UsageSample, pod_key
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod
from tests.koordlet.prediction.pods import Pod

NOW = 1.7e9
HALF_LIVES = {Resource.CPU: 43_200.0, Resource.MEMORY: 86_400.0}
NAN = math.nan


def pod(uid):
    return SeriesKey(SeriesKind.POD, uid)


def train(models, now, samples, half_lives=HALF_LIVES, boot=None):
    return models.train(now, {key: UsageSample(*usage) for key, usage in samples.items()}, half_lives, boot)


def mean(models, resource, key):
    return float(models.statistics(resource, [key]).mean()[0])


def test_a_round_adds_one_value_of_each_resource_to_each_series():
    models = UsageModels()
    train(models, NOW, {NODE: (1.0, 100.0), pod("a"): (0.5, 50.0)})
    done = train(models, NOW + 30, {NODE: (3.0, 300.0), pod("a"): (0.5, 50.0)})
    assert (done.expired_pods, done.refused_pods, done.unusable_values) == (0, 0, 0)
    assert mean(models, Resource.CPU, NODE) == pytest.approx(2.0, rel=1e-3)
    assert mean(models, Resource.MEMORY, NODE) == pytest.approx(200.0, rel=1e-3)
    assert mean(models, Resource.MEMORY, pod("a")) == 50.0


def test_a_percentile_beyond_the_last_bucket_is_bounded_by_mean_and_deviation():
    models = UsageModels()
    for step in range(100):
        train(models, NOW + 30 * step, {NODE: (1.0, 2.0**42), pod("a"): (1.0, 2.0**42 * (1 + (step % 10 == 0)))})
    steady, wavy = models.statistics(Resource.MEMORY, [NODE, pod("a")]).percentile(95)
    assert steady == pytest.approx(2.0**42)
    assert wavy >= 2.0**43


@pytest.mark.parametrize("wrong", [NAN, math.inf, -0.001])
def test_an_invalid_usage_is_left_out_and_counted(wrong):
    models = UsageModels()
    train(models, NOW, {NODE: (1.0, 100.0)})
    done = train(models, NOW + 30, {NODE: (wrong, 300.0)})
    assert done.unusable_values == 1
    assert mean(models, Resource.CPU, NODE) == 1.0
    assert mean(models, Resource.MEMORY, NODE) == pytest.approx(200.0, rel=1e-3)


def test_recorded_history_begins_when_all_resources_have_a_sample():
    models = UsageModels()
    train(models, NOW, {pod("a"): (1.0, NAN)})
    assert math.isnan(models.first_seconds([pod("a")])[0])
    train(models, NOW + 30, {pod("a"): (1.0, 1.0)})
    assert models.first_seconds([pod("a")])[0] == NOW + 30


def test_a_pods_model_expires_half_an_hour_after_its_last_sample_and_the_nodes_never():
    models = UsageModels()
    train(models, NOW, {NODE: (1.0, 1.0), pod("a"): (1.0, NAN)})
    assert train(models, NOW + 1800, {}).expired_pods == 0
    assert train(models, NOW + 1801, {}).expired_pods == 1
    assert pod("a") not in models
    train(models, NOW + 80_000, {})
    assert NODE in models


def test_a_series_on_a_reused_row_has_no_old_samples():
    models = UsageModels()
    train(models, NOW, {pod("old"): (8.0, 8.0)})
    train(models, NOW + 2000, {})
    train(models, NOW + 2030, {pod("new"): (1.0, 1.0)})
    assert mean(models, Resource.CPU, pod("new")) == 1.0
    assert models.first_seconds([pod("new")])[0] == NOW + 2030


def test_pods_beyond_the_limit_are_refused_and_counted_while_the_others_still_run():
    models = UsageModels(max_pods=2)
    running = {pod("a"): (1.0, 1.0), pod("b"): (1.0, 1.0)}
    train(models, NOW, running)
    done = train(models, NOW + 30, running | {NODE: (1.0, 1.0), pod("c"): (1.0, 1.0)})
    assert done.refused_pods == 1
    assert pod("c") not in models


def test_pods_that_are_gone_make_room_the_longest_gone_first():
    models = UsageModels(max_pods=3)
    train(models, NOW, {pod("a"): (1.0, 1.0)})
    train(models, NOW + 30, {pod("b"): (1.0, 1.0)})
    train(models, NOW + 60, {pod("c"): (1.0, 1.0)})
    assert train(models, NOW + 90, {pod("c"): (1.0, 1.0), pod("d"): (1.0, 1.0)}).refused_pods == 0
    assert set(models.pods()) == {pod("b"), pod("c"), pod("d")}


def test_the_arrays_do_not_grow_with_the_pods():
    """Each copy of a growing array leaves a hole of its size in the heap, and the process never gets smaller."""
    models = UsageModels()
    keys = [pod(str(number)) for number in range(MAX_PODS)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for some in range(100, MAX_PODS + 1, 100):
            train(models, NOW + some, dict.fromkeys(keys[:some], (1.0, 1.0)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(models.pods()) == MAX_PODS
    assert after - before < 512 * 1024


ROWS_IN_USE = """
from tests.koordlet.prediction import test_usage_models as test
def resident_kib():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
models, half_lives = test.UsageModels(), dict(test.HALF_LIVES)
for number in range(20):
    if number == 10:
        before = resident_kib()
        half_lives = {resource: 2 * seconds for resource, seconds in half_lives.items()}
    test.train(models, test.NOW + 30 * number, {test.pod("a"): (1.0, 1.0)}, half_lives)
print(resident_kib() - before)
"""


@pytest.mark.slow
def test_rows_that_no_series_has_used_take_no_memory_also_after_another_half_life():
    ran = subprocess.run([sys.executable, "-c", ROWS_IN_USE], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 1024


def test_half_lives_change_in_the_round_and_weigh_only_what_comes():
    models = UsageModels()
    train(models, NOW, {NODE: (0.0, 0.0)})
    later = NOW + 43_200  # the first CPU sample weighs a half now, the memory sample 0.707
    train(models, later, {NODE: (3.0, 3.0)}, {Resource.CPU: 60.0, Resource.MEMORY: 60.0})
    assert mean(models, Resource.CPU, NODE) == pytest.approx(3 / 1.5)
    assert mean(models, Resource.MEMORY, NODE) == pytest.approx(3 / (1 + 0.5**0.5))


def test_a_clock_set_forward_by_years_makes_no_young_pod_old():
    models = UsageModels()
    train(models, 100.0, {NODE: (1.0, 1.0), pod("a"): (1.0, 1.0)}, boot=100.0)
    train(models, NOW, {NODE: (2.0, 2.0), pod("a"): (1.0, 1.0)}, boot=100.0)
    assert models.first_seconds([pod("a")])[0] == NOW
    assert mean(models, Resource.CPU, NODE) == pytest.approx(1.5)


def test_restored_models_continue_and_the_time_between_counts():
    models, fresh = UsageModels(), UsageModels()
    for step in range(40):
        train(models, NOW + 30 * step, {NODE: (step, step), SYSTEM: (1.0, NAN), pod("a"): (1.0, 1.0)})
    fresh.restore(models.export())
    three_days_later = NOW + 3 * 86_400
    for each in (models, fresh):
        each.train(NOW + 1200, {NODE: UsageSample(5.0, 5.0), pod("a"): UsageSample(2.0, 2.0)}, HALF_LIVES)
    assert set(fresh.pods()) == set(models.pods())
    for key in (NODE, SYSTEM, pod("a")):
        assert mean(fresh, Resource.CPU, key) == mean(models, Resource.CPU, key)
        assert fresh.last_seconds([key])[0] == models.last_seconds([key])[0]

    late = UsageModels()
    late.restore(models.export())
    assert train(late, three_days_later, {pod("a"): (1.0, 1.0)}).expired_pods == 0
    since_the_last_sample = three_days_later - (NOW + 1200)
    assert late.first_seconds([pod("a")])[0] == NOW + since_the_last_sample - 86_400  # of which a day is believed


def test_trained_models_are_not_overwritten_by_a_restore():
    models = UsageModels()
    train(models, NOW, {NODE: (1.0, 1.0)})
    with pytest.raises(ValueError, match="cannot restore 1 series into models that have 1 already"):
        models.restore(models.export())


DATABASE = Pod("db", cpu_request_millis=8000, memory_request_bytes=8 * GIB)
CAPACITY = WholeAmounts(16_000, 64 * GIB)
HOUR = 120
"""Trainings of an hour."""


class Server:
    """A server that is trained each half minute on one Prod pod."""

    def __init__(self, **parameters):
        self.parameters = dataclasses.replace(PredictParameters(), **parameters)
        self.server = PredictionServer(self.parameters)
        self.now = 1.7e9

    def train(self, rounds=1, cores=0.001, not_started=(), waiting=()):
        for _ in range(rounds):
            self.now += 30.0
            usage = UsageSample(cores, cores * GIB)
            system = UsageSample(0.2, GIB)
            snapshot = Snapshot(self.now, UsageSample(cores + 0.2, 2.0 * GIB), system, {"db": usage})
            samples = class_series.snapshot_series(snapshot, {"db": PriorityClass.PROD}, Reserved(0.5, GIB))
            self.server.starts.not_started, self.server.starts.waiting = frozenset(not_started), frozenset(waiting)
            self.server.train(self.now, samples)
            self.server.calibrate(self.now, [DATABASE], CAPACITY)

    def restart(self):
        models, calibration = self.server.export(), self.server.calibration.export()
        self.server = PredictionServer(self.parameters)
        self.server.restore(models, calibration)

    @property
    def warm(self):
        return self.server.predict(self.now, [DATABASE], CAPACITY).warm_pods

    @property
    def recorded_seconds(self):
        return float(self.server._models.recorded_seconds([pod_key("db")])[0])


@pytest.mark.parametrize("period", [0.0, 7200.0])
def test_a_pod_that_has_not_started_stays_cold_and_its_record_begins_with_its_start(period):
    node = Server(cold_start_period_seconds=period)
    node.train(5 * HOUR, not_started=["db"], waiting=["db"])
    assert (node.warm, node.recorded_seconds) == (0, 0)
    node.train(2 * HOUR - 1, cores=6.0)
    assert node.warm == (period == 0)
    node.train(cores=6.0)
    assert node.warm == 1
    mean = node.server._models.statistics(Resource.CPU, [pod_key("db")]).mean()[0]
    assert mean == pytest.approx(6.0, rel=0.01)  # five hours without a container do not count
    day = node.server.calibration.last_day(Resource.CPU, [pod_key("db")])
    assert day[0, 1:24].min() == pytest.approx(6.0, rel=0.01)
    assert not (day[0, 26:] < 1).any()


def test_what_was_recorded_before_the_state_of_the_pod_was_known_is_discarded():
    node = Server()
    node.train(5 * HOUR)  # the API server is away, or an agent that did not know wrote the checkpoint
    node.restart()
    node.train(not_started=["db"])
    assert node.warm == 0
    node.train(cores=6.0)
    assert node.warm == 0


def test_a_pod_that_crash_loops_from_its_start_is_cold_until_it_runs():
    node = Server()
    for _ in range(5 * HOUR // 10):
        node.train(9, waiting=["db"])
        node.train(1)
    assert node.warm == 0
    node.train(2 * HOUR, cores=6.0)
    assert node.warm == 1


@pytest.mark.parametrize("state", [{"has_started": False}, {"is_waiting": True}])
def test_the_agent_offers_nothing_of_a_pod_that_does_not_run(tmp_path, state):
    waiting = bound_pod("db", cpu_request_millis=8000, memory_request_bytes=8 * GIB, **state)
    cluster = StaticCluster(waiting, spec={"predictPolicy": {"coldStartPeriodSeconds": 300}})
    node = OneNode(tmp_path, cluster)
    node.node_cores, node.pod_cores, node.pod_bytes = 0.3, {"db": 0.001}, {"db": 400_000}
    node.run(420)
    assert node.report()["prodReclaimableMetric"]["resource"]["resources"] == {"cpu": "0", "memory": "0"}
    cluster.pods.put(bound_pod("db", cpu_request_millis=8000, memory_request_bytes=8 * GIB))
    node.run(270)
    assert node.report()["prediction"]["coldPods"] == 1
    node.run(60)
    assert node.report()["prediction"]["warmPods"] == 1


WALL, BOOT = 1.7e9, 5000.0
HOUR_SECONDS = 3600.0
BIG = Pod("a", cpu_request_millis=8000)
POD = SeriesKey(SeriesKind.POD, "a")


class Machine:
    """A machine with two clocks and an agent that trains each half minute on one idle pod."""

    def __init__(self, wall=WALL, boot=BOOT):
        self.server = PredictionServer(PredictParameters())
        self.wall, self.boot = wall, boot

    def train(self, rounds=1, seconds=30.0, cores=0.05):
        for _ in range(rounds):
            self.wall += seconds
            self.boot += seconds
            usage = UsageSample(cores, 2.0**30)
            snapshot = Snapshot(self.wall, UsageSample(cores + 0.2, 2.0**31), UsageSample(0.2, 2.0**29), {"a": usage})
            classes = {"a": PriorityClass.PROD}
            self.server.train(
                self.wall, class_series.snapshot_series(snapshot, classes, Reserved(0.5, 2.0**30)), self.boot
            )

    def restart(self, away_seconds=0.0, wall_seconds=None, rebooted=False):
        data = checkpoint.encode(Checkpoint("n", self.wall, self.server.export()))
        self.server = PredictionServer(PredictParameters())
        self.server.restore(checkpoint.decode(data, "n").models)
        self.wall += away_seconds if wall_seconds is None else wall_seconds
        self.boot = 1.0 if rebooted else self.boot + away_seconds

    @property
    def recorded_seconds(self):
        return float(self.server._models.recorded_seconds([POD])[0])

    @property
    def prediction(self):
        return self.server.predict(self.wall, [BIG], WholeAmounts(16_000, 2**36))


def test_an_agent_that_was_away_for_hours_recorded_nothing_meanwhile():
    machine = Machine()
    machine.train(10)
    machine.restart(away_seconds=3 * HOUR_SECONDS)
    machine.train()
    assert machine.recorded_seconds == 9 * 30
    assert (machine.prediction.cold_pods, machine.prediction.prod_reclaimable.cpu_millis) == (1, 0)


@pytest.mark.parametrize("step", [3 * HOUR_SECONDS, -3 * HOUR_SECONDS, 30.0, -45.0, 20 * 365 * 24 * HOUR_SECONDS])
def test_a_step_of_the_clock_neither_warms_nor_ages_a_series(step):
    machine, undisturbed = Machine(), Machine()
    for each in (machine, undisturbed):
        each.train(100, cores=2.0)
    machine.wall += step
    for each in (machine, undisturbed):
        each.train(2)
    assert machine.recorded_seconds == pytest.approx(101 * 30)
    assert machine.prediction.cold_pods == 1
    one, other = (each.server._models.statistics(Resource.CPU, [NODE]) for each in (machine, undisturbed))
    assert one.mean() == pytest.approx(other.mean())
    assert one.stdev() == pytest.approx(other.stdev())
    since, since_undisturbed = machine.prediction.since_seconds, undisturbed.prediction.since_seconds
    assert machine.wall - since == pytest.approx(undisturbed.wall - since_undisturbed)


@pytest.mark.parametrize("away_seconds", [3 * HOUR_SECONDS, 90.0])
def test_a_suspended_machine_records_at_most_one_missed_training(away_seconds):
    """Suspended time is part of both clocks, so it is no step, and the samples are as old as they are."""
    machine = Machine()
    machine.train(10)
    machine.train(seconds=away_seconds)
    assert machine.recorded_seconds == pytest.approx(9 * 30 + 60)
    assert machine.wall - machine.prediction.since_seconds == pytest.approx(9 * 30 + away_seconds)


@pytest.mark.parametrize("wall_seconds", [-WALL, -HOUR_SECONDS, 0.0, 60.0, 10 * 365 * 24 * HOUR_SECONDS])
def test_after_a_reboot_with_any_clock_the_history_goes_on_and_ages_by_a_day_at_most(wall_seconds):
    machine = Machine()
    machine.train(300, cores=2.0)
    machine.restart(wall_seconds=wall_seconds, rebooted=True)
    machine.train(2, cores=2.0)
    assert machine.recorded_seconds == pytest.approx(299 * 30 + 30)
    prediction = machine.prediction
    assert prediction.warm_pods == 1
    assert prediction.prod[Resource.CPU].peak >= 2.0
    weight = machine.server.export().banks[Resource.CPU]
    newest = 2.0 ** ((machine.wall - weight.reference_seconds) / weight.half_life_seconds)
    assert weight.columns[0].max() / newest >= 2 + 300 / 5  # two half-lives of 12 h leave a quarter


events = st.one_of(
    st.tuples(st.just("train"), st.floats(1, 60)),
    st.tuples(st.just("suspend"), st.floats(60, 1e6)),
    st.tuples(st.just("step"), st.floats(-2e9, 2e9)),
    st.tuples(st.just("restart"), st.floats(0, 1e6)),
    st.tuples(st.just("reboot"), st.floats(-2e9, 2e9)),
)


@given(st.lists(events, min_size=1, max_size=30))
def test_recorded_time_is_never_more_than_the_time_of_trainings(history):
    machine = Machine()
    machine.train()
    recorded = 0.0
    for what, seconds in history:
        if what == "step":
            machine.wall += seconds
        elif what == "restart":
            machine.restart(away_seconds=seconds)
        elif what == "reboot":
            machine.restart(wall_seconds=seconds, rebooted=True)
        machine.train(seconds=seconds if what in ("train", "suspend") else 30.0)
        recorded += 0.0 if what in ("restart", "reboot") else min(seconds if what != "step" else 30.0, 60.0)
        assert machine.recorded_seconds == pytest.approx(recorded, abs=1e-3)
