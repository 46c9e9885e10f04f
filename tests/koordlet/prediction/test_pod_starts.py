"""What is recorded of a pod whose containers do not run makes it neither warm nor small."""

import dataclasses

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.server import PredictionServer
from koordlet.samples import Resource, Snapshot, UsageSample, pod_key
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod
from tests.koordlet.prediction.pods import Pod

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


def test_usage_of_init_containers_above_the_request_is_still_charged():
    node = Server()
    node.train(5, cores=9.0, not_started=["db"])
    assert node.server.predict(node.now, [DATABASE], CAPACITY).prod[Resource.CPU].cold_requests == pytest.approx(9.0)


def test_a_restart_of_the_agent_makes_no_pod_warm_that_has_not_started():
    node = Server()
    node.train(5 * HOUR, not_started=["db"])
    node.restart()
    node.train(cores=6.0)
    assert (node.warm, node.recorded_seconds) == (0, 0)


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


def test_a_warm_pod_that_crash_loops_keeps_its_history():
    node = Server()
    node.train(3 * HOUR, cores=6.0)
    node.train(HOUR, waiting=["db"])
    node.restart()
    node.train(10, waiting=["db"])
    assert node.warm == 1
    mean = node.server._models.statistics(Resource.CPU, [pod_key("db")]).mean()[0]
    assert mean > 4


def test_a_pod_that_has_gone_while_it_waited_leaves_nothing_behind():
    node = Server()
    node.train(5, not_started=["db"])
    node.server.starts.not_started = frozenset(["db"])
    node.server.train(node.now + 30, {})
    assert pod_key("db") not in node.server._models


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
