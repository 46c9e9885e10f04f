"""However many requests come, the cluster is read once for all of them; a failure keeps what was read before."""

import asyncio
import contextlib
import datetime as dt

import pytest

from apiserver_client import connection, errors
from component_base import clock
from console.cluster import poller as poller_module
from console.cluster import reading
from console.cluster.poller import Poller
from console.web.app import PagesApp
from fleet.reading import Reader
from manager.slo_config import evaluation
from tests.console import browsers
from tests.fakes import apiserver
from tests.fleet import cluster

pytestmark = pytest.mark.slow

NODES, METRICS = "/api/v1/nodes", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CONFIG = "/api/v1/namespaces/koordinator-system/configmaps/koord-scheduler"


@contextlib.asynccontextmanager
async def polling(*nodes, **more):
    async with apiserver.running() as server:
        server.on("GET", NODES, *(nodes or [apiserver.Answer(cluster.listing(cluster.node()))]))
        server.on("GET", METRICS, apiserver.Answer(cluster.listing(cluster.metric())))
        poller = Poller(connection.Connection(server=server.url, origin="a test"), "koordinator-system", **more)
        poller.start()
        try:
            yield server, poller
        finally:
            await asyncio.to_thread(poller.stop)
            assert not poller.is_alive()


async def first(poller):
    await asyncio.to_thread(poller.first.wait, 10)


async def test_many_requests_make_one_snapshot():
    async with polling() as (server, poller):
        await first(poller)
        for _ in range(100):
            poller.newest()
        assert [node.name for node in poller.newest().nodes] == ["worker-1"]
        assert len(server.asked("GET", NODES)) == 1


async def test_a_failure_is_named_and_what_was_read_before_stays():
    bad = apiserver.Answer({"kind": "Status", "reason": "InternalError", "message": "no leader", "code": 500}, 500)
    async with polling(apiserver.Answer(cluster.listing(cluster.node())), bad, interval_seconds=0.01) as (
        server,
        poller,
    ):
        await first(poller)
        poller.newest()
        await server.until(lambda: len(server.asked("GET", NODES)) >= 2)
        while not poller.view.error:
            await asyncio.sleep(0.01)
        assert "no leader" in poller.view.error
        assert [node.name for node in poller.view.nodes] == ["worker-1"]


async def test_without_an_apiserver_the_first_attempt_ends_with_the_cause(closed_port):
    server = f"http://127.0.0.1:{closed_port}"
    poller = Poller(connection.Connection(server=server, origin="a test"), "koordinator-system")
    poller.start()
    await first(poller)
    assert poller.view.snapshot is None
    assert server.removeprefix("http://") in poller.view.error
    await asyncio.to_thread(poller.stop)


async def test_a_connection_that_cannot_be_made_is_the_cause_for_all_who_ask():
    async def read(_api):
        raise AssertionError("there is no session")

    to = connection.Connection(server="https://127.0.0.1:1", origin="a test", proxy_url="ftp://proxy")
    poller = Poller(to, "koordinator-system")
    poller.start()
    assert await asyncio.to_thread(poller.first.wait, 10)
    assert "ftp://proxy" in poller.view.error
    with pytest.raises(errors.NoCredentials, match="ftp://proxy"):
        await asyncio.wait_for(poller.detail(("x",), read), 10)
    await asyncio.to_thread(poller.stop)
    assert not poller.is_alive()


async def test_what_one_page_shows_is_read_once_for_all_who_ask():
    reads = []

    async def read(_api):
        reads.append(1)
        await asyncio.sleep(0)
        return "answer"

    async with polling() as (_, poller):
        answers = await asyncio.gather(*(poller.detail(("node", "a"), read) for _ in range(20)))
        answers.append(await poller.detail(("node", "a"), read))
        assert set(answers) == {"answer"}
        assert len(reads) == 1
        await poller.detail(("node", "b"), read)
        assert len(reads) == 2


async def test_those_who_wait_end_with_the_poller():
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def read(_api):
        loop.call_soon_threadsafe(asked.set)
        await asyncio.Event().wait()

    async with polling() as (_, poller):
        waiting = [asyncio.create_task(poller.detail((key,), read)) for key in ("a", "a", "b")]
        await asked.wait()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 3


