"""The uninstallation scales the Deployments to zero, and writes nothing to one that has no replicas."""

import datetime as dt

import pytest

from apiserver_client import session
from manager.cli.cleanup import Cleanup
from tests.fakes import cluster
from tests.manager.conftest import NAMESPACE

NOON = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)


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
