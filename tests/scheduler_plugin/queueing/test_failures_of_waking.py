"""A failed patch of a refused pod, and claims that are bound already."""

import pytest

from scheduler_plugin.queueing import tasks
from tests.fakes import apiserver
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.queueing.test_tasks import Refused, claim, times_of_two_patches

BROKEN = apiserver.Answer({"kind": "Status", "code": 403, "message": "no"}, 403)


async def test_a_refusal_of_the_apiserver_counts_once_and_the_next_round_tries_again(monkeypatch):
    refused = Refused()
    first, second = await times_of_two_patches(monkeypatch, refused, BROKEN, apiserver.Answer({}))
    assert refused.failed == 1
    assert second - first == tasks._RETRY_SECONDS


@pytest.mark.parametrize(
    ("claims", "node"),
    [
        ({"c1": claim("a", "pv-1")}, "a"),
        ({"c1": claim("b", "pv-1")}, None),
        ({"c1": claim("a", "pv-1"), "c2": claim("b", "pv-2")}, "a"),
        ({"gone": apiserver.status(404, "NotFound", name="gone"), "c2": claim("b")}, "b"),
        ({"c1": claim("")}, None),
    ],
)
async def test_of_bound_claims_only_one_of_the_expected_node_names_it(claims, node):
    async with apiserver.running() as server:
        for name, answer in claims.items():
            server.on("GET", f"/api/v1/namespaces/default/persistentvolumeclaims/{name}", answer)
        async with server.session() as api:
            queueing = tasks.QueueingTasks(api, None, None, lambda: NOW)
            assert await queueing._selected_node("default", list(claims), "a") == node
