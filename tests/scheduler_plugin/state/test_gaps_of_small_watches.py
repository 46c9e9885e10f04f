"""What the watches of quotas and of midEmergency take from a new list, after they missed events."""

import asyncio
import contextlib

import pytest

from apiserver_client import watching
from apiserver_client.watching import WatchState
from scheduler_plugin.state.emergency import EmergencyWatch
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.namespace_watch import NamespaceWatch
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.state.test_namespace_watch import namespace, until

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
        await until(lambda: quotas.use_of("lab").quota.cpu_millis == 20_000)
        await until(lambda: quotas.use_of("shop").quota.cpu_millis is None)
    assert quotas.is_known
    assert quotas.use_of("lab").quota.cpu_millis == 20_000


async def test_a_namespace_that_is_deleted_has_the_default_quota():
    quotas = MidQuotas()
    watch = NamespaceWatch(None, quotas, WatchState())
    key = watching.Key("", "shop")
    quotas.namespace_changed("shop", '{"cpu": "20"}')
    watch._apply(watching.Unreadable(key, "nonsense"))
    assert quotas.use_of("shop").quota.cpu_millis == 20_000
    watch._apply(watching.Deleted(key, None))
    assert quotas.use_of("shop").quota == quotas.default


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
