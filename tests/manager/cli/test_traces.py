"""What an uninstallation finds of the suite, and how long it waits for a leader."""

import datetime as dt

import pytest

from api_types import names
from api_types.kubernetes import pods
from apiserver_client import session
from manager.cli import cleanup
from tests.fakes import cluster
from tests.manager.conftest import MID, NAMESPACE

NOON = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


def node(*, capacity=(), allocatable=(), annotation=None):
    return pods.Node(
        metadata=pods.ObjectMeta(name="n1", annotations={annotation: "{}"} if annotation else None),
        status=pods.NodeStatus(
            capacity={"cpu": "1", **dict.fromkeys(capacity, "0")},
            allocatable={"cpu": "1", **dict.fromkeys(allocatable, "0")},
        ),
    )


@pytest.mark.parametrize(
    "traces",
    [
        *({"capacity": (mid,)} for mid in MID),
        *({"allocatable": (mid,)} for mid in MID),
        {"annotation": names.ANNOTATION_MID_STATUS},
        {"annotation": names.OLD_ANNOTATION_MID_STATUS},
        {"annotation": names.ANNOTATION_MID_EVICTION},
    ],
)
def test_each_trace_alone_is_one(traces):
    assert cleanup.carries_traces(node(**traces))


@pytest.mark.parametrize("more", [{}, {"annotation": "theirs"}])
def test_what_others_wrote_is_none(more):
    assert not cleanup.carries_traces(node(**more))


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"holderIdentity": "leader", "leaseDurationSeconds": 15}, 15.0),
        ({"holderIdentity": "leader"}, 0.0),
        ({"holderIdentity": "", "leaseDurationSeconds": 15}, 0.0),
        ({"holderIdentity": cleanup.IDENTITY, "leaseDurationSeconds": 15}, 0.0),
    ],
)
async def test_a_lease_is_waited_for_as_long_as_its_former_holder_may_lead(spec, seconds):
    async with cluster.running() as server:
        server.add("leases", {"metadata": {"name": "l"}, "spec": spec}, NAMESPACE)
        async with session.connect(server.connection(), user_agent="test/1") as api:
            assert await cleanup.Cleanup(api, NAMESPACE, lambda: NOON).take_lease("l", 300) == seconds
        assert server.get("leases", "l", NAMESPACE)["spec"]["holderIdentity"] == cleanup.IDENTITY
