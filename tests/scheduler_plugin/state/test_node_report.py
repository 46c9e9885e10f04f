"""Packed tables of a report: their contents, and their shared keys."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state import node_report
from scheduler_plugin.state.vectors import LARGEST
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

amounts = st.tuples(st.integers(0, LARGEST), st.integers(0, LARGEST))


@given(st.dictionaries(st.text(max_size=3), amounts), st.text(max_size=3))
def test_a_table_equals_its_source_mapping(vectors, other):
    table = node_report.table(vectors, 2)
    assert dict(table) == vectors
    assert table.find(other) == vectors.get(other) == table.get(other)
    assert table.own_key(other) == other


def test_pods_and_reports_share_one_key_in_either_order():
    for pods_first in (True, False):
        cluster = factories.parts().cluster
        steps = [
            lambda: cluster.pod_changed(factories.pod("a", node="n1"), NOW),  # noqa: B023  # called in this turn
            lambda: cluster.metric_changed(  # noqa: B023
                factories.metric("n1", usage={}, pods_metric=[factories.reported("a", "1", "1")])
            ),
        ]
        for step in steps if pods_first else reversed(steps):
            step()
        (pod,) = cluster.entries["n1"].load.pods.values()
        (key,) = cluster.entries["n1"].load.report.pods
        assert key is pod.key
