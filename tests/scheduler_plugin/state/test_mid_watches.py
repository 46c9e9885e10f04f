"""The watches of midEmergency and of Namespaces, against a scripted apiserver."""

import asyncio
import contextlib
import json

import pytest

from api_types import names
from apiserver_client import session
from apiserver_client.watching import WatchState
from scheduler_plugin.state import mid_watches
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.mid_watches import EmergencyWatch, NamespaceWatch
from tests.fakes import apiserver, cluster
from tests.scheduler_plugin import factories

NAMESPACE = "koordinator-system"


KEY = ("configmaps", names.LAST_GOOD_CONFIG)


def namespace(name, quota=None):
    return {"metadata": {"name": name, "annotations": {} if quota is None else {"koordinator.sh/mid-quota": quota}}}


def data(document):
    return {"data": {"colocation-config": document if isinstance(document, str) else json.dumps(document)}}


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_freezes_and_thaws_within_a_moment_and_ignores_what_is_not_valid(monkeypatch):
    columns = factories.parts().vectors
    async with cluster.running() as server, session.connect(server.connection(), user_agent="test/1") as api:
        watch, applied = mid_watches.EmergencyWatch(api, columns, NAMESPACE), []
        monkeypatch.setattr(watch, "_apply", lambda event, apply=watch._apply: (apply(event), applied.append(event)))
        following = asyncio.create_task(watch.run())
        server.add("configmaps", {"metadata": {"name": KEY[1]}, **data({"midEmergency": "none"})}, NAMESPACE)
        server.add("configmaps", {"metadata": {"name": "other"}, **data({"midEmergency": "drain"})}, NAMESPACE)
        for value, frozen in (("freeze", True), ("none", False), ("drain", True)):
            server.patch(*KEY, data({"midEmergency": value}), NAMESPACE)
            await until(lambda frozen=frozen: columns.frozen is frozen)
        before = len(applied)
        server.patch(*KEY, data("{"), NAMESPACE)
        server.patch(*KEY, data('{"midEmergency": "none of these"}'), NAMESPACE)
        await until(lambda: len(applied) == before + 2)
        assert columns.frozen is True
        server.remove(*KEY, NAMESPACE)
        await until(lambda: columns.frozen is False)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


@pytest.mark.parametrize(
    ("text", "frozen"),
    [(None, False), ("{}", False), ('{"MIDEMERGENCY": "freeze"}', True), ('{"midEmergency": "x"}', None), ("{", None)],
)
def test_reads_the_document_as_the_manager_does(text, frozen):
    assert mid_watches.is_frozen(text) is frozen


EXPIRED = apiserver.status(410, "Expired")


@contextlib.asynccontextmanager
async def followed(path, watch_of, *lists):
    """Run a watch on a server with these lists, each after a gap."""
    async with apiserver.running() as server:
        server.on("GET", path, *(apiserver.page(str(900 + at), *items) for at, items in enumerate(lists)))
        server.on("WATCH", path, *([EXPIRED] * (len(lists) - 1)), apiserver.Stream(apiserver.HANG))
        async with server.session() as api:
            task = asyncio.create_task(watch_of(api).run())
            yield server
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_the_quotas_of_namespaces_that_are_gone_end():
    quotas = MidQuotas()
    shop, lab = (namespace(name, '{"cpu": "20"}') for name in ("shop", "lab"))
    path = "/api/v1/namespaces"
    async with followed(path, lambda api: NamespaceWatch(api, quotas, WatchState()), [shop, lab], [lab]):
        await until(lambda: quotas.namespace_use("lab").quota.cpu_millis == 20_000)
        await until(lambda: quotas.namespace_use("shop").quota.cpu_millis is None)
    assert quotas.is_known
    assert quotas.namespace_use("lab").quota.cpu_millis == 20_000


async def test_a_missing_config_map_closes_no_node():
    columns = factories.parts().vectors
    columns.frozen = True
    path = "/api/v1/namespaces/koord/configmaps"
    async with followed(path, lambda api: EmergencyWatch(api, columns, "koord"), []):
        await until(lambda: columns.frozen is False)


@contextlib.asynccontextmanager
async def following(server, quotas):
    async with session.connect(server.connection(), user_agent="test/1") as api:
        task = asyncio.create_task(NamespaceWatch(api, quotas, WatchState()).run())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_follows_the_annotation_of_namespaces_that_come_change_and_go():
    quotas = MidQuotas()
    async with cluster.running() as server:
        server.add("namespaces", namespace("shop", '{"cpu": "20"}'))
        async with following(server, quotas):
            await until(lambda: quotas.namespace_use("shop").quota.cpu_millis == 20_000 and quotas.is_known)
            server.add("namespaces", namespace("lab", "{"))
            await until(lambda: quotas.namespace_use("lab").problem)
            server.patch("namespaces", "shop", {"metadata": {"annotations": {"koordinator.sh/mid-quota": None}}})
            await until(lambda: quotas.namespace_use("shop").quota.cpu_millis is None)
            server.remove("namespaces", "lab")
            await until(lambda: not quotas.namespace_use("lab").problem)


async def test_without_the_permission_the_quotas_stay_unknown():
    quotas = MidQuotas()
    async with cluster.running() as server:
        server.refuse["GET", "namespaces"] = cluster.Refusal(403, "Forbidden", "namespaces")
        async with following(server, quotas):
            await until(lambda: not quotas.is_known)
            await until(lambda: any("/namespaces" in each.path for each in server.requests))
    assert not quotas.is_known


async def test_only_the_metadata_of_namespaces_is_asked_for():
    quotas = MidQuotas()
    async with cluster.running() as server:
        server.add("namespaces", namespace("shop", '{"cpu": "20"}'))
        async with following(server, quotas):
            await until(lambda: quotas.namespace_use("shop").quota.cpu_millis == 20_000)
        asked = [each for each in server.requests if "/namespaces" in each.path]
    assert asked
    assert all("PartialObjectMetadata" in each.headers["accept"] for each in asked)
