"""What a tick measures, and what it computes again only after a change."""

from __future__ import annotations

import json

import pytest

from koordlet.cluster.pods import PodTable
from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metrics import debug_pages
from tests.host_trees.plain_files import V2
from tests.koordlet.one_node import OneNode, StaticCluster, bound_pod

CID = "c" * 64


def with_container(tmp_path, **options):
    cluster = StaticCluster(bound_pod("a", container_ids=frozenset({CID})))
    node = OneNode(tmp_path, cluster, V2, **options)
    node.pod_cores = {"a": 0.5}
    node.host.set_group(node.host.container("a", CID), 0.0, 1 << 20)
    return node


def page_of(node):
    """Return the debug page of a node's agent."""
    return json.loads(b"".join(debug_pages.pieces(debug_pages.inputs(node.reports))))


def test_containers_are_not_measured_without_the_debug_pages(tmp_path):
    node = with_container(tmp_path)
    node.run(3 * CONTAINER_TICKS)
    statistics = node.observer.collector.statistics
    assert (statistics.groups, statistics.open_files) == (1, 2)
    assert page_of(node)["containers"] is None
    node.observer.collector.close()


def test_containers_are_measured_for_the_debug_pages(tmp_path):
    node = with_container(tmp_path, measures_containers=True)
    node.run(3 * CONTAINER_TICKS)
    assert node.observer.collector.statistics.groups == 2
    (series,) = page_of(node)["containers"]["series"]
    assert (series["kind"], series["identity"]) == ("container", CID)
    node.observer.collector.close()


def test_the_pods_are_looked_up_again_only_after_a_change(tmp_path, monkeypatch):
    node = with_container(tmp_path)
    asked = []
    by_uid = PodTable.by_uid
    monkeypatch.setattr(PodTable, "by_uid", lambda table: asked.append(1) or by_uid(table))
    node.run(10)
    assert len(asked) == 1
    changes = (
        lambda pods: pods.put(bound_pod("b")),
        lambda pods: pods.drop("shop", "b"),
        lambda pods: pods.keep_only([("shop", "a")]),
    )
    for number, change in enumerate(changes, start=2):
        change(node.cluster.pods)
        node.run(2)
        assert len(asked) == number
        assert set(node.observer.pods_by_uid) == ({"a", "b"} if number == 2 else {"a"})
    node.observer.collector.close()


def test_a_pod_put_twice_has_its_newest_class(tmp_path):
    node = with_container(tmp_path)
    node.run(3)
    node.cluster.pods.put(bound_pod("a", is_terminated=True))
    node.run(1)
    assert node.observer.pods_by_uid == {}
    node.observer.collector.close()


@pytest.mark.parametrize("synced", [True, False])
def test_groups_are_left_out_as_orphans_only_when_the_pods_are_known(tmp_path, monkeypatch, synced):
    node = with_container(tmp_path)
    node.cluster.pods.synced = synced
    given = []
    collect = node.observer.collector.collect

    def noting(now_seconds, named, bound, counts_page_cache):
        given.append(bound)
        return collect(now_seconds, named, bound, counts_page_cache)

    monkeypatch.setattr(node.observer.collector, "collect", noting)
    node.run(1)
    assert (given[0] is not None) == synced
    node.observer.collector.close()


@pytest.mark.parametrize("step", [7200.0, -7200.0, 30.0, -30.0])
def test_samples_keep_their_ages_when_the_clock_is_set(tmp_path, step):
    node = with_container(tmp_path)
    node.run(2)
    cache = node.observer.cache
    for second in range(120):
        node.observer.observe(node.now + second, node.cluster, 5000.0 + second)
    ages = node.now + 119 - cache.cached(node.now + 119).at_seconds
    now = node.now + 120 + step
    node.observer.observe(now, node.cluster, 5120.0)
    assert list(now - cache.cached(now).at_seconds)[:-1] == pytest.approx(list(ages + 1.0))
    node.observer.collector.close()
