"""Predictors of packages that learn get the load of each training."""

from koordlet.prediction.packages.guard import GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import TRAIN_SECONDS, FedNode
from tests.koordlet.one_node import StaticCluster, bound_pod


class Learning:
    """A predictor that notes what it is given to learn."""

    def __init__(self):
        self.observed = []

    def observe(self, load):
        self.observed.append(load)

    def predict(self, _load):
        return 1.0


def test_the_predictor_in_force_learns_from_every_training():
    learning, warnings = Learning(), []
    guarded = GuardedPredictor("x/learning", lambda: learning, lambda: 0.0, warnings.append)
    spec = {"predictPolicy": {"predictor": "x/learning"}}
    node = FedNode(StaticCluster(bound_pod("a"), spec=spec), packages=LoadedPredictors("n1", [guarded]))
    usage = {"a": UsageSample(0.5, 2.0**29)}, UsageSample(0.75, 2.0**30)
    for trainings in range(1, 4):
        assert len(list(node.run(TRAIN_SECONDS, lambda _step: usage))) == 1
        assert sorted(load.resource for load in learning.observed) == sorted(["cpu", "memory"] * trainings)
    assert warnings == []
