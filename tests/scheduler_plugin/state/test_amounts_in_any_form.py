"""Amounts of reports in every form that Kubernetes accepts. Expected values are computed by hand."""

import msgspec
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.state import pod_resources, vectors
from scheduler_plugin.state.node_columns import NodeColumns

CPU_AND_MEMORY = ("cpu", "memory")


@pytest.mark.parametrize(
    ("amounts", "found"),
    [
        ({"cpu": "250m", "memory": "1024"}, (250, 1024)),
        ({"cpu": "0", "memory": "0"}, (0, 0)),
        ({"cpu": "0m", "memory": "0Mi"}, (0, 0)),
        ({"cpu": 2, "memory": 1024}, (2000, 1024)),
        ({"cpu": "2", "memory": "1Ki"}, (2000, 1024)),
        ({"memory": "1"}, (0, 1)),
        ({"cpu": "5m"}, (5, 0)),
        ({}, (0, 0)),
        (None, (0, 0)),
        ({"cpu": "1", "memory": "999999999999999"}, (1000, 999999999999999)),
        ({"cpu": "1", "memory": str(2**53)}, (1000, 2**53)),
        ({"cpu": "1", "memory": str(2**53 + 1)}, None),
        ({"cpu": "1", "memory": "9" * 30}, None),
        ({"cpu": "-1", "memory": "1"}, None),
        ({"cpu": "lots", "memory": "1"}, None),
        ({"cpu": "m", "memory": "1"}, None),
        ({"cpu": "\N{ARABIC-INDIC DIGIT TWO}m", "memory": "1"}, None),
    ],
)
def test_reads_amounts_of_cpu_in_milli_cores_and_of_memory_in_bytes(amounts, found):
    assert vectors.vector(amounts, CPU_AND_MEMORY) == found


@pytest.mark.parametrize("sign", [1, -1])
def test_an_amount_is_cut_to_the_largest_one(sign):
    assert vectors.cut(sign * 2**53) == sign * 2**53
    assert vectors.cut(sign * (2**53 + 1)) == sign * 2**53
    assert vectors.cut(sign) == sign


@pytest.mark.parametrize(("count", "kept"), [(64, 64), (65, 2)])
def test_up_to_64_containers_are_kept_one_by_one(count, kept):
    listed = [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}] * count
    found = pod_resources.read(msgspec.convert({"containers": listed}, type=pods.PodSpec))
    assert len(found.containers) == kept
    assert sum(each.request or 0 for each in found.containers) == count


class Writer:
    """A writer of rows that records the capacities."""

    def __init__(self):
        self.capacities = []

    def grow(self, capacity):
        self.capacities.append(capacity)


def test_rows_are_used_without_gaps_before_the_columns_double():
    writer = Writer()
    columns = NodeColumns([writer])
    assert {columns.take_row() for _ in range(64)} == set(range(64))
    assert writer.capacities == [64]
    assert {columns.take_row() for _ in range(64)} == set(range(64, 128))
    assert writer.capacities == [64, 128]
    assert len(columns.changed_at) == 128
