"""How many other groups a search for pods passes before it gives up."""

import pytest

from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.samples import NoData
from tests.host_trees.plain_files import CGROUPFS, V2, PlainHost


@pytest.mark.parametrize(("most", "is_found"), [(1, False), (2, True)])
def test_a_search_goes_on_after_as_many_groups_as_it_may_visit(tmp_path, monkeypatch, most, is_found):
    monkeypatch.setattr(cgroup_layout, "_MOST_GROUPS_SEARCHED", most)
    found = cgroup_layout.probe(PlainHost(tmp_path, V2, CGROUPFS, "a/b").host_root.cgroup_root)
    assert isinstance(found, NoData) is not is_found
    if is_found:
        assert found.roots_of_pods == ("a/b/kubepods",)
