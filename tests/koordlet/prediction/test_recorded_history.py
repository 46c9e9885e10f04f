"""A pod is warm by the time in which it was recorded, whatever clocks, restarts and suspends do."""

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
from koordlet.samples import NODE, Resource, SeriesKey, SeriesKind, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod

WALL, BOOT = 1.7e9, 5000.0
HOUR = 3600.0
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
    machine.restart(away_seconds=3 * HOUR)
    machine.train()
    assert machine.recorded_seconds == 9 * 30
    assert (machine.prediction.cold_pods, machine.prediction.prod_reclaimable.cpu_millis) == (1, 0)


@pytest.mark.parametrize("step", [3 * HOUR, -3 * HOUR, 30.0, -45.0, 20 * 365 * 24 * HOUR])
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


@pytest.mark.parametrize("away_seconds", [3 * HOUR, 90.0])
def test_a_suspended_machine_records_at_most_one_missed_training(away_seconds):
    """Suspended time is part of both clocks, so it is no step, and the samples are as old as they are."""
    machine = Machine()
    machine.train(10)
    machine.train(seconds=away_seconds)
    assert machine.recorded_seconds == pytest.approx(9 * 30 + 60)
    assert machine.wall - machine.prediction.since_seconds == pytest.approx(9 * 30 + away_seconds)


@pytest.mark.parametrize("wall_seconds", [-WALL, -HOUR, 0.0, 60.0, 10 * 365 * 24 * HOUR])
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
