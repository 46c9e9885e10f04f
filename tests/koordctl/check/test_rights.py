"""Rights that `koordctl check` asks the API server about: in the whole cluster, or in the namespace of the suite."""

import json

import pytest

from apiserver_client import session
from koordctl.check import reading
from tests.fakes import cluster

NAMESPACE = "koordinator-system"


CLUSTER_WIDE = {
    "clusterrolebindings", "clusterroles", "customresourcedefinitions", "events", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations", "namespaces", "nodemetrics", "nodes",
    "priorityclasses", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
}  # fmt: skip


"""Kinds without a namespace."""


OF_EVERY_NAMESPACE = {"pods"}


@pytest.mark.parametrize("wanted", [reading.VIEWER, reading.INSTALLER], ids=["viewer", "installer"])
async def test_a_right_is_asked_for_in_the_namespace_of_the_suite_or_in_the_whole_cluster(wanted):
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        assert await reading.missing_rights(api, wanted, NAMESPACE) == []
        asked = [json.loads(each.body)["spec"]["resourceAttributes"] for each in server.requests]
    assert len(asked) == len(wanted)
    for each in asked:
        resource = "/".join(filter(None, (each["resource"], each["subresource"])))
        expected = None if resource in CLUSTER_WIDE | OF_EVERY_NAMESPACE else NAMESPACE
        assert each.get("namespace") == expected, each