async def test_a_failed_detail_is_raised_to_all_who_ask():
    async def read(_api):
        raise errors.Unreachable("gone")

    async with polling() as (_, poller):
        answers = await asyncio.gather(*(poller.detail(("x",), read) for _ in range(3)), return_exceptions=True)
        assert [str(answer) for answer in answers] == ["gone"] * 3


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (apiserver.Answer({"metadata": {}, "data": {"scheduler-plugin.yaml": "plugins: {}"}}), 65),
        (apiserver.Answer(cluster.forbidden("it"), 403), None),
    ],
)
async def test_the_threshold_is_that_of_the_scheduler_where_it_may_be_read(answer, wanted):
    async with apiserver.running() as server:
        for path, given in ((NODES, cluster.listing(cluster.node())), (METRICS, cluster.listing())):
            server.on("GET", path, apiserver.Answer(given))
        server.on("GET", CONFIG, answer)
        async with server.session() as api:
            result = await Reader(api, dt.datetime.fromisoformat(cluster.NOW)).snapshot("koordinator-system")
    assert result.usage_limits.get("cpu") == wanted
    assert not [each for each in result.unread if each.what == "configmaps/koord-scheduler"]


@pytest.mark.parametrize("metric", [apiserver.Answer(cluster.metric()), apiserver.Answer(cluster.forbidden("it"), 403)])
async def test_a_node_is_explained_with_its_layers_also_without_its_report(metric):
    data = {"colocation-config": '{"enable": true, "midCPUThresholdPercent": 50}'}
    outcome = evaluation.evaluate(None, data, exists=True)
    async with apiserver.running() as server:
        server.on("GET", f"{NODES}/worker-1", apiserver.Answer(cluster.node(annotations=cluster.mid_status())))
        server.on("GET", f"{METRICS}/worker-1", metric)
        async with server.session() as api:
            now = dt.datetime.fromisoformat(cluster.NOW)
            found = await reading.node(api, "worker-1", now, outcome)
    assert found.explanation.node == "worker-1"
    assert found.layers["midCPUThresholdPercent"] == "cluster strategy"
    assert [each.what for each in found.unread if each.is_right] == ["nodemetrics"] * (metric.status == 403)


async def test_pods_that_have_a_node_do_not_wait():
    waiting = cluster.pod("waits", node="")
    starting = cluster.pod("starts")
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.page("7", waiting, starting), selector="status.phase=Pending")
        async with server.session() as api:
            found = await reading.pending(api, None)
    assert [pod.metadata.name for pod in found.items] == ["waits"]


async def test_what_only_a_page_shows_is_read_from_the_cache_of_the_apiserver():
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.page("7"))
        async with server.session() as api:
            await reading.pending(api, None)
    (asked,) = server.asked("GET")
    assert (asked.query["resourceVersion"], asked.query.get("limit")) == ("0", None)


async def test_one_request_makes_one_more_snapshot_and_not_one_after_the_other(monkeypatch):
    monkeypatch.setattr(poller_module, "_PAUSE_FACTOR", 0.0)
    async with polling(interval_seconds=0.0) as (server, poller):
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.listing()))
        await first(poller)
        assert len(poller.history.node_points("worker-1", "cpu")) == 1
        poller.newest()
        await server.until(lambda: len(server.asked("GET", NODES)) >= 2)
        for number in range(30):  # time for more snapshots
            await poller.detail((str(number),), lambda api: reading.pending(api, None))
        assert len(server.asked("GET", NODES)) == 2


async def test_of_unreadable_pods_the_first_one_is_named():
    bad = [{"metadata": {"name": name, "namespace": "shop"}, "spec": 5} for name in ("one", "two")]
    shown = {"metadata": {"name": "three"}, "spec": {"schedulerName": "s", "containers": 5}}  # containers are skipped
    async with apiserver.running() as server, server.session() as api:
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.listing(*bad, shown)))
        listed = await reading.pending(api, None)
    assert [(pod.metadata.name, pod.spec.scheduler_name) for pod in listed.items] == [("three", "s")]
    (unread,) = listed.unread
    assert unread.what == "2 pods"
    assert "one" in unread.why
    assert "two" not in unread.why


async def test_a_page_that_wakes_up_shows_a_new_snapshot_and_ages_by_the_clock(monkeypatch):
    now = dt.datetime.fromisoformat(cluster.NOW)
    monkeypatch.setattr(clock, "utc_now", lambda: now)
    async with polling(interval_seconds=0.01) as (_, poller):
        await first(poller)
        old = poller.view
        now += dt.timedelta(minutes=25)
        pages = PagesApp(poller, browsers.no_records).app("")
        async with browsers.client(pages) as client:
            text = (await client.get("/")).text
        assert poller.view is not old
        assert "Stale" not in text
        assert "25 m" in text, "the age of the report"
