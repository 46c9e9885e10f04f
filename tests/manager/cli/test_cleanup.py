import datetime as dt
import functools

import pytest

from api_types import names
from api_types.kubernetes import pods
from apiserver_client import errors, resources, session
from manager.cli.lowered_limits import AT_ONCE
from manager.cli.uninstall import Cleanup, carries_traces
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
        {"annotation": names.ANNOTATION_MID_EVICTION},
    ],
)
def test_each_trace_alone_is_one(traces):
    assert carries_traces(node(**traces))


@pytest.mark.parametrize(("replicas", "writes"), [(0, 0), (1, 1), (2, 1)])
async def test_a_deployment_with_replicas_is_scaled_to_zero_and_its_pods_are_named(replicas, writes):
    async with cluster.running() as server:
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "m"}}}
        server.add("deployments", {"metadata": {"name": "m"}, "spec": spec}, NAMESPACE)
        for name, phase, app in (("a", "Running", "m"), ("b", "Succeeded", "m"), ("c", "Running", "other")):
            metadata = {"name": name, "labels": {"app": app}}
            server.add("pods", {"metadata": metadata, "status": {"phase": phase}}, NAMESPACE)
        async with session.connect(server.connection(), user_agent="test") as api:
            left = await Cleanup(api, NAMESPACE, lambda: NOON).stop(["gone", "m"])
        assert left == ["a"]
        assert [path.endswith("/m/scale") for _, path, _ in server.writes] == [True] * writes
        assert server.get("deployments", "m", NAMESPACE)["spec"]["replicas"] == 0


NAMES = [f"p{number}" for number in range(3 * AT_ONCE)]


class Once(dict):
    """Refusals that answer one request each."""

    def get(self, key, default=None):
        return self.pop(key, default)


@pytest.mark.parametrize("resource", [resources.PODS, resources.LEASES])
async def test_every_other_object_is_deleted_before_a_refusal_is_raised(resource):
    plural = resource.plural
    async with cluster.running() as server:
        for name in NAMES:
            server.add(plural, {"metadata": {"name": name}}, NAMESPACE)
        server.refuse = Once({("DELETE", plural): cluster.Refusal(403, "Forbidden")})
        async with session.connect(server.connection(), user_agent="test") as api:
            act = functools.partial(Cleanup(api, NAMESPACE, lambda: NOON).delete, resource)
            with pytest.raises(errors.Forbidden):
                await act(["absent", *NAMES])
            assert len(server.all(plural)) <= 1
            assert await act(NAMES) == []
        assert server.all(plural) == []
