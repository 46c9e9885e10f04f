import numpy as np

from scheduler_plugin.framework import interface
from scheduler_plugin.framework.interface import SchedulingCycle, combined
from scheduler_plugin.state.node_columns import NodeColumns
from scheduler_plugin.state.pod_info import PodInfo

POD = PodInfo(uid="u", key="default/web", is_prod=True, is_pinned=False, estimate=(0, 0))


ROWS = np.arange(3)


class Fixed(interface.Filter):
    """A plugin with fixed results for rows 0, 1 and 2."""

    def __init__(self, name, *, scores=None, codes=None, normalize=interface.clipped):
        self.name, self.reasons = name, (f"refused by {name}",)
        self._scores, self._codes, self.normalize = scores, codes, normalize

    def reject(self, _pod, rows, _vectors, _now, _pending=None):
        return None if self._codes is None else np.array(self._codes, dtype=np.int16)[rows]

    def score(self, _pod, rows, _vectors, _now):
        return None if self._scores is None else np.array(self._scores)[rows]


def prioritized(*weighted):
    cycle = SchedulingCycle([], weighted, NodeColumns([]))
    return combined(cycle.scores_by_plugin(POD, ROWS, 0), len(ROWS)).tolist()


def test_scores_add_up_by_weight_as_in_kube_scheduler():
    first, second = Fixed("a", scores=[100, 0, 51]), Fixed("b", scores=[0, 90, 100])
    assert prioritized((first, 1), (second, 2)) == [100, 180, 251]


def test_a_plugin_without_a_preference_changes_nothing():
    assert prioritized((Fixed("a", scores=[10, 20, 30]), 1), (Fixed("b"), 9)) == [10, 20, 30]
    assert prioritized((Fixed("b"), 9)) == [0, 0, 0]


def test_each_plugin_is_normalised_over_the_candidates_before_it_is_weighted():
    def lowest_is_best(scores):
        return (100 * (scores.max() - scores) / np.ptp(scores)).astype(int)

    watts = Fixed("watts", scores=[7.5, 5.0, 10.0], normalize=lowest_is_best)
    assert prioritized((watts, 1), (Fixed("b", scores=[100, 100, 100]), 1)) == [150, 200, 100]


def test_the_first_plugin_that_rejects_names_the_reason_and_an_unknown_node_passes():
    cycle = SchedulingCycle([Fixed("a", codes=[0, 1, 0]), Fixed("b", codes=[1, 1, 0])], [], NodeColumns([]))
    codes = cycle.filter(POD, np.array([0, 1, 2, -1]), 0)
    assert [cycle.reasons[code - 1] if code else None for code in codes] == [
        "refused by b",
        "refused by a",
        None,
        None,
    ]


class FixedForUnknown(Fixed):
    """A plugin that also rejects unknown nodes."""

    def reject_unknown(self, pod, _vectors):
        return int(pod is not POD)


def test_a_plugin_rejects_unknown_nodes_for_what_holds_on_any_node():
    first, second = Fixed("a", codes=[1, 0]), FixedForUnknown("b")
    cycle = SchedulingCycle([first, second], [], NodeColumns([]))
    other = PodInfo(uid="o", key="default/other", is_prod=False, is_pinned=False, estimate=(0, 0))
    assert cycle.filter(other, np.array([-1, 0, -1, 1]), 0).tolist() == [2, 1, 2, 0]
    assert cycle.filter(POD, np.array([-1, 1]), 0) is None
