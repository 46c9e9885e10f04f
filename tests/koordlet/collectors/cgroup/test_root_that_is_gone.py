"""The groups of pods after their root was removed, as at the end of a kubelet."""

from koordlet.collectors.cgroup import layout as cgroup_layout
from koordlet.collectors.cgroup.discovery import FULL_SCAN_SECONDS, CgroupDiscovery
from tests.host_trees.plain_files import MIB, PlainHost


def test_the_result_is_the_same_object_while_the_root_stays_away(tmp_path):
    host = PlainHost(tmp_path)
    host.set_group(host.pod("a"), 1.0, MIB)
    discovery = CgroupDiscovery(host.host_root.cgroup_root)
    assert discovery.refresh(0.0).pods.keys() == {"a"}
    (host.host_root.cgroup_root / "kubepods").rename(tmp_path / "away")
    gone = discovery.refresh(1.0)
    assert gone.pods == {}
    assert all(discovery.refresh(seconds) is gone for seconds in (2.0, 3.0))


def test_a_root_that_goes_away_during_a_full_scan_leaves_no_pods(tmp_path, monkeypatch):
    host = PlainHost(tmp_path)
    host.set_group(host.pod("a"), 1.0, MIB)
    discovery = CgroupDiscovery(host.host_root.cgroup_root)
    discovery.refresh(0.0)
    probe = cgroup_layout.probe

    def probe_and_remove(root):
        found = probe(root)
        (root / "kubepods").rename(tmp_path / "away")
        return found

    monkeypatch.setattr(cgroup_layout, "probe", probe_and_remove)
    assert discovery.refresh(FULL_SCAN_SECONDS).pods == {}
