"""A day of history from a real Prometheus, and peers that are silent, slow, endless or none at all."""

import asyncio
import contextlib
import gzip
import itertools
import json
import re
import time

import pytest

from console.history import prometheus as client
from console.history.prometheus import CpuHistory
from e2e.thirdparty.prometheus import backfill
from e2e.thirdparty.prometheus import server as real
from e2e.thirdparty.prometheus.backfill import Sample
from tests.console import browsers, fleets
from tests.fakes import connections

pytestmark = pytest.mark.slow

NODES = ("worker-0001", "worker-0002")
STEP = 60
WANTED = {"used": 8.0, "prod_used": 5.0, "prod_peak": 6.0, "mid": 4.0, "mid_requests": 3.0}
"""Values of each node; those of all nodes are twice as much."""
PATHS = ("/mid", "/nodes/worker-0001")


def samples():
    """Yield a day and more of two nodes as two replicas of Prometheus scrape them, and series that do not count."""
    end = int(time.time())
    of_series = [
        ("koord_manager_node_mid_cpu_cores", {}, "mid"),
        ("koord_manager_node_mid_cpu_term_cores", {"term": "allocated"}, "mid_requests"),
        ("koord_manager_node_mid_cpu_term_cores", {"term": "unused"}, None),
        ("koordlet_prod_peak_cpu_cores", {"predictor": "n-sigma-v2"}, "prod_peak"),
        ("koordlet_usage_cpu_cores", {"kind": "mid"}, None),
        ("koordlet_usage_cpu_cores", {"kind": "node"}, "used"),
        ("koordlet_usage_cpu_cores", {"kind": "prod"}, "prod_used"),
    ]
    for name, labels, series in of_series:
        for node in NODES:
            for replica in ("a", "b"):
                own = {**labels, "node": node, "instance": f"{node}:9316", "prometheus_replica": replica}
                for at in range(end - 26 * 3600, end, STEP):
                    yield Sample(name, own, at, WANTED[series] if series else 99.0)
        forged = {**labels, "node": NODES[1], "instance": "10.9.9.9:80", "job": "tenant"}
        for at in range(end - 26 * 3600, end, STEP):
            yield Sample(name, forged, at, 1e6)


@pytest.fixture(scope="module")
def a_day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a-day")
    backfill.write(folder, samples())
    started = real.Prometheus(folder)
    started.start({}, "none")
    yield started.url
    started.stop()


@contextlib.asynccontextmanager
async def answering(*pieces, pause=0.0, then_close=True):
    """Serve these bytes to every connection; yield the address and what was asked."""
    asked = []

    async def serve(reader, writer):
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"(?i)content-length: (\d+)", head)
            asked.append(head + (await reader.readexactly(int(length[1]) if length else 0)).decode())
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
            if not then_close:
                await reader.read()

    async with connections.served(serve) as port:
        yield f"http://127.0.0.1:{port}", asked


def http(body, status="200 OK", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


def result(*series):
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}}).encode()


async def page(url, path="/mid"):
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(2)), prometheus=CpuHistory(url))
    async with browsers.client(asgi) as opened:
        answer = await opened.get(path)
    assert answer.status_code == 200
    assert len(answer.content) <= 60_000
    assert "cores" in answer.text
    return answer.text


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(client, "_PAGE_SECONDS", 0.3)
    monkeypatch.setattr(client, "_READ_SECONDS", 0.6)


# a real one


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("node", "factor"), [("", 2), (NODES[1], 1)])
async def test_a_day_of_all_nodes_and_of_one(a_day, node, factor):
    found = await CpuHistory(a_day, "{job!='tenant'}").cpu(node)
    points = found["prometheus_points"]
    assert 96 <= len(points) <= 97
    assert {each.values for each in points} == {tuple(factor * value for value in WANTED.values())}
    assert {later.time_seconds - each.time_seconds for each, later in itertools.pairwise(points)} == {900}
    assert time.time() - points[-1].time_seconds < 900 + 60


@pytest.mark.timeout(180)
@pytest.mark.parametrize("path", PATHS)
async def test_the_page_has_the_day_as_a_table_and_one_more_chart(a_day, path):
    text = await page(a_day, path)
    assert "from Prometheus" in text
    assert text.count("<td data-t=") >= 96
    assert "Incomplete" not in text


