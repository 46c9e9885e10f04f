"""Results of a pod class are computed again where a row changed, and nowhere else."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.state.node_columns import EquivalenceCache, RowChanges


class Counted:
    """A cache over the sum of a class and a value per row, which counts the computed rows."""

    def __init__(self, rows):
        self.changes = RowChanges()
        self.changes.grow(rows)
        self.values = np.arange(rows) * 100
        self.computed = []
        self.cache = EquivalenceCache(self._compute, np.int64)

    def _compute(self, pod_class, rows):
        self.computed.append(len(rows))
        return self.values[rows] + pod_class

    def of(self, pod_class, rows):
        return self.cache.results(pod_class, np.array(rows, dtype=np.intp), self.changes).tolist()

    def change(self, row, value):
        self.values[row] = value
        self.changes.changed(row)


def test_a_new_class_costs_the_asked_rows_only():
    counted = Counted(5000)
    assert counted.of(7, [3, 1]) == [307, 107]
    assert counted.of(7, [1, 3, 4]) == [107, 307, 407]
    assert counted.computed == [2, 1]


def test_a_changed_row_is_computed_again_for_each_class():
    counted = Counted(4)
    assert (counted.of(1, [0, 1]), counted.of(2, [0, 1])) == ([1, 101], [2, 102])
    counted.change(1, 50)
    assert (counted.of(1, [0, 1]), counted.of(2, [1])) == ([1, 51], [52])
    assert counted.computed == [2, 2, 1, 1]


def test_memory_is_bounded_at_every_size():
    for rows in (10, 5000, 15000):
        counted = Counted(rows)
        for pod_class in range(1100):
            counted.of(pod_class, [0])
        cached = counted.cache._by_class.values()
        size = sum(each.results.nbytes + each.computed_at.nbytes for each in cached)
        assert 64 <= len(cached) <= 1024
        assert size <= 16 * 2**20


def test_the_caller_may_change_the_results():
    counted = Counted(2)
    counted.cache.results(0, np.array([0, 1]), counted.changes)[:] = -1
    assert counted.of(0, [0, 1]) == [0, 100]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, 200), st.lists(st.integers(0, 7), max_size=6)),
        st.tuples(st.just("change"), st.integers(0, 7), st.integers(0, 99)),
        st.tuples(st.just("grow"), st.integers(1, 3)),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(steps)
def test_results_are_always_those_of_the_present_rows(script):
    counted = Counted(8)
    for step in script:
        if step[0] == "read":
            assert counted.of(step[1], step[2]) == [int(counted.values[row]) + step[1] for row in step[2]]
        elif step[0] == "change":
            counted.change(step[1], step[2])
        else:
            rows = len(counted.values) + step[1]
            counted.values = np.append(counted.values, np.zeros(step[1], dtype=np.int64))
            counted.changes.grow(rows)
