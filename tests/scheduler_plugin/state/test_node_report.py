"""The packed tables of a report hold what was put in, and lend their keys."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.state import node_report
from scheduler_plugin.state.vectors import LARGEST
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

amounts = st.tuples(st.integers(0, LARGEST), st.integers(0, LARGEST))


@given(st.dictionaries(st.text(max_size=3), amounts), st.text(max_size=3))
def test_a_table_reads_as_the_mapping_it_was_made_of(vectors, other):
    table = node_report.table(vectors, 2)
    assert dict(table) == vectors
    assert table.find(other) == vectors.get(other) == table.get(other)
    assert table.own_key(other) == other


def test_pods_and_reports_keep_one_key_between_them_whichever_came_first():
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