# none at all


LARGE = gzip.compress(b" " * 50_000_000, mtime=0)


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (http(b"<html>Sign in</html>"), "returned 200 and no result of Prometheus; check the address"),
        (http(b"", "302 Found", "Location: http://127.0.0.1:1/"), "returned 302 and no result"),
        (http(b'{"status":"error","error":"no such function"}', "400 Bad Request"), "returned 400: : no such function"),
        (http(b'{"error":"' + b"<b>" * 1000 + b'"}', "500 Internal Server Error"), "returned 500 and no result"),
        (http(b'{"data":{"result":[{"values":[["1",2]]}]}}'), "no result of Prometheus"),
        (http(b'{"data":{"result":[{"values":[[1e999,"1"]]}]}}'), "no result of Prometheus"),
        (http(b"x" * 300_000), "returned more than 256 KiB"),
        (
            http(LARGE, "200 OK", "Content-Encoding: gzip"),
            "returned more than 256 KiB",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer"),
    ],
)
async def test_garbage_is_a_sentence_on_the_page(reply, wanted):
    async with answering(reply) as (url, _):
        text = await page(url)
    assert "Prometheus does not answer: " in text
    assert wanted in text
    assert "<b><b>" not in text


async def test_a_closed_port_is_a_sentence_on_the_page(closed_port):
    assert "Prometheus does not answer: " in await page(f"http://127.0.0.1:{closed_port}")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "no address", "http://[::1", "http://a..b:1"])
async def test_an_address_that_is_none_is_a_sentence_on_the_page(url):
    assert "Prometheus does not answer: " in await page(url)


async def test_times_and_values_that_were_not_asked_for_are_dropped():
    end = int(time.time()) // 900 * 900
    values = [
        [end - 900, "1.5"],
        [end, "NaN"],
        [end - 1, "7"],
        [0, "7"],
        [1e15, "7"],
        [-1e15, "7"],
        [end - 1800, "+Inf"],
    ]
    async with answering(http(result({"metric": {}, "values": values}))) as (url, _):
        found = await CpuHistory(url).cpu()
    assert found == {"prometheus_points": [client.HistoryPoint(end - 900, (1.5,) * 5)]}


async def test_a_silent_one_delays_one_page_only_and_is_asked_again_later(impatient, monkeypatch):
    async with answering(then_close=False) as (url, asked):
        asgi, _ = browsers.app(fleets.seen(fleets.nodes(60)), prometheus=CpuHistory(url))
        async with browsers.client(asgi) as opened:
            began = time.monotonic()
            assert "takes longer than" in (await opened.get("/mid")).text
            await asyncio.sleep(0.5)
            names = [f"/nodes/worker-{number:04}" for number in range(1, 40)]
            answers = await asyncio.gather(*(opened.get(each) for each in ("/mid", *names)))
            assert all("did not answer within" in each.text for each in answers)
            assert time.monotonic() - began < 10
            assert len(asked) == 1
            monkeypatch.setattr(client, "_SILENT_SECONDS", -1.0)
            monkeypatch.setattr(client.time, "monotonic", lambda real=time.monotonic: real() + 60)
            await opened.get("/mid")
            assert len(asked) == 2


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
async def test_a_slow_one_ends_at_the_limit_of_time(impatient, head):
    async with answering(head, *[b"x"] * 1000, pause=0.05) as (url, _):
        began = time.monotonic()
        reader = CpuHistory(url)
        assert "takes longer than" in (await reader.cpu())["prometheus_problem"]
        await asyncio.sleep(0.5)
        assert "did not answer within" in (await reader.cpu())["prometheus_problem"]
        assert time.monotonic() - began < 5


async def test_one_without_end_is_cut_off():
    endless = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        *[b"10000\r\n" + b" " * 65536 + b"\r\n"] * 10_000,
    )
    async with answering(*endless) as (url, _):
        assert "more than 256 KiB" in await page(url)


async def test_many_who_ask_at_once_are_one_read():
    async with answering(http(result())) as (url, asked):
        reader = CpuHistory(url)
        answers = await asyncio.gather(*(reader.cpu("n1") for _ in range(50)))
        answers.append(await reader.cpu("n1"))
    assert answers == [{"prometheus_points": []}] * 51
    assert len(asked) == len(client.SERIES)
