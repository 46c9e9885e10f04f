"""Balance of a node on which more is requested than it has."""

import numpy as np

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_kube_scheduler_model import GIB, ONLY_BALANCED, model


def test_an_overcommitted_resource_counts_as_full():
    one = model(factories.node("a", cpu="10", memory="10Gi"))
    one.add(0, {"memory": 30 * GIB})
    assert one.misfits({"cpu": 5000}) == {}
    assert one.scores({"cpu": 5000}, np.array([0]), ONLY_BALANCED).tolist() == [75]  # 1 - |0.5 - 1| / 2
