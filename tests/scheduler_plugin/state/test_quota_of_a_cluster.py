"""The Mid quota that pods of a cluster hold ends with them."""

import pytest

from scheduler_plugin.state import pod_info
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.mid_quotas import EXPECTED_SECONDS
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

MID = {"kubernetes.io/mid-cpu": "2k", "kubernetes.io/mid-memory": "5"}
HELD, NOTHING = (2000, 5), (0, 0)


@pytest.fixture
def clock():
    return factories.Clock()


@pytest.fixture
def cluster(clock):
    return factories.parts(monotonic=clock, assumed_ttl_seconds=120).cluster


def pod(**more):
    return factories.pod("web", priority=7500, requests=MID, **more)


def held(cluster):
    return tuple(cluster.vectors.mid_quotas.use_of("default").held)


def test_an_expected_pod_holds_its_part_for_its_time(cluster, clock):
    clock.seconds = 1000.0
    cluster.expect_pod(pod_info.read(pod(), EstimatorArgs(("cpu",), {})))
    assert held(cluster) == HELD
    clock.seconds += EXPECTED_SECONDS - 1
    cluster.expire_assumed()
    assert held(cluster) == HELD
    clock.seconds += 1
    cluster.expire_assumed()
    assert held(cluster) == NOTHING


@pytest.mark.parametrize("end", ["deleted", "ended", "missing in a list"])
def test_a_bound_pod_holds_its_part_until_it_is_gone(cluster, end):
    cluster.pod_changed(pod(node="n1", phase="Running"), NOW)
    assert held(cluster) == HELD
    if end == "deleted":
        cluster.pod_deleted("default", "web", "uid-web")
    elif end == "ended":
        cluster.pod_changed(pod(node="n1", phase="Failed"), NOW)
    else:
        list(cluster.keep_pods(()))
    assert held(cluster) == NOTHING


def test_an_assumed_pod_holds_its_part_until_it_expires_or_is_forgotten(cluster, clock):
    cluster.assume_pod(pod(), "n1", NOW)
    assert held(cluster) == HELD
    cluster.forget_assumed(pod())
    assert held(cluster) == NOTHING
    cluster.assume_pod(pod(), "n1", NOW)
    clock.seconds = 120.0
    assert cluster.expire_assumed() == 1
    assert held(cluster) == NOTHING


def test_a_pod_that_moves_holds_its_part_once(cluster):
    cluster.assume_pod(pod(), "n1", NOW)
    cluster.pod_changed(pod(node="n2", phase="Running"), NOW)
    assert held(cluster) == HELD
