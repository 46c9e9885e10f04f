"""A request that fails for one node or namespace holds up no other one while nodes are emptied."""

import logging

from tests.fakes import cluster
from tests.manager.evictions import TENANT
from tests.manager.mid_resource.eviction.test_mid_only_nodes import AT_ONCE, PLENTY, start

NODES = ("n1", "n2", "n3")
AWAY = cluster.Refusal(500, "InternalError", message="etcd is away")


async def reported(short):
    for node in NODES:
        await short.report(node, **PLENTY)


async def test_a_list_that_fails_ends_no_other_list_of_the_round(short, monkeypatch, caplog):
    of_server, listed = short.server._list, []

    def pods_of_others_only(plural, namespace, query):
        if (selector := query.get("fieldSelector", "")).startswith("spec.nodeName="):
            listed.append(selector.partition("=")[2])
            if listed[-1] == "n1":
                raise AWAY
        return of_server(plural, namespace, query)

    await start(short, AT_ONCE, nodes=NODES)
    await reported(short)
    monkeypatch.setattr(short.server, "_list", pods_of_others_only)
    await short.round()
    assert sorted(listed) == ["n1", "n2", "n3"]
    assert listed[-1] != "n1", "a failure of the last list proves nothing"
    assert "node n1: cannot list its pods, so it is not emptied" in caplog.text


async def test_a_right_that_cannot_be_asked_for_holds_up_no_node_of_another_namespace(short, monkeypatch, caplog):
    of_server = short.server._do

    def no_review_of_one(request, key, subresource):
        if key[0] == "selfsubjectaccessreviews" and b'"unknown"' in request.body:
            raise AWAY
        return of_server(request, key, subresource)

    await start(short, AT_ONCE, nodes=NODES, pods=0, may_evict=(TENANT,))
    for node, namespace in zip(NODES, ("unknown", TENANT, TENANT), strict=True):
        short.add_pod(f"{node}-m", node=node, namespace=namespace)
    monkeypatch.setattr(short.server, "_do", no_review_of_one)
    await short.minutes(5, nodes=NODES, **PLENTY)
    assert sorted(short.evicted) == ["n2-m", "n3-m"]
    assert short.closed("n1") == ""
    asked = [each for each in caplog.records if "node n1: cannot ask" in each.getMessage()]
    assert asked
    assert {each.levelno for each in asked} == {logging.WARNING}
