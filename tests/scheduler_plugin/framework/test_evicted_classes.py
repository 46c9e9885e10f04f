"""Classes that an equivalence cache keeps, where its memory is full."""

import numpy as np
import pytest

from tests.scheduler_plugin.framework.test_equivalence_cache import Counted

FEWEST = 64
MOST = 1024


@pytest.mark.parametrize(("rows", "kept"), [(1, MOST), (1000, MOST), (2**20 // 100, 100), (20_000, FEWEST)])
def test_as_many_classes_as_fit_are_computed_once(rows, kept):
    counted = Counted(rows)
    for _turn in range(2):
        for pod_class in range(kept):
            assert counted.of(pod_class, [0]) == [pod_class]
    assert counted.computed == [1] * kept


def test_one_more_class_evicts_the_least_recently_used_one():
    counted = Counted(20_000)
    for pod_class in range(FEWEST):
        counted.of(pod_class, [0])
    counted.of(0, [0])
    counted.of(FEWEST, [0])
    counted.computed.clear()
    for pod_class in (0, 2, FEWEST, FEWEST - 1):
        counted.of(pod_class, [0])
    assert counted.computed == []
    counted.of(1, [0])
    assert counted.computed == [1]


def test_results_of_known_rows_are_kept_when_the_rows_grow():
    counted = Counted(4)
    counted.of(7, [0, 1, 2, 3])
    counted.changes.grow(8)
    counted.values = np.arange(8) * 100
    assert counted.of(7, [3, 4]) == [307, 407]
    assert counted.computed == [4, 1]
