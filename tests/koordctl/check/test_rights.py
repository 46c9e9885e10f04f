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
"""Kinds without a namespace; pods are read in every one."""


@pytest.mark.parametrize("rights", [reading.VIEWER, reading.INSTALLER], ids=["viewer", "installer"])
async def test_a_right_is_asked_for_in_the_namespace_of_the_suite_or_in_the_whole_cluster(rights):
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        assert await reading.missing_rights(api, rights, NAMESPACE) == []
        reviews = [json.loads(request.body)["spec"]["resourceAttributes"] for request in server.requests]
    assert len(reviews) == len(rights)
    for review in reviews:
        resource = "/".join(filter(None, (review["resource"], review["subresource"])))
        assert review.get("namespace") == (None if resource in CLUSTER_WIDE | {"pods"} else NAMESPACE), review
