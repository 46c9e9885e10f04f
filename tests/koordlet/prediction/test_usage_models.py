"""Training, expiry, the limit on pods, steps of the clock, and restoring."""

import dataclasses
import math
import subprocess
import sys
import tracemalloc

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
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
    assert (done.trained_series, done.expired_pods, done.refused_pods, done.unusable_values) == (2, 0, 0, 0)
    assert mean(models, Resource.CPU, NODE) == pytest.approx(2.0, rel=1e-3)
    assert mean(models, Resource.MEMORY, NODE) == pytest.approx(200.0, rel=1e-3)
    assert mean(models, Resource.MEMORY, pod("a")) == 50.0


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
    assert (done.refused_pods, done.trained_series) == (1, 3)
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
