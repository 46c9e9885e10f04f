"""The watch of midEmergency, against a scripted apiserver."""

import asyncio
import contextlib
import json

import pytest

from apiserver_client import session, watching
from apiserver_client.watching import WatchState
from scheduler_plugin.state import mid_watches
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.mid_watches import EmergencyWatch, NamespaceWatch
from tests.fakes import apiserver, cluster
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.state.test_namespace_watch import namespace

NAMESPACE = "koordinator-system"


KEY = ("configmaps", mid_watches.CONFIG_MAP)


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


async def test_a_namespace_that_is_deleted_has_the_default_quota():
    quotas = MidQuotas()
    watch = NamespaceWatch(None, quotas, WatchState())
    key = watching.Key("", "shop")
    quotas.namespace_changed("shop", '{"cpu": "20"}')
    watch._apply(watching.Unreadable(key, "nonsense"))
    assert quotas.namespace_use("shop").quota.cpu_millis == 20_000
    watch._apply(watching.Deleted(key, None))
    assert quotas.namespace_use("shop").quota == quotas.default


async def test_a_missing_config_map_closes_no_node():
    columns = factories.parts().vectors
    columns.frozen = True
    path = "/api/v1/namespaces/koord/configmaps"
    async with followed(path, lambda api: EmergencyWatch(api, columns, "koord"), []):
        await until(lambda: columns.frozen is False)


@pytest.mark.parametrize(
    ("event", "frozen"),
    [
        (watching.Synced(frozenset(), "5"), False),
        (watching.Synced(frozenset({"any"}), "5"), True),
        (watching.Deleted(watching.Key("koord", "c"), None), False),
        (watching.Unreadable(watching.Key("koord", "c"), "nonsense"), True),
    ],
)
def test_nodes_stay_closed_unless_the_config_map_is_gone(event, frozen):
    columns = factories.parts().vectors
    columns.frozen = True
    EmergencyWatch(None, columns, "koord")._apply(event)
    assert columns.frozen is frozen
